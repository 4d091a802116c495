"""The ``openai`` policy: a model behind any OpenAI-compatible ``/v1/chat/completions``, under a protocol.

One call of :meth:`OpenAIPolicy.act` asks the model until there is an action to play: usually once, more often only
where the protocol refuses a reply without using a turn, and never beyond its bound on model calls. A strange reply is
the model's affair and becomes a turn; an endpoint that stays away raises
:class:`~agentenvs.core.errors.ServiceError`; the protocol's own end raises
:class:`~agentenvs.harness.stopping.PolicyStop`. Raw replies, tokens, cuts and times stand in the sidecar.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import httpx

from agentenvs.core.canon import JSON, canonical, digest
from agentenvs.core.errors import ConfigError, ServiceError
from agentenvs.core.observation import Observation
from agentenvs.core.spec import EnvSpec
from agentenvs.core.task import Task
from agentenvs.core.verdict import Verdict
from agentenvs.harness.chat import ChatClient, Reply
from agentenvs.harness.history import Conversation, Prompt, Shown, answers_to, show
from agentenvs.harness.model_settings import OpenAISettings
from agentenvs.harness.prompting import functions, open_talk, uses_tools
from agentenvs.harness.reading import Reading, read_one_tool, read_text, read_tools
from agentenvs.harness.stopping import PolicyStop

if TYPE_CHECKING:
    from agentenvs.harness.manifest import ModelEntry


@dataclass(slots=True)
class _Counts:
    """What an episode used."""

    tokens_in: int | None = 0
    tokens_out: int | None = 0
    tokens_cached: int | None = None

    def add(self, reply: Reply) -> None:
        """Add a reply; a total is unknown as soon as one message came without its count."""
        if reply.fault is None:
            self.tokens_in = _plus(self.tokens_in, reply.tokens_in)
            self.tokens_out = _plus(self.tokens_out, reply.tokens_out)
        if reply.tokens_cached is not None:
            self.tokens_cached = (self.tokens_cached or 0) + reply.tokens_cached


class Client(Protocol):
    """What is asked: an endpoint, or a model in this process."""

    def ask(self, body: Mapping[str, JSON]) -> Reply:
        """Return what the model says to a request."""

    def close(self) -> None:
        """Close connections. May be called twice."""


class OpenAIPolicy:
    """A model as a policy; see the module. Belongs to one thread at a time.

    Args:
        spec: The environment it will play.
        settings: Model, endpoint and protocol.
        client: What is asked; the endpoint of the settings where None.

    Raises:
        ConfigError: The protocol is not for this environment, or the key cannot be used.
    """

    def __init__(self, spec: EnvSpec, settings: OpenAISettings, client: Client | None = None) -> None:
        self.settings = settings
        self.protocol = settings.load_protocol()
        self.protocol.check(spec)
        self._spec = spec
        self._sampling = settings.sampling(self.protocol)
        self._client: Client = client or ChatClient(
            settings.url,
            settings.key(),
            timeout=settings.timeout,
            retries=settings.retries,
            backoff=settings.backoff,
            max_wait=settings.max_wait,
        )
        self._forget()

    def _forget(self) -> None:
        self._task: Task | None = None
        self._talk: Conversation | None = None
        self._tools = False
        self._pending: Reading | None = None
        self._before: Shown | None = None
        self._outputs: list[str] = []
        self._turn = 0
        self._counts = _Counts()
        self._failures: Counter[str] = Counter()
        self._repaired = self._thoughts = self._asked_again = 0
        self._calls: list[dict[str, JSON]] = []

    # ---- a policy --------------------------------------------------------------------------------------------------

    def reset(self, spec: EnvSpec, task: Task) -> None:
        """Get ready for an episode; everything of the last one is forgotten."""
        self._forget()
        self._spec, self._task = spec, task
        self._tools = uses_tools(self.protocol, spec, self.settings.tools)

    def act(self, observation: Observation) -> Any:
        """Ask the model and return an action. Blocks.

        Raises:
            ServiceError: The endpoint refuses, or stays away through all retries.
            PolicyStop: The protocol ends the episode: too many model calls, or too many equal outputs.
        """
        talk, now = self._take(observation)
        if self._repeats():
            raise PolicyStop("abandoned", f"{self.protocol.bounds.equal_outputs} equal outputs in a row")
        while True:
            reading = self._ask(talk, now, observation.admissible or ())
            if reading.action is not None:
                break
            self._asked_again += 1
            self._refuse(talk, now, reading)
        self._pending, self._before = reading, now
        self._outputs.append(reading.output)
        self._turn += 1
        return reading.action

    def close(self) -> None:
        """Close the connections. May be called twice."""
        self._client.close()

    # ---- what a run reads ------------------------------------------------------------------------------------------

    @property
    def usage(self) -> dict[str, int | None]:
        """Tokens and cost of the episode; None where the endpoint did not say, or no price is known."""
        counts = self._counts
        return {
            "tokens_in": counts.tokens_in,
            "tokens_out": counts.tokens_out,
            "tokens_cached": counts.tokens_cached,
            "cost_microusd": self.settings.cost(counts.tokens_in, counts.tokens_out, counts.tokens_cached),
        }

    @property
    def protocol_digest(self) -> str:
        """SHA-256 of the protocol in force, the user's changes to it included."""
        plain = self.protocol.digest
        return plain if self.settings.tools == "auto" else digest({"protocol": plain, "tools": self.settings.tools})

    @property
    def model_entry(self) -> ModelEntry:
        """The model, for a run's manifest."""
        from agentenvs.harness.manifest import ModelEntry

        effort = self._sampling.get("reasoning_effort")
        return ModelEntry(
            provider=httpx.URL(self.settings.url).host,
            id=self.settings.model,
            revision=None,
            sampling=canonical(self._sampling),
            reasoning_effort=effort if isinstance(effort, str) else None,
            seed=self.settings.seed,
            base_url_class=self.settings.base_url_class(),
        )

    def metrics(self, verdict: Verdict | None = None) -> dict[str, JSON]:
        """Return what the protocol counts beside the verdict.

        Args:
            verdict: Of the episode; with it, ``protocol_return`` is the original authors' reward of it.
        """
        failures = sum(self._failures.values())
        counted: dict[str, JSON] = {
            "model_calls": len(self._calls),
            "format_failures": failures,
            "repaired": self._repaired,
            "thoughts": self._thoughts,
            "asked_again": self._asked_again,
        }
        if verdict is not None:
            scale = self.protocol.reward
            won = verdict.success and not (scale.repeats_lose and self._repeats())
            counted["protocol_return"] = scale.success * won + scale.invalid * failures
        return counted

    def sidecar(self) -> dict[str, JSON]:
        """Return everything of the episode that is not in its record."""
        return {
            "model": self.settings.model,
            "endpoint": self.settings.url,
            "protocol": self.protocol.name,
            "protocol_digest": self.protocol_digest,
            "history": self.settings.history or "as the protocol",
            "channel": "tool" if self._tools else "text",
            "sampling": self._sampling,
            "usage": self.usage,
            "failures": dict(sorted(self._failures.items())),
            # Copies: a run may ask from another thread, about an episode it has cut.
            "calls": [dict(line) for line in list(self._calls)],
        }

    # ---- the machinery ---------------------------------------------------------------------------------------------

    def _take(self, observation: Observation) -> tuple[Conversation, Shown]:
        """Take what the world said into the conversation."""
        now = show(self.protocol, observation, first=self._talk is None)
        if self._talk is None:
            self._talk = self._begin(now)
        elif self._pending is not None and self._before is not None:
            pending = self._pending
            if pending.thought:
                answer = self.protocol.replies.thought_answer
                now = replace(now, seen=answer, full=answer, parts=(answer,))
            self._talk.add(self._before, pending.said, now.seen, answers_to(pending.said, now))
        return self._talk, now

    def _begin(self, first: Shown) -> Conversation:
        instruction = self._task.instruction if self._task is not None else ""
        return open_talk(self.protocol, self._spec, instruction, first, tools=self._tools)

    def _repeats(self) -> bool:
        bounds = self.protocol.bounds
        if bounds.equal_outputs is None or len(self._outputs) < max(bounds.equal_after, bounds.equal_outputs):
            return False
        return len(set(self._outputs[-bounds.equal_outputs :])) == 1

    def _ask(self, talk: Conversation, now: Shown, admissible: tuple[str, ...]) -> Reading:
        most = self.protocol.bounds.calls
        if most is not None and len(self._calls) >= most:
            raise PolicyStop("truncated", f"{most} model calls are used up")
        prompt = talk.prompt(now)
        number = len(self._calls) + 1
        line: dict[str, JSON] = {"call": number, "turn": self._turn + 1, **_prompt_line(prompt)}
        self._calls.append(line)
        started = time.monotonic()
        try:
            reply = self._client.ask(self._body(prompt))
        except ServiceError as error:
            line["error"] = error.to_json()
            raise
        reading = self._read(reply, admissible, number)
        self._count(reply, reading)
        line.update(_reply_line(reply, reading), seconds=round(time.monotonic() - started, 3))
        return reading

    def _body(self, prompt: Prompt) -> dict[str, JSON]:
        body: dict[str, JSON] = {"model": self.settings.model, "messages": prompt.messages, **self._sampling}
        if self._tools:
            body["tools"] = functions(self.protocol, self._spec)
        return body

    def _read(self, reply: Reply, admissible: tuple[str, ...], number: int) -> Reading:
        if self.protocol.replies.tool:
            return read_one_tool(reply, self.protocol, admissible, number)
        if self._tools:
            return read_tools(reply, self._spec, number)
        return read_text(reply, self.protocol, self._spec, admissible)

    def _count(self, reply: Reply, reading: Reading) -> None:
        self._counts.add(reply)
        if reading.failure is not None:
            self._failures[reading.failure] += 1
        self._repaired += reading.repaired
        self._thoughts += reading.thought

    def _refuse(self, talk: Conversation, now: Shown, reading: Reading) -> None:
        """Tell the model, within the turn, that its reply was no action."""
        listed = self.protocol.listing.text.format(list=now.list) if now.list else ""
        said = self.protocol.replies.says.format(seen=now.seen + listed)
        talk.add(now, reading.said, said, [{"role": "user", "content": said}])


