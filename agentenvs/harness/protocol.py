"""What a model is told, how it is read, and what its mistakes cost: one data file a protocol.

A protocol is the part of a published number that is not the model: prompt, history, limit, parser, reward scale. Each
is a TOML file in ``protocols/``, checked as it is read, and its digest is part of a run's. The world and its verdict
know nothing of it: ``reward`` here is what the original's authors report, beside the verdict and never instead of it.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from agentenvs.core.canon import JSON, digest
from agentenvs.core.errors import ConfigError, DataError
from agentenvs.core.spec import EnvSpec
from agentenvs.harness.parsers import PARSERS, Parser

_FOLDER = "protocols"
_HISTORY = re.compile(r"full|last:([1-9][0-9]{0,5})")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Sampling(_Part):
    """What is sent with each request where the user set nothing."""

    temperature: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()


class Bounds(_Part):
    """When the protocol itself ends an episode."""

    calls: int | None = None
    """Model calls an episode."""
    equal_outputs: int | None = None
    """So many equal outputs in a row are a failure …"""
    equal_after: int = 0
    """… once so many were played."""


class History(_Part):
    """What of the past a request holds."""

    keep: int | None = None
    """The last so many exchanges; all where None. The first observation is always there: it holds the task."""
    gap: str = "[{count} earlier turns are left out here]"
    """Said where exchanges were left out; ``{count}`` is their number."""


class View(_Part):
    """What is changed in an observation before the model sees it."""

    drop_banner: bool = False
    """Cut what stands before the first blank line, and join the rest by single line breaks."""
    drop_arrival: bool = False
    """Cut the first sentence of a reply that begins with ``You arrive at loc``."""
    budgets: bool = False
    """Say what is left of each budget."""


class Listing(_Part):
    """How the admissible commands are shown."""

    show: Literal["always", "first", "never"] = "always"
    item: str = "{}"
    join: str = "\n"
    omit: tuple[str, ...] = ()
    text: str = "{list}"
    """What is put after the observation; ``{list}`` is the joined list."""

    def render(self, admissible: Sequence[str] | None) -> str:
        """Return the joined list, without what surrounds it."""
        return self.join.join(self.item.format(command) for command in admissible or () if command not in self.omit)


class Replies(_Part):
    """How a reply is read."""

    channel: Literal["any", "text", "tool"]
    """``any``: tool calls where the environment has tools and the user did not ask for text."""
    parser: str
    invalid: Literal["turn", "ask", "play"]
    """What a reply without an action does: a malformed turn; another call of the model with ``says`` (no turn is
    used); nothing, because this parser always finds something to play."""
    says: str = ""
    """Said of an invalid reply: ``{seen}`` is the last observation as it was shown."""
    offered: tuple[str, ...] = ()
    """Names of the environment's tools that the model gets; all where empty."""
    tool: str = ""
    """Name of the one tool the model gets instead of the environment's own."""
    tool_description: str = ""
    argument: str = ""
    argument_description: str = ""
    thought: str = ""
    """Prefix of a reply that is a thought: it is played and uses a turn …"""
    thought_answer: str = ""
    """… and this is shown instead of what the world said."""


class Reward(_Part):
    """The original's reward scale."""

    success: float = 1.0
    invalid: float = 0.0
    """Added for each reply that breaks the format."""
    repeats_lose: bool = False
    """An episode that ends by equal outputs is worth nothing, won or not."""


class ExampleKind(_Part):
    """Which examples a task gets."""

    key: str
    pattern: str
    """Regular expression that matches the beginning of its task sentence; the first kind that matches counts."""


