"""``--policy hf:PATH``: a model in a folder plays.

One that was trained here is played as it was trained, its context written by the same increments
(:class:`AsTrained`). Any other is asked through a protocol, as a model behind an endpoint is, with its own chat
template (:class:`AsAsked`). Both share one sampler, so that concurrent episodes share forward passes, and both draw
each turn from the seed, the scenario, the episode's number and the turn: at concurrency 1 a run replays bit for bit;
at more, what is computed together differs from run to run, and so may the last bit of a probability.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from agentenvs.core.canon import JSON, canonical
from agentenvs.core.errors import ConfigError
from agentenvs.core.observation import Observation
from agentenvs.core.policy import Policy
from agentenvs.core.spec import EnvSpec
from agentenvs.core.task import Task, TaskRef
from agentenvs.harness.chat import Reply
from agentenvs.harness.manifest import ModelEntry
from agentenvs.harness.model_settings import OpenAISettings
from agentenvs.harness.openai import OpenAIPolicy
from agentenvs.harness.stopping import PolicyStop
from agentenvs.train.engine.shared import SharedSampler
from agentenvs.train.engine.slots import common
from agentenvs.train.engine.torch_engine import check_head
from agentenvs.train.interfaces import Draw, Sampled, Sampling, hooks, wrappers
from agentenvs.train.models import moved
from agentenvs.train.opening import Place, Played, find
from agentenvs.train.records import Episode, Turn
from agentenvs.train.template import ChatTemplate, Template, choose

LONGEST = 4096
"""The most tokens of a conversation where nothing else is said."""
MAX_TOKENS = 256
"""The most tokens of a reply where nothing else is said."""

_EXTRA = ("constrained", "device", "max_length", "wrapper")


def opened(path: str, spec: EnvSpec, settings: OpenAISettings | None) -> Callable[[], Policy]:
    """Return what makes policies that share the model of a folder; it is loaded when the first of them plays.

    Args:
        path: The folder.
        spec: The environment.
        settings: How is sampled, and the protocol; ``extra`` may hold ``constrained``, ``device``, ``max_length`` and
            ``wrapper``, the name of a :class:`~agentenvs.train.interfaces.PolicyWrapper`.

    Raises:
        ConfigError: There is no model, or the settings make no sense.
    """
    place = find(path)
    said = settings or OpenAISettings(model=path, base_url="http://localhost", tools="text")
    if unknown := sorted(set(said.extra) - set(_EXTRA)):
        raise ConfigError(f"a model in a folder has no setting {unknown[0]!r}", fix=f"known: {', '.join(_EXTRA)}")
    played = place.played() if said.protocol == "native" else None
    table = Table(place, said, played)
    name = said.extra.get("wrapper")
    wrap = (lambda policy: policy) if name is None else wrappers.make(str(name)).wrap
    if played is not None or not table.asks():
        return lambda: wrap(AsTrained(table.join()))
    return lambda: wrap(AsAsked(spec, table.join()))


class Table:
    """The players of a run around one model.

    Args:
        place: Where the model lies.
        settings: As given.
        played: How it was trained, where that counts.
    """

    def __init__(self, place: Place, settings: OpenAISettings, played: Played | None) -> None:
        self.place, self.settings, self.played = place, settings, played
        extra = settings.extra
        self.constrained = bool(extra.get("constrained", played.constrained if played else False))
        bounds = settings.load_protocol().sampling
        self.temperature = float(_first(settings.temperature, played and played.temperature, bounds.temperature, 1.0))
        self.max_tokens = int(_first(settings.max_tokens, played and played.max_turn_tokens, bounds.max_tokens))
        self.template: Template
        self.tokenizer: Any
        self.stop: tuple[int, ...] = ()
        self.length = 0
        self._players = 0
        self._sampler: SharedSampler | None = None
        self._digest = ""
        self._lock = threading.Lock()

    def asks(self) -> bool:
        """Return whether the model has a chat template, by which a protocol can ask it."""
        from agentenvs.train.models import tokenizer

        return bool(getattr(tokenizer(self.place.path), "chat_template", None)) if self.place.run is None else False

    def join(self) -> Table:
        """Take in a further player, and return the table."""
        self._players += 1
        return self

    @property
    def sampler(self) -> SharedSampler:
        """The sampler, with a slot for each player that had joined when it was first asked for."""
        with self._lock:
            if self._sampler is None:
                self._sampler = self._open()
            return self._sampler

    def entry(self) -> ModelEntry:
        """Return the model, for a run's manifest."""
        if not self._digest:
            self._digest = self.place.digest()
        sampling = {
            "temperature": self.temperature,
            "top_p": self.settings.top_p or 1.0,
            "max_tokens": self.max_tokens,
            "constrained": self.constrained,
        }
        return ModelEntry(
            provider="local",
            id=self.place.path.resolve().name,
            revision=self._digest,
            sampling=canonical(sampling),
            reasoning_effort=None,
            seed=self.settings.seed or 0,
            base_url_class="loopback",
        )

    def seed(self, task: Task, number: int, turn: int) -> int:
        """Return the seed of a turn's draws."""
        address = f"{self.settings.seed or 0}/{task.env}/{task.ref.split}/{task.ref.index}/{number}/{turn}"
        return int.from_bytes(hashlib.blake2b(address.encode(), digest_size=32).digest(), "big")

    def _open(self) -> SharedSampler:
        extra = self.settings.extra
        device = torch.device(str(extra.get("device") or ("cuda" if torch.cuda.is_available() else "cpu")))
        model, self.tokenizer = self.place.load()
        self.template = choose(self.played.template if self.played else "auto", self.tokenizer)
        end = self.tokenizer.eos_token_id
        self.stop = self.template.stop if self.played or end is None else (*self.template.stop, int(end))
        check_head(model)
        model = moved(model.eval().requires_grad_(False), device)
        if device.type == "cuda":
            model = model.to(torch.bfloat16)
        reach = int(getattr(model.config, "max_position_embeddings", 0) or LONGEST)
        self.length = min(int(_first(extra.get("max_length"), self.played and self.played.max_length, LONGEST)), reach)
        sampling = Sampling(
            temperature=self.temperature,
            top_p=self.settings.top_p or 1.0,
            max_tokens=self.max_tokens,
            stop=self.stop,
        )
        return SharedSampler(model, self._players, self.length, sampling)


