"""Plays episodes: slots of the engine on one side, slots of the worlds on the other.

Whenever turns are done, their actions are played, what they lead to is appended, and the next turns are submitted,
while other conversations are still being sampled; a slot whose episode has ended takes the next that waits. The chance
of a turn is fixed by run, step, group, sample and turn, so an episode is the same whatever was played beside it.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from agentenvs.core.actions import parse_action
from agentenvs.core.environment import Environment
from agentenvs.core.observation import Observation
from agentenvs.core.policy import Policy, Privileged
from agentenvs.core.trace import StepTrace
from agentenvs.core.verdict import Verdict
from agentenvs.train.engine.ranks import Ranks
from agentenvs.train.interfaces import Assignment, Draw, RolloutHook, Sampled, Sampling
from agentenvs.train.plugins import at_least
from agentenvs.train.records import UNSAMPLED, Episode, EpisodeWriter, Role, Turn
from agentenvs.train.template import Template
from agentenvs.train.worlds import Answer, World


@dataclass(frozen=True)
class RolloutConfig:
    """Settings of rollouts."""

    constrained: bool = False
    """Whether actions are sampled among the legal ones, where the environment can tell them."""
    head: str = ""
    """Instructions that stand before every episode."""
    max_turn_tokens: int = 32
    max_length: int = 1024
    """The most tokens of an episode; one that reaches it is truncated."""
    temperature: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        at_least(self, 1, "max_turn_tokens", "max_length")
        at_least(self, 0, "temperature")


@dataclass(slots=True)
class Branch:
    """An episode that goes on from where another one stood."""

    episode: Episode
    """With the turns so far; those that follow are appended. Its group and sample are part of the chance."""
    ids: Sequence[int]
    """All tokens before the next turn."""
    env: Environment
    """The world as it stood there; it is forked, not changed."""
    known: Sequence[int] | None = None
    """Tokens of a next turn whose consequences are known: where they are sampled, the episode ends as ``joined``."""


@dataclass(slots=True)
class _Seat:
    """An episode that is being played in a slot."""

    episode: Episode
    writer: EpisodeWriter
    observation: Observation
    potential: float | None = None
    state_key: str | None = None
    admissible: tuple[str, ...] | None = None
    turn: Turn | None = None
    asked: float = 0.0
    known: Sequence[int] | None = None


@dataclass(slots=True)
class Rollouts:
    """Plays assignments.

    Args:
        engine: What samples: ``submit``, ``advance``, ``release``, ``version`` and ``used``.
        worlds: The mixture by name; every world has as many slots as the engine.
        template: How text becomes ids.
        config: Settings.
        seed: Of the run.
        hooks: Step in, in their order.
        tell: Is called with each episode that ends, for progress.
    """

    engine: Any
    worlds: Mapping[str, World]
    template: Template
    config: RolloutConfig
    seed: int = 0
    hooks: Sequence[RolloutHook] = ()
    tell: Callable[[Episode], None] | None = None
    ranks: Ranks = field(default_factory=Ranks)
    """Each plays its share of the groups; all get all episodes."""
    admissible: bool = False
    """Whether turns are written with their legal actions, even where sampling is free."""
    model_seconds: float = 0.0
    """Spent in the sampler, in all calls of :meth:`play` together."""
    _ids: dict[str, list[int]] = field(default_factory=dict)

    def play(
        self,
        assignments: Sequence[Assignment],
        group_size: int,
        step: int,
        *,
        sampling: Sampling | None = None,
        horizon: int | None = None,
        first_group: int = 0,
    ) -> list[Episode]:
        """Play every assignment ``group_size`` times, and return the episodes in order.

        Args:
            assignments: One a group.
            group_size: Episodes of each.
            step: Of the run; part of the chance.
            sampling: How tokens are drawn; at the configured temperature where None.
            horizon: The most turns of an episode.
            first_group: Number of the first group.
        """
        episodes = [
            Episode(one.env, one.ref, first_group + group, sample, dispatch_version=self.engine.used)
            for group, one in enumerate(assignments)
            for sample in range(group_size)
        ]
        places = [place for place in range(len(episodes)) if self.ranks.mine(place // group_size)]
        mine = [episodes[place] for place in places]
        stage = _Stage(self, step, sampling or self.sampling(), horizon, deque(mine))
        stage.run()
        for place, episode in self.ranks.gather(list(zip(places, mine, strict=True))):
            episodes[place] = episode
        return episodes

    def go_on(self, branches: Sequence[Branch], step: int, *, horizon: int | None = None) -> None:
        """Play branches to their ends, under the rules of :meth:`play`; their episodes get turns and endings.

        Prefixes stay in the engine's slots from branch to branch, since those of one episode share them. All slots are
        empty before and after, so that the same branches give the same, whatever was played before.

        Args:
            branches: What is played, in this order.
            step: Part of the chance.
            horizon: The most turns of an episode, counted from its beginning.
        """
        slots = range(next(iter(self.worlds.values())).size)
        self.engine.release(slots)
        _Stage(self, step, self.sampling(), horizon, deque(branches), keep=True).run()
        self.engine.release(slots)

    def sampling(self) -> Sampling:
        """Return how tokens are drawn while training."""
        return Sampling(
            temperature=self.config.temperature,
            max_tokens=self.config.max_turn_tokens,
            stop=self.template.stop,
            forced_end=self.template.stop[0],
        )

    def ids_of(self, action: str) -> list[int]:
        """Return the ids of a legal action with its end."""
        found = self._ids.get(action)
        if found is None:
            found = self._ids[action] = self.template.turn(action)
        return found

    def seed_of(self, step: int, episode: Episode, turn: int) -> int:
        """Return the seed of a turn's draws."""
        address = f"{self.seed}/{step}/{episode.env}/{episode.group}/{episode.sample}/{turn}"
        return int.from_bytes(hashlib.blake2b(address.encode(), digest_size=32).digest(), "big")


