"""What an operator may set: where a server listens and what it is for, its limits of sessions, bodies and time.

Each setting says what it is for and what may stand in it; flags, variables, the file of settings and the page on
serving are made from that (see :mod:`~agentenvs_servers.configuring`). Nothing here is heavy: the command line reads it
to know its flags.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar, get_args, get_type_hints

from agentenvs.core.errors import ConfigError

LEAST_TOKEN_CHARACTERS = 16

V1 = "v1"
"""Name of the native protocol among the doors."""

PLAY = "play"
"""Name of the playground among the doors."""

DOORS = (V1, "openenv", "ors", "mcp", "retrieval", "web", PLAY)
"""Protocols that a server can speak."""

_DOOR = f"({'|'.join(DOORS)})"

T = TypeVar("T")


class Bounds(NamedTuple):
    """What may stand in a setting, besides its type."""

    least: float | None = None
    most: float | None = None
    pattern: str | None = None
    choices: tuple[str, ...] = ()


def setting(
    default: T,
    said: str,
    *,
    least: float | None = None,
    most: float | None = None,
    pattern: str | None = None,
    choices: tuple[str, ...] = (),
    shown: bool = False,
    flags: tuple[str, ...] = (),
) -> T:
    """Return a field of settings.

    Args:
        default: Where nobody says otherwise.
        said: What it is for.
        least: The smallest number that may stand in it.
        most: The largest.
        pattern: What a text must match in full.
        choices: All that a text may be.
        shown: Whether the help of the command line lists its flag.
        flags: Further spellings of its flag.
    """
    bounds = Bounds(least, most, pattern, choices)
    made: T = field(default=default, metadata={"said": said, "bounds": bounds, "shown": shown, "flags": flags})
    return made


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server is, and what it shares with others."""

    host: str = setting("127.0.0.1", "Address to listen on; beyond this machine a token is needed.", shown=True)
    port: int = setting(8000, "Port; 0 for a free one.", least=0, most=65_535, shown=True)
    journal: str | None = setting(
        None,
        "File, or `postgresql://` URL, that sessions are kept in; `none` for memory alone. A file of this user's for "
        "each port otherwise, and memory with port 0.",
        shown=True,
    )
    workers: int = setting(1, "Processes on one journal.", least=1, most=1024, shown=True)
    insecure: bool = setting(False, "Serve beyond this machine without a token.", shown=True)
    without_token: str = setting(
        "refuse",
        "What a server beyond this machine does that has no token: refuse to start, or open the OpenEnv door alone.",
        choices=("refuse", "openenv"),
    )

    def __post_init__(self) -> None:
        """Refuse what cannot be.

        Raises:
            ConfigError: A value outside of its bounds.
        """
        check(self)


@dataclass(frozen=True, slots=True)
class Settings:
    """Limits, all of them told to clients by a problem of their own, and how the server tells of itself."""

    max_sessions: int = setting(4096, "Open sessions at a time (`at_capacity`).", least=1, shown=True)
    max_tenant_sessions: int | None = setting(
        None, "Open sessions of one tenant at a time (`quota_reached`), where its token says nothing else.", least=1
    )
    creates_per_second: float = setting(
        300.0,
        "Sessions that a tenant, or an address where there are no tokens, may make in the long run "
        "(`too_many_creates`); of each worker.",
        least=0.001,
    )
    creates_burst: int = setting(10_000, "Sessions that it may make at once, after some rest; of each worker.", least=1)
    max_live: int = setting(
        4096,
        "Worlds in memory, of sessions that are kept in a journal; those idle longest are made again when asked for; "
        "of each worker.",
        least=1,
    )
    max_group: int = setting(256, "Sessions of one create.", least=1)
    idle_ttl: int = setting(
        900,
        "Seconds without an answered call after which a session expires, where its creator names none.",
        least=1,
        shown=True,
        flags=("--ttl",),
    )
    max_idle_ttl: int = setting(86_400, "The most a creator may ask for.", least=1)
    absolute_ttl: int = setting(
        86_400, "Seconds after which a session expires in any case, but never in the middle of a call.", least=1
    )
    retention: int = setting(
        3_600,
        "Seconds for which the records of a closed or expired session can be fetched.",
        least=1,
        shown=True,
    )
    retained_bytes: int = setting(
        512 * 2**20,
        "The most that records of ended episodes may take in memory; the oldest of closed sessions go first; of each "
        "worker.",
        least=1,
    )
    max_episodes: int = setting(100_000, "Episodes of one session (`episodes_spent`).", least=1)
    kept_episodes: int = setting(
        1_000, "Episodes of an open session whose records can be fetched, the latest first.", least=1
    )
    max_body_bytes: int = setting(2 * 2**20, "Bytes of a body (`body_too_large`).", least=1)
    max_action_bytes: int = setting(2**20, "Bytes of an action (`action_too_large`).", least=1)
    max_batch: int = setting(1024, "Steps of one batch (`batch_too_long`).", least=1)
    max_connections: int = setting(
        10_000, "Connections and sockets at a time (`too_many_connections`); of each worker.", least=1
    )
    body_seconds: float = setting(10.0, "Seconds in which a body must arrive (`request_slow`).", least=0.001)
    write_seconds: float = setting(
        30.0,
        "Seconds in which a client that is sent more than its connection holds must read some of it, or is cut off.",
        least=0.001,
    )
    socket_requests: int = setting(
        1024, "Requests of one socket that may run at a time; further ones wait on the line.", least=1
    )
    socket_ping_seconds: float = setting(
        20.0,
        "Seconds after which the other end of a socket is asked whether it is there, and again those it has to answer.",
        least=0.001,
    )
    blocking_threads: int = setting(
        256, "Threads for environments that may block, others are stepped on the event loop; of each worker.", least=1
    )
    drain_seconds: float = setting(
        1.0,
        "Seconds for which a server that is told to stop still answers running sessions, and `/ready` says 503.",
        least=0.0,
        most=3_600.0,
    )
    doors: str = setting(
        f"{V1},{PLAY}",
        "Protocols that are spoken, with commas between them: the native one, OpenEnv, Open Reward Standard, MCP, "
        "searches without a session, pages for browser agents, the playground for people.",
        pattern=f"{_DOOR}(,{_DOOR})*",
        shown=True,
        flags=("--door",),
    )
    log_format: str = setting("text", "How the log is written.", choices=("text", "json"), shown=True)
    access_log: bool = setting(False, "Log each request: its route, never its address.", shown=True)
    route: str = setting(
        "",
        "Hexadecimal digits that all names of this server's sessions begin with, for a proxy that sends each session "
        "to its own server.",
        pattern="[0-9a-f]{0,6}",
    )
    hosts: str = setting(
        "",
        "Names, with commas between them, by which a server on this machine alone that asks for no token may be "
        "called, besides localhost and addresses (`host_foreign`); `*` for any.",
        pattern=r"[^\s/:]*",
    )
    token_file: str | None = setting(
        None, "File of tokens that control sessions; `$AGENTENVS_TOKEN` is the one token otherwise.", shown=True
    )
    tokens: tuple[str, ...] = field(default=(), repr=False)
    """Tokens that control sessions, besides those of the file; anybody may where there are none at all."""

    def __post_init__(self) -> None:
        """Refuse numbers and tokens that cannot hold.

        Raises:
            ConfigError: A value outside of its bounds, or a token that could be guessed.
        """
        check(self)
        for door, name in (("mcp", "MCP"), ("web", "web")):
            if door in self.open_doors and V1 not in self.open_doors:
                raise ConfigError(
                    f"the {name} door needs the native one beside it",
                    why="it is entered with an agent key, and only a session of v1 tells one",
                    fix=f"--doors v1,{door}",
                )
        for token in self.tokens:
            refuse_weak(token)

    @property
    def open_doors(self) -> tuple[str, ...]:
        """The protocols that are spoken, each once."""
        return tuple(dict.fromkeys(self.doors.split(",")))

    @property
    def asks_for_tokens(self) -> bool:
        """Whether control needs a token."""
        return bool(self.tokens) or self.token_file is not None