class Seat:
    """A player's place at the table: its slot, its counts, its chance.

    Args:
        table: The table.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self.number = 0
        self._slot: int | None = None
        self._task: Task | None = None
        self._before: list[int] = []
        self.begin(None)

    def begin(self, task: Task | None) -> None:
        """Get ready for an episode."""
        self._task, self._before = task, []
        self.calls: list[dict[str, JSON]] = []

    def say(self, ids: Sequence[int], legal: Sequence[Sequence[int]] | None = None) -> Sampled:
        """Sample what follows a prefix.

        Raises:
            PolicyStop: The prefix leaves no room for a reply.
        """
        sampler = self.table.sampler
        if self._task is None:
            raise ConfigError("a policy must be reset before it acts")
        if len(ids) + self.table.max_tokens + 1 > self.table.length:
            raise PolicyStop("truncated", f"the context of {self.table.length} tokens is full")
        if self._slot is None:
            self._slot = sampler.take()
        seed = self.table.seed(self._task, self.number, len(self.calls))
        found = sampler.sample(Draw(ids, self._slot, seed, legal))
        line: dict[str, JSON] = {
            "tokens_in": len(ids),
            "tokens_cached": common(self._before, ids),
            "tokens_out": len(found.ids),
            "ids": list(found.ids),
            "logps": [round(logp, 6) for logp in found.logps],
        }
        self.calls.append(line)
        self._before = [*ids, *found.ids]
        return found

    def usage(self) -> dict[str, int | None]:
        """Return the tokens of the episode."""
        names = ("tokens_in", "tokens_out", "tokens_cached")
        return {**{name: sum(int(line[name]) for line in self.calls) for name in names}, "cost_microusd": None}

    def leave(self) -> None:
        """Give the slot back. May be called twice."""
        if self._slot is not None:
            self.table.sampler.give(self._slot)
            self._slot = None


class AsTrained:
    """A model of ours: the context grows by what the world shows and what the model says, and by nothing else.

    Args:
        table: What it shares with others.
    """

    def __init__(self, table: Table) -> None:
        self.seat, self.table = Seat(table), table
        self.wants: Mapping[str, Any] = MappingProxyType({"admissible": True} if table.constrained else {})
        self._hooks = [hooks.make(name, one) for name, one in (table.played.hooks if table.played else {}).items()]
        self._episode = Episode("", TaskRef("", 0), 0, 0)
        self._ids: list[int] = []

    def numbered(self, number: int) -> None:
        """Take note of the episode's number in its run."""
        self.seat.number = number

    def reset(self, spec: EnvSpec, task: Task) -> None:
        """Get ready for an episode."""
        self.seat.begin(task)
        self._episode, self._ids = Episode(task.env, task.ref, self.seat.number, 0), []

    def act(self, observation: Observation) -> str:
        """Return what the model says. Blocks.

        Raises:
            PolicyStop: The context is full.
        """
        table = self.table
        table.sampler  # noqa: B018 - opens the model, and with it the template
        template = table.template
        before = [one.before_turn(self._episode, observation) for one in self._hooks]
        shown = _joined(*before, observation.text)
        if self._ids:
            self._ids += template.next(shown)
        else:
            head = table.played.head if table.played else ""
            heads = [one.begin(self._episode, observation) for one in self._hooks]
            self._ids += template.begin(_joined(head, *heads), shown)
        legal = [template.turn(action) for action in observation.admissible or ()] if table.constrained else []
        found = self.seat.say(self._ids, legal or None)
        said = [one for one in found.ids if one not in table.stop]
        self._ids += [*said, template.stop[0]]
        text = template.text(said)
        for hook in self._hooks:
            text = hook.played(self._episode, Turn(0, 0, 0, text), text)
        return text

    @property
    def usage(self) -> dict[str, int | None]:
        """Tokens of the episode."""
        return self.seat.usage()

    @property
    def model_entry(self) -> ModelEntry:
        """The model, for a run's manifest."""
        return self.table.entry()

    def sidecar(self) -> dict[str, JSON]:
        """Return what is not in the episode's record."""
        return {"model": self.table.entry().model_dump(), "usage": self.usage, "calls": list(self.seat.calls)}

    def close(self) -> None:
        """Give the slot back. May be called twice."""
        self.seat.leave()


