"""Every episode ends with a verdict, whenever and however it ends, and limits hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentenvs.core.errors import EpisodeNotStarted
from agentenvs.core.verdict import ENDINGS, Verdict
from agentenvs.harness.check.episodes import Episode, Raised, refuses
from agentenvs.harness.check.findings import Fault, Sight, Skip, check, raised, short
from agentenvs.harness.check.plays import MOST_TURNS, nonsense, plays
from agentenvs.harness.check.subject import Subject

_SHORT_LIMIT = 3
_JUDGE = "let _judge() return a Verdict for every ending at every turn"


@check("every ending at every turn has a verdict, once")
def finish(subject: Subject) -> Iterator[Fault]:
    """Finish with each ending at the start, in the middle and after the end; ask twice."""
    for play in plays(subject)[: subject.effort.endings]:
        last = len(play.turns) - 1
        for turn in sorted({0, 1, last // 2, last} & set(range(last + 1))):
            for ending in ENDINGS if Sight.OBJECT in subject.sights else ("abandoned", "truncated"):
                episode = subject.episode(play.ref, traced=False)
                episode.play(play.actions[:turn], play.turns)
                yield from _finished(episode, ending)
                subject.tidy()


def _finished(episode: Episode, ending: Any) -> Iterator[Fault]:
    env, where = episode.env, episode.where()
    had = env.ending
    try:
        verdict = episode.finish(ending)
        again = episode.finish("abandoned" if ending != "abandoned" else "truncated")
    except Raised as error:
        yield Fault(f"finish({ending!r}) gives no verdict: {raised(error.error)}", where, _JUDGE)
        return
    if env.ending != (had or ending):
        yield Fault(f"finish({ending!r}) leaves the ending {env.ending!r}", where, "leave finish() to the base class")
    if again != verdict:
        yield Fault("a second finish() gives another verdict", where, "leave finish() to the base class")


@check("an episode that ended in play has a verdict")
def ended(subject: Subject) -> Iterator[Fault]:
    """After a turn that says terminated or truncated there are an ending of that kind and a verdict."""
    for play in plays(subject):
        if not play.ended:
            continue
        episode = subject.episode(play.ref, traced=False)
        episode.play(play.actions, play.turns)
        yield from _concluded(episode)
        subject.tidy()


def _concluded(episode: Episode) -> Iterator[Fault]:
    env, shown, where = episode.env, episode.turns[-1].shown, episode.where()
    if not isinstance(env.verdict, Verdict):
        yield Fault(f"the episode has ended and its verdict is {short(env.verdict)}", where, _JUDGE)
    wanted = ("terminated",) if shown["terminated"] else ("truncated", "aborted", "abandoned")
    if env.ending not in wanted:
        yield Fault(f"the step says {wanted[0]}, the ending is {env.ending!r}", where, "leave step() to the base class")
    if shown["terminated"] and shown["truncated"]:
        yield Fault("a step is both terminated and truncated", where, "terminated goes first")


@check("the limit truncates, with a verdict", lost="an episode may last for ever")
def limit(subject: Subject) -> Iterator[Fault]:
    """Play nothing until the turns are spent: the last turn is truncated, not before and not later."""
    options = {"limit": _SHORT_LIMIT} if subject.has("limit") else {}
    episode = subject.episode(subject.ref, traced=False, **options)
    budgets = episode.begin().shown["observation"]["budgets"]
    turns = budgets.get("steps")
    if turns is None or turns > MOST_TURNS:
        raise Skip("it sets no limit of turns" if turns is None else f"its limit of {turns} turns is too far off")
    if options and turns != _SHORT_LIMIT:
        yield Fault(f"option limit={_SHORT_LIMIT} gives {turns} steps", episode.where(), "let the base class count")
    while not episode.ended and len(episode.turns) <= turns:
        try:
            episode.step(nonsense(subject)[0])
        except Raised as error:
            yield Fault(f"the turn raises {raised(error.error)}", error.where, _JUDGE)
            return
    played, shown = len(episode.turns) - 1, episode.turns[-1].shown
    if not episode.ended:
        yield Fault(f"after {turns} turns of {turns} the episode goes on", episode.where(), "let the base class count")
    elif not shown["truncated"] and played == turns:
        yield Fault("the last turn is not truncated", episode.where(), "let the base class count")
    else:
        yield from _concluded(episode)


@check("nothing can be done before the first reset", Sight.OBJECT)
def not_begun(subject: Subject) -> Iterator[Fault]:
    """Step, finish, task, fork and snapshot before a reset are an EpisodeNotStarted."""
    env = subject.make()
    capabilities = subject.spec.capabilities
    calls: dict[str, Any] = {
        "step": lambda: env.step(""),
        "finish": lambda: env.finish("abandoned"),
        "task": lambda: env.task(),
        **({"fork": lambda: env.fork()} if capabilities.forkable else {}),
        **({"snapshot": lambda: env.snapshot()} if capabilities.snapshot else {}),
    }
    for name, call in calls.items():
        wrong = refuses(call, EpisodeNotStarted)
        if wrong is not None:
            yield Fault(f"{name}() before the first reset {wrong}", "", f"leave {name}() to the base class")


@check("closing is final and may be done twice", Sight.OBJECT)
def close(subject: Subject) -> Iterator[Fault]:
    """Close before a reset, after one, and twice; a step after it is refused."""
    for begun in (False, True):
        env = subject.make()
        if begun:
            env.reset(subject.ref)
        try:
            env.close()
            env.close()
        except Exception as error:  # noqa: BLE001 - boundary: what is checked may raise anything
            where = "after a reset" if begun else "before a reset"
            yield Fault(f"close() raises {raised(error)}", where, "let close() give up what is there, and call super()")
            return
        wrong = refuses(lambda env=env: env.step(""), EpisodeNotStarted)
        if wrong is not None:
            yield Fault(f"a step after close() {wrong}", "", "call super().close()")


CHECKS = (finish, ended, limit, not_begun, close)