@dataclass(slots=True)
class _Stage:
    """One call of :meth:`Rollouts.play` or :meth:`Rollouts.go_on`."""

    rollouts: Rollouts
    step: int
    sampling: Sampling
    horizon: int | None
    waiting: deque[Episode | Branch]
    keep: bool = False
    """Whether a slot keeps its prefix when an episode has ended."""
    seats: dict[int, _Seat] = field(default_factory=dict)

    def run(self) -> None:
        engine = self.rollouts.engine
        for slot in range(next(iter(self.rollouts.worlds.values())).size):
            self._fill(slot)
        while self.seats:
            start = time.perf_counter()
            done: list[tuple[int, Sampled]] = engine.advance(self.sampling)
            self.rollouts.model_seconds += time.perf_counter() - start
            self._take(done)

    # ---- beginning and end -----------------------------------------------------------------------------------------

    def _fill(self, slot: int) -> None:
        """Begin the next episode that waits in a slot."""
        rollouts = self.rollouts
        while self.waiting:
            waiting = self.waiting.popleft()
            if isinstance(waiting, Branch):
                if self._go_on(slot, waiting):
                    return
                continue
            episode = waiting
            world = rollouts.worlds[episode.env]
            start = time.perf_counter()
            observation = world.begin(slot, episode.ref)
            episode.env_seconds += time.perf_counter() - start
            if isinstance(observation, str):
                episode.lost, episode.ending = observation, "aborted"
                self._told(episode)
                continue
            seat = _Seat(episode, EpisodeWriter(episode), observation)
            seat.state_key, seat.potential = world.standing(slot)
            said = [hook.begin(episode, observation) for hook in rollouts.hooks]
            head = "\n\n".join(part for part in (rollouts.config.head, *said) if part)
            plain = rollouts.template.begin(rollouts.config.head, observation.text)
            shown = self._shown(seat)
            same = head == rollouts.config.head and shown == observation.text
            _append(seat.writer, plain, plain if same else rollouts.template.begin(head, shown), Role.PROMPT)
            self.seats[slot] = seat
            if self._submit(slot, seat):
                return

    def _go_on(self, slot: int, branch: Branch) -> bool:
        """Seat a branch in a slot; return whether a turn of it was asked for."""
        env = branch.env.fork()
        self.rollouts.worlds[branch.episode.env].put(slot, env)
        seat = _Seat(branch.episode, EpisodeWriter(branch.episode), env.observation, known=branch.known)
        seat.writer.append(branch.ids, Role.PROMPT)
        self.seats[slot] = seat
        return self._submit(slot, seat)

    def _join(self, slot: int, seat: _Seat) -> None:
        """End a branch that took the turn whose consequences are known."""
        seat.episode.ending = "joined"
        del self.seats[slot]
        self._told(seat.episode)

    def _end(self, slot: int, seat: _Seat, verdict: Verdict | str, ending: str) -> None:
        episode = seat.episode
        if isinstance(verdict, str):
            episode.lost, ending = verdict, "aborted"
        else:
            episode.success = verdict.success
        episode.ending = ending
        episode.outcome = float(sum(turn.reward for turn in episode.turns))
        episode.finish_version = self.rollouts.engine.used
        seat.writer.finish()
        for hook in self.rollouts.hooks:
            hook.end(episode)
        del self.seats[slot]
        if not self.keep:
            self.rollouts.engine.release([slot])
        self._told(episode)

    def _told(self, episode: Episode) -> None:
        if self.rollouts.tell is not None:
            self.rollouts.tell(episode)

    # ---- turns -----------------------------------------------------------------------------------------------------

    def _submit(self, slot: int, seat: _Seat) -> bool:
        """Ask for the next turn; end the episode where there is no room for one, and return False."""
        rollouts, episode = self.rollouts, seat.episode
        world = rollouts.worlds[episode.env]
        config = rollouts.config
        over = self.horizon is not None and len(episode.turns) >= self.horizon
        if over or len(seat.writer.ids) + config.max_turn_tokens + 1 >= config.max_length:
            seat.writer.cut()
            self._pay(seat, world.finish(slot), slot)
            return False
        told = config.constrained or rollouts.admissible
        seat.admissible = world.legal(slot, seat.observation) if told else seat.observation.admissible
        legal = None
        if config.constrained and seat.admissible:
            legal = [rollouts.ids_of(action) for action in seat.admissible]
        seed = rollouts.seed_of(self.step, episode, len(episode.turns))
        seat.asked = time.perf_counter()
        rollouts.engine.submit(Draw(seat.writer.ids, slot, seed, legal))
        return True

    def _pay(self, seat: _Seat, verdict: Verdict | str, slot: int) -> None:
        """End an episode that was cut; what it is worth is paid on its last turn."""
        if not isinstance(verdict, str) and seat.episode.turns:
            paid = sum(turn.reward for turn in seat.episode.turns)
            seat.episode.turns[-1].reward += verdict.reward - paid
        self._end(slot, seat, verdict, "truncated")

    def _take(self, done: Sequence[tuple[int, Sampled]]) -> None:
        """Play turns that were sampled, and go on."""
        actions: dict[str, dict[int, str]] = {}
        for slot, sampled in done:
            seat = self.seats[slot]
            seat.episode.model_seconds += time.perf_counter() - seat.asked
            said = self._write(seat, sampled)
            known, seat.known = seat.known, None
            if known is not None and list(known) == sampled.ids:
                self._join(slot, seat)
                continue
            actions.setdefault(seat.episode.env, {})[slot] = said
        for env, some in actions.items():
            for slot, answer in self.rollouts.worlds[env].step(some).items():
                self._follow(slot, answer)
        for slot, _ in done:
            if slot not in self.seats:
                self._fill(slot)

    def _write(self, seat: _Seat, sampled: Sampled) -> str:
        rollouts = self.rollouts
        turn = seat.writer.sampled(
            sampled.ids,
            sampled.logps,
            rollouts.engine.used,
            forced=sampled.forced,
            candidates=sampled.candidates,
        )
        turn.text = said = rollouts.template.text(sampled.ids)
        turn.admissible = seat.admissible
        seat.turn = turn
        for hook in rollouts.hooks:
            said = hook.played(seat.episode, turn, said)
        return said

    def _follow(self, slot: int, answer: Answer) -> None:
        seat = self.seats[slot]
        episode, turn = seat.episode, seat.turn
        episode.env_seconds += answer.seconds
        result = answer.result
        if result is None or turn is None:
            self._end(slot, seat, answer.lost or "the turn was lost", "aborted")
            return
        turn.reward, turn.valid = result.reward, not result.info.get("invalid", False)
        turn.action = turn.text
        turn.state_key, turn.potential = seat.state_key, seat.potential
        if answer.trace is not None:
            fill(turn, answer.trace)
            seat.state_key, seat.potential = turn.next_state_key, turn.next_potential
        seat.observation = result.observation
        for hook in self.rollouts.hooks:
            hook.after_turn(episode, turn, result.observation)
        if result.terminated or result.truncated:
            verdict = answer.verdict or self.rollouts.worlds[episode.env].finish(slot)
            self._end(slot, seat, verdict, "terminated" if result.terminated else "truncated")
            return
        plain = self.rollouts.template.next(seat.observation.text)
        shown = self._shown(seat)
        full = plain if shown == seat.observation.text else self.rollouts.template.next(shown)
        _append(seat.writer, plain, full, Role.OBSERVATION)
        if not self._submit(slot, seat):
            return

    def _shown(self, seat: _Seat) -> str:
        parts = [hook.before_turn(seat.episode, seat.observation) for hook in self.rollouts.hooks]
        return "\n\n".join([*(part for part in parts if part), seat.observation.text])


