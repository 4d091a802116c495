"""What a client knows of its world: the same world in process, played in step with the served one.

So that an answer that belongs to another session, turn or action is seen when it comes, and not only at the end.
"""

from __future__ import annotations

import json
from typing import Any

from agentenvs.core import registry
from agentenvs.core.canon import canonical_bytes, digest
from agentenvs.core.observation import Observation
from agentenvs.core.streams import Stream
from agentenvs.core.task import TaskRef
from agentenvs.core.turn import StepResult

OPTIONS: dict[str, dict[str, Any]] = {"household": {"admissible": True}, "ledger": {}, "clerk": {}}

_JUNK: tuple[Any, ...] = (
    "frobnicate the \u2603",
    "",
    {"tool": "look", "arguments": 3},
    [1, 2, {"x": None}],
    {"end": "no"},
    2**70,
    "go to \ud800",
)


class Twin:
    """One episode in process, with a player whose moves depend on chance alone.

    Args:
        env: Slug.
        stream: Chance.
    """

    def __init__(self, env: str, stream: Stream) -> None:
        self.slug = env
        self.spec = registry.spec(env)
        self.options = OPTIONS[env]
        self.env = registry.make(env, **self.options)
        self._stream = stream
        self._policy: Any = None

    def ref(self) -> TaskRef:
        """Return some scenario."""
        return TaskRef(self.spec.default_split, self._stream.below(1_000))

    def reset(self, ref: TaskRef) -> Observation:
        """Begin an episode, which is played well or at random."""
        observation = self.env.reset(ref)
        self._policy = None
        if self._stream.chance(1, 2):
            self._policy = registry.load(self.spec.players["oracle"])()
            self._policy.reset(self.spec, self.env.task())
            self._policy.reveal(self.env.current)
        return observation

    def choose(self) -> Any:
        """Return the next action."""
        if self._policy is not None:
            return self._policy.act(self.env.observation)
        if self._stream.chance(1, 10):
            return self._stream.choice(_JUNK)
        return getattr(self, f"_{self.slug}")()

    async def play(self, action: Any) -> StepResult:
        """Play it here."""
        return await self.env.astep(action)

    def _household(self) -> str:
        return self._stream.choice(self.env.observation.admissible or ("look",))

    def _ledger(self) -> Any:
        amend = {"tool": "amend", "arguments": {"entry": self._stream.below(8_000), "note": "\u00fc" * 9}}
        balance = {"tool": "balance", "arguments": {"account": str(1000 + 10 * self._stream.below(45))}}
        return self._stream.choice(({"tool": "next_invoice", "arguments": {}}, amend, balance, [amend, balance, amend]))

    def _clerk(self) -> Any:
        said = ("What is the order number?", "Which order?", "Hello.", "Your order, please?")
        refund = {"tool": "refund", "arguments": {"order": f"A-{self._stream.between(100, 999)}"}}
        return self._stream.choice((*({"message": words} for words in said), refund))


def shown(result: StepResult) -> dict[str, Any]:
    """Return what a step reply must say of a result."""
    form = {
        "observation": result.observation.to_json(),
        "reward": result.reward,
        "terminated": result.terminated,
        "truncated": result.truncated,
        "info": dict(result.info),
    }
    found: dict[str, Any] = json.loads(canonical_bytes(form))
    return found


def seen(observation: Any) -> str:
    """Return the digest of an observation, as a record has it."""
    return digest(observation)