class Protocol(_Part):
    """A protocol; see the module."""

    name: str
    title: str
    source: str
    envs: tuple[str, ...] = ()
    """Slugs it is written for; any where empty."""
    style: Literal["chat", "transcript", "rebuilt"]
    """``chat``: one message a turn. ``transcript``: one growing text. ``rebuilt``: a new prompt each turn."""
    options: dict[str, bool | int | str] = {}
    """Options of the environment it sets where the user does not."""
    replies: Replies
    history: History = History()
    bounds: Bounds = Bounds()
    sampling: Sampling = Sampling()
    view: View = View()
    listing: Listing = Listing()
    reward: Reward = Reward()
    prompts: dict[str, str]
    """Templates by name, for ``str.format``."""
    example_kinds: tuple[ExampleKind, ...] = ()
    examples: dict[str, tuple[str, ...]] = {}
    """Texts of example episodes by kind."""

    @property
    def digest(self) -> str:
        """SHA-256 of everything that decides what the model is told and how it is read."""
        return digest(self.model_dump(mode="json", exclude={"title", "source"}))

    @property
    def parser(self) -> Parser:
        """The function that reads a reply."""
        return PARSERS[self.replies.parser]

    def with_history(self, history: str | None) -> Protocol:
        """Return the protocol with another history policy.

        Args:
            history: ``full``, ``last:K``, or None for the protocol's own.

        Raises:
            ConfigError: Anything else.
        """
        if history is None:
            return self
        match = _HISTORY.fullmatch(history)
        if match is None:
            raise ConfigError(f"history {history!r} makes no sense", fix="full, or last:K with K of 1 or more")
        keep = None if match[1] is None else int(match[1])
        return self.model_copy(update={"history": self.history.model_copy(update={"keep": keep})})

    def with_calls(self, calls: int | None) -> Protocol:
        """Return the protocol with another bound on model calls; None is its own."""
        if calls is None:
            return self
        return self.model_copy(update={"bounds": self.bounds.model_copy(update={"calls": calls})})

    def with_examples(self, path: Path | None) -> Protocol:
        """Return the protocol with the examples of a file.

        Args:
            path: JSON object: kind -> list of texts, or ``react_<kind>_<n>`` -> text as in ReAct's own file. None
                keeps the protocol's.

        Raises:
            ConfigError: The protocol shows no examples.
            DataError: The file cannot be read, or lacks a kind.
        """
        if path is None:
            return self
        if not self.example_kinds:
            raise ConfigError(f"the protocol {self.name} shows no examples", fix="leave --examples out")
        return self.model_copy(update={"examples": _read_examples(path, [kind.key for kind in self.example_kinds])})

    def check(self, spec: EnvSpec) -> None:
        """Refuse an environment this protocol is not written for.

        Raises:
            ConfigError: It is for others.
        """
        if self.envs and spec.slug not in self.envs:
            raise ConfigError(
                f"the protocol {self.name} is not for {spec.slug}",
                why=f"its prompt is written for {', '.join(self.envs)}",
                fix="use --protocol native",
            )

    def env_options(self, spec: EnvSpec) -> dict[str, Any]:
        """Return the options it sets on an environment, as far as the environment has them."""
        known = {option.name for option in spec.options}
        return {name: value for name, value in self.options.items() if name in known}

    def examples_for(self, sentence: str) -> tuple[str, ...]:
        """Return the example episodes for a task sentence; the kind is read from the sentence, not from hidden data."""
        for kind in self.example_kinds:
            if re.match(kind.pattern, sentence):
                return self.examples.get(kind.key, ())
        return ()


def names() -> list[str]:
    """Return the names of all protocols, ``native`` first."""
    files = resources.files("agentenvs.harness") / _FOLDER
    found = sorted(file.name.removesuffix(".toml") for file in files.iterdir() if file.name.endswith(".toml"))
    return sorted(found, key=lambda name: name != "native")


@cache
def load(name: str) -> Protocol:
    """Return a protocol.

    Raises:
        ConfigError: There is none of that name.
        DataError: Its file is damaged.
    """
    if name not in names():
        raise ConfigError(f"there is no protocol {name!r}", fix=f"choose one of: {', '.join(names())}")
    folder = resources.files("agentenvs.harness") / _FOLDER
    try:
        form: dict[str, JSON] = tomllib.loads((folder / f"{name}.toml").read_text(encoding="utf-8"))
        if (folder / f"{name}.examples.json").is_file():
            form["examples"] = json.loads((folder / f"{name}.examples.json").read_text(encoding="utf-8"))
        protocol = Protocol.model_validate({"name": name, **form})
    except (ValueError, ValidationError) as error:
        raise DataError(f"the file of protocol {name} is damaged", why=str(error), fix="install again") from error
    if protocol.replies.parser not in PARSERS:
        raise DataError(f"the file of protocol {name} names no parser", why=protocol.replies.parser)
    return protocol


def _read_examples(path: Path, kinds: Sequence[str]) -> dict[str, tuple[str, ...]]:
    try:
        form = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"the examples {path} cannot be read", why=str(error), fix="give a JSON file") from error
    if not isinstance(form, dict):
        raise DataError(f"the examples {path} are no JSON object", fix="map each kind to a list of texts")
    found = {
        kind: tuple(form[kind]) if isinstance(form.get(kind), list) else _react_examples(form, kind) for kind in kinds
    }
    for kind, texts in found.items():
        if not texts or not all(isinstance(text, str) for text in texts):
            raise DataError(f"the examples {path} have no texts for {kind!r}", fix=f"needed: {', '.join(kinds)}")
    return found


def _react_examples(form: dict[str, JSON], kind: str) -> tuple[str, ...]:
    """Return the two that ReAct shows, in its order: number 1, then number 0."""
    return tuple(form[key] for key in (f"react_{kind}_1", f"react_{kind}_0") if key in form)