class AsAsked(OpenAIPolicy):
    """Any model with a chat template, under a protocol.

    Args:
        spec: The environment.
        table: What it shares with others.

    Raises:
        ConfigError: The protocol is not for this environment, or its actions cannot be constrained.
    """

    def __init__(self, spec: EnvSpec, table: Table) -> None:
        if table.constrained and table.settings.protocol != "native":
            raise ConfigError(
                f"actions of the protocol {table.settings.protocol} cannot be constrained",
                fix="leave --constrained out",
            )
        self.seat, self.table = Seat(table), table
        self._asks = _Asks(self.seat)
        self.wants: Mapping[str, Any] = MappingProxyType({"admissible": True} if table.constrained else {})
        super().__init__(spec, table.settings, self._asks)

    def numbered(self, number: int) -> None:
        """Take note of the episode's number in its run."""
        self.seat.number = number

    def reset(self, spec: EnvSpec, task: Task) -> None:
        """Get ready for an episode."""
        super().reset(spec, task)
        self.seat.begin(task)

    def act(self, observation: Observation) -> Any:
        """Ask the model and return an action. Blocks.

        Raises:
            PolicyStop: The protocol ends the episode, or the context is full.
        """
        self._asks.legal = observation.admissible or () if self.table.constrained else ()
        return super().act(observation)

    @property
    def model_entry(self) -> ModelEntry:
        """The model, for a run's manifest."""
        return self.table.entry()


class _Asks:
    """Answers requests as an endpoint would, out of this process."""

    def __init__(self, seat: Seat) -> None:
        self.seat = seat
        self.legal: Sequence[str] = ()

    def ask(self, body: Mapping[str, Any]) -> Reply:
        table = self.seat.table
        table.sampler  # noqa: B018 - opens the model, and with it the template
        template = table.template
        if not isinstance(template, ChatTemplate):
            raise ConfigError("a protocol asks models with a chat template alone", fix="leave --protocol out")
        ids = table.tokenizer.encode(template.render(body["messages"], prompt=True), add_special_tokens=False)
        legal = [template.turn(f"Action: {action}") for action in self.legal]
        found = self.seat.say(ids, legal or None)
        ended = found.ids[-1] in table.stop
        text = template.text(found.ids[:-1] if ended else found.ids)
        for mark in body.get("stop") or ():
            text = text.partition(mark)[0]
        line = self.seat.calls[-1]
        raw = {"ids": line["ids"], "logps": line["logps"], "text": text}
        total, made, known = (int(line[name]) for name in ("tokens_in", "tokens_out", "tokens_cached"))
        return Reply(text, (), "stop" if ended else "length", total, made, known, raw, ())

    def close(self) -> None:
        self.seat.leave()


def _first(*values: Any) -> Any:
    """Return the first that is given; :data:`MAX_TOKENS` where none is."""
    return next((value for value in values if value is not None), MAX_TOKENS)


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)
