"""What a model is shown: the conversation so far in the shape of its protocol, cut by its history policy.

An exchange is one call of the model and what followed. Cuts drop the oldest exchanges whole, so that a tool call never
loses its result; the head and the first observation, which holds the task, always stay. Every prompt says how many
exchanges it leaves out, and the digest chained over them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agentenvs.core.canon import JSON, canonical_bytes, sha256
from agentenvs.core.observation import Observation
from agentenvs.harness.protocol import Protocol

TASK_MARK = "Your task is to: "
MAX_SAID = 32_768
"""Characters of a reply that later prompts repeat."""

Message = dict[str, JSON]


@dataclass(frozen=True, slots=True)
class Shown:
    """An observation as the model sees it."""

    seen: str
    """The observation."""
    full: str
    """With the admissible commands and budgets where the protocol shows them."""
    list: str
    """The admissible commands alone."""
    parts: tuple[str, ...]
    """One text a block, for tool results."""

    @property
    def suffix(self) -> str:
        """What ``full`` has after ``seen``."""
        return self.full[len(self.seen) :]


@dataclass(frozen=True, slots=True)
class Said:
    """A reply as later prompts repeat it."""

    message: Message
    """As an assistant message."""
    played: str
    """What was played, in words."""
    ids: tuple[str, ...] = ()
    """Ids of tool calls that wait for results."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One call of the model and what followed."""

    before: Shown
    said: Said
    after: str
    """What was seen next, for transcripts."""
    answers: tuple[Message, ...]
    """What was seen next, as messages."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is sent."""

    messages: list[Message]
    dropped: int
    """Exchanges left out: the first so many."""
    dropped_digest: str | None
    """Chained SHA-256 over them."""


@dataclass(slots=True)
class Conversation:
    """The conversation of an episode.

    Args:
        protocol: Its shape.
        head: Messages that stand before everything else.
        intro: Text that stands before everything else in a transcript, with ``{seen}`` for the first observation.
    """

    protocol: Protocol
    head: list[Message]
    intro: str = ""
    first: Shown | None = None
    task: str = ""
    exchanges: list[Exchange] = field(default_factory=list)
    _chain: list[str] = field(default_factory=lambda: [""])

    def begin(self, first: Shown) -> None:
        """Set the first observation."""
        self.first = first
        self.task = first.seen.partition(TASK_MARK)[2].strip() or self.task

    def add(self, before: Shown, said: Said, after: str, answers: Sequence[Message]) -> None:
        """Append an exchange."""
        exchange = Exchange(before, said, after, tuple(answers))
        self.exchanges.append(exchange)
        link = canonical_bytes([before.full, said.message, list(answers)])
        self._chain.append(sha256(self._chain[-1].encode() + link))

    def prompt(self, now: Shown) -> Prompt:
        """Return what is sent next.

        Args:
            now: The last observation; only a rebuilt prompt needs it, the others hold it already.
        """
        keep = self.protocol.history.keep
        dropped = 0 if keep is None else max(len(self.exchanges) - keep, 0)
        build = {"chat": self._chat, "transcript": self._transcript, "rebuilt": self._rebuilt}[self.protocol.style]
        return Prompt(build(now, dropped), dropped, self._chain[dropped] or None)

    def _gap(self, dropped: int) -> str:
        return self.protocol.history.gap.format(count=dropped) if dropped else ""

    def _chat(self, now: Shown, dropped: int) -> list[Message]:
        opening = self.protocol.prompts.get("first", "{seen}").format(seen=(self.first or now).full)
        gap = self._gap(dropped)
        messages = [*self.head, _user(f"{opening}\n\n{gap}" if gap else opening)]
        for exchange in self.exchanges[dropped:]:
            messages += [exchange.said.message, *exchange.answers]
        return messages

    def _transcript(self, now: Shown, dropped: int) -> list[Message]:
        turn = self.protocol.prompts["turn"]
        gap = self._gap(dropped)
        text = self.intro.replace("{seen}", (self.first or now).full) + (f" {gap}\n>" if gap else "")
        text += "".join(turn.format(said=one.said.played, seen=one.after) for one in self.exchanges[dropped:])
        return [*self.head, _user(text)]

    def _rebuilt(self, now: Shown, dropped: int) -> list[Message]:
        prompts, steps = self.protocol.prompts, len(self.exchanges)
        kept = self.exchanges[dropped:]
        if not kept:
            return [*self.head, _user(prompts["first"].format(seen=now.seen, list=now.list))]
        pairs = [
            prompts["pair"].format(number=dropped + place, seen=one.before.seen, played=one.said.played)
            for place, one in enumerate(kept, start=1)
        ]
        text = prompts["later"].format(
            task=self.task,
            steps=steps,
            kept=len(kept),
            pairs="\n".join(pairs),
            step=steps + 1,
            seen=now.seen,
            list=now.list,
        )
        return [*self.head, _user(text)]


def show(protocol: Protocol, observation: Observation, *, first: bool) -> Shown:
    """Return an observation as the protocol shows it."""
    view, listing = protocol.view, protocol.listing
    parts = tuple(Observation((block,)).text for block in observation.blocks)
    seen = observation.text
    if first and view.drop_banner and "\n\n" in seen:
        seen = "\n".join(seen.split("\n\n")[1:])
    if view.drop_arrival and seen.startswith("You arrive at loc "):
        seen = seen[seen.find(". ") + 2 :]
    if len(parts) == 1:
        parts = (seen,)
    shown = listing.render(observation.admissible)
    full = seen
    if observation.admissible is not None and listing.show != "never" and (first or listing.show == "always"):
        full += listing.text.format(list=shown)
    if view.budgets and observation.budgets:
        left = ", ".join(f"{name} left: {count}" for name, count in sorted(observation.budgets.items()))
        full += f"\n\n[{left}]"
    return Shown(seen, full, shown, parts)


def answers_to(said: Said, shown: Shown) -> list[Message]:
    """Return what follows a reply: a result for each tool call that waits for one, else a user message."""
    if not said.ids:
        return [_user(shown.full)]
    parts: Sequence[str] = shown.parts
    if len(parts) != len(said.ids):
        # The environment answered for the whole turn at once: a refusal, or an end before the last call.
        parts = [shown.seen, *["(see the first result)"] * (len(said.ids) - 1)]
    texts = [*parts[:-1], parts[-1] + shown.suffix]
    return [_result(call, text) for call, text in zip(said.ids, texts, strict=True)]


def assistant(text: str) -> Message:
    """Return an assistant message of text, never empty and bounded: some endpoints take neither."""
    return {"role": "assistant", "content": bounded(text) or "(nothing)"}


def bounded(text: str) -> str:
    """Return text cut to what later prompts repeat."""
    return text if len(text) <= MAX_SAID else text[:MAX_SAID] + " […]"


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _result(call: str, text: str) -> Message:
    return {"role": "tool", "tool_call_id": call, "content": text}