class Setting(NamedTuple):
    """One setting, as it is documented."""

    name: str
    type: type
    optional: bool
    default: Any
    said: str
    bounds: Bounds
    shown: bool
    flags: tuple[str, ...]

    @property
    def allowed(self) -> str:
        """What may stand in it, in a few words."""
        if self.type is bool:
            return "true or false"
        if self.bounds.choices:
            return " or ".join(self.bounds.choices)
        if self.bounds.pattern is not None:
            return f"a text like {self.bounds.pattern}"
        if self.type is str:
            return "a text"
        kind = "a whole number" if self.type is int else "a number"
        least, most = self.bounds.least, self.bounds.most
        if most is not None:
            return f"{kind} from {least:,g} to {most:,g}"
        return f"{kind}, {least:,g} or more"

    def takes(self, value: Any) -> bool:
        """Return whether a value may stand in it."""
        if value is None:
            return self.optional
        kind: type = type(value)
        if kind is not self.type and not (self.type is float and kind is int):
            return False
        return self._fits(value) if self.type is str else self._is_between(value)

    def _fits(self, value: str) -> bool:
        if self.bounds.choices:
            return value in self.bounds.choices
        return self.bounds.pattern is None or re.fullmatch(self.bounds.pattern, value) is not None

    def _is_between(self, value: float) -> bool:
        least, most = self.bounds.least, self.bounds.most
        return math.isfinite(value) and (least is None or value >= least) and (most is None or value <= most)


def documented(*classes: type) -> Iterator[Setting]:
    """Return all settings of some classes, in their order; tokens, which are no settings to be written down, left out.

    Args:
        *classes: :class:`Place`, :class:`Settings`; both where none is given.
    """
    for cls in classes or (Place, Settings):
        hints = get_type_hints(cls)
        for one in dataclasses.fields(cls):
            if "said" in one.metadata:
                kinds = [kind for kind in get_args(hints[one.name]) or (hints[one.name],) if kind is not type(None)]
                optional = len(get_args(hints[one.name])) > 1
                more = {name: one.metadata[name] for name in ("said", "bounds", "shown", "flags")}
                yield Setting(one.name, kinds[0], optional, one.default, **more)


def check(settings: Any) -> None:
    """Refuse settings outside of their bounds.

    Raises:
        ConfigError: One is.
    """
    for one in documented(type(settings)):
        value = getattr(settings, one.name)
        if not one.takes(value):
            raise ConfigError(
                f"the setting {one.name} is {value!r}", why=f"allowed is {one.allowed}", fix="give another value"
            )


def refuse_weak(token: str) -> None:
    """Refuse a token that could be guessed.

    Raises:
        ConfigError: It is too short, or no printable ASCII.
    """
    if len(token) < LEAST_TOKEN_CHARACTERS or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(
            "a token of this server is too weak",
            why=f"tokens have {LEAST_TOKEN_CHARACTERS} printable ASCII characters or more, no blanks",
            fix="python -c 'import secrets; print(secrets.token_urlsafe())'",
        )