def _append(writer: EpisodeWriter, plain: Sequence[int], full: Sequence[int], role: Role) -> None:
    """Append what is shown; tokens that are there because of a hook are :attr:`Role.INJECTED`.

    They are what stands between the longest common beginning and end of the tokens with the hooks' text and of those
    without it; where a hook says nothing, both are the same.
    """
    begin, end = added(plain, full)
    writer.append(full[:begin], role)
    writer.append(full[begin:end], Role.INJECTED)
    writer.append(full[end:], role)


def added(plain: Sequence[int], full: Sequence[int]) -> tuple[int, int]:
    """Return from where to where ``full`` differs from ``plain``, which lies around what was added."""
    bound = min(len(plain), len(full))
    begin = next((place for place in range(bound) if plain[place] != full[place]), bound)
    rest = bound - begin
    same = next((back for back in range(rest) if plain[-1 - back] != full[-1 - back]), rest)
    return begin, len(full) - same


def fill(turn: Turn, trace: StepTrace) -> None:
    """Write what a trace tells into a turn."""
    turn.action, turn.valid, turn.error = trace.action, trace.valid, trace.error
    turn.state_key, turn.next_state_key = trace.state_before, trace.state_after
    turn.observed, turn.used, turn.written = trace.observed, trace.used, trace.written
    turn.milestones, turn.next_potential = trace.milestones, trace.potential