def factory(spec: EnvSpec, settings: OpenAISettings | None) -> OpenAIPolicy:
    """Return a fresh policy.

    Raises:
        ConfigError: No settings, or settings that do not go with the environment.
    """
    if settings is None:
        raise ConfigError("the openai policy needs a model", fix="give --model, as the endpoint names it")
    return OpenAIPolicy(spec, settings)


def env_options(spec: EnvSpec, settings: OpenAISettings) -> dict[str, Any]:
    """Return the options the protocol sets on the environment where the user gave none.

    Raises:
        ConfigError: The protocol is not for this environment.
    """
    protocol = settings.load_protocol()
    protocol.check(spec)
    return protocol.env_options(spec)


def _plus(total: int | None, count: int | None) -> int | None:
    return None if total is None or count is None else total + count


def _prompt_line(prompt: Prompt) -> dict[str, JSON]:
    return {
        "messages": len(prompt.messages),
        "prompt_digest": digest(prompt.messages),
        "dropped_calls": [1, prompt.dropped] if prompt.dropped else None,
        "dropped_digest": prompt.dropped_digest,
    }


def _reply_line(reply: Reply, reading: Reading) -> dict[str, JSON]:
    return {
        "attempts": list(reply.attempts),
        "raw": reply.raw,
        "fault": reply.fault,
        "failure": reading.failure,
        "repaired": reading.repaired,
        "thought": reading.thought,
        "said": dict(reading.said.message),
        "tokens_in": reply.tokens_in,
        "tokens_out": reply.tokens_out,
        "tokens_cached": reply.tokens_cached,
    }


__all__ = ["OpenAIPolicy", "OpenAISettings", "env_options", "factory"]