# ---- demonstrations ------------------------------------------------------------------------------------------------


def demonstrate(
    world: World, policy: Policy, template: Template, assignments: Sequence[Assignment], head: str = ""
) -> Iterator[Episode]:
    """Play assignments with another policy, and yield the episodes as tokens to be cloned.

    Args:
        world: Its first slot is used; a privileged policy needs it in this process.
        policy: Says its actions as text.
        template: How text becomes ids.
        assignments: What is played.
        head: Instructions.
    """
    for number, one in enumerate(assignments):
        episode = Episode(one.env, one.ref, number, 0)
        observation = world.begin(0, one.ref)
        if isinstance(observation, str):
            continue
        writer = EpisodeWriter(episode)
        player = world.local(0)
        policy.reset(player.spec, player.task())
        if isinstance(policy, Privileged):
            policy.reveal(player.current)
        writer.prompt(template.begin(head, observation.text))
        over = False
        while not over:
            said: Any = policy.act(observation)
            ids = template.turn(str(said))
            turn = writer.sampled(ids, [0.0] * len(ids), UNSAMPLED)
            answer = world.step({0: parse_action(said)})[0]
            if answer.result is None:
                break
            turn.text, turn.reward = str(said), answer.result.reward
            if answer.trace is not None:
                fill(turn, answer.trace)
            observation = answer.result.observation
            over = answer.result.terminated or answer.result.truncated
            if over:
                episode.success = bool(answer.verdict and answer.verdict.success)
            else:
                writer.append(template.next(observation.text), Role.OBSERVATION)
        writer.finish()
        episode.outcome = float(sum(turn.reward for turn in episode.turns))
        for segment in episode.segments:
            segment.role[segment.role == Role.ACTION] = Role.TEACHER
        yield episode


def world_model(episode: Episode, weight: float) -> None:
    """Train on observations too, at a weight: put stream ``clone`` (1 of turns, ``weight`` of observations).

    A small model learns faster what to do when it also learns what will be seen.
    """
    for segment in episode.segments:
        seen = segment.role == Role.OBSERVATION
        segment.streams["clone"] = np.where(seen, weight, 1.0).astype(np.float32)
        mask = segment.loss_mask | seen
        mask[0] = False
        segment.loss_mask = mask
