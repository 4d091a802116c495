"""Records play again to the byte, and their outcomes are judged the same."""

from __future__ import annotations

from collections.abc import Iterator

from agentenvs.core.canon import JSON
from agentenvs.core.errors import AgentEnvsError
from agentenvs.core.record import Record, parse_records
from agentenvs.core.replay import replay as play_again
from agentenvs.core.replay import rescore as judge_again
from agentenvs.core.verdict import Verdict
from agentenvs.harness.check.findings import UNDONE, Fault, Sight, Skip, check, raised
from agentenvs.harness.check.plays import Play, plays
from agentenvs.harness.check.subject import Subject

_EFFECT = "put what the actions do not determine through self.effect(), and let replay find it there"
_FACTS = "let _judge() call rejudge() with facts that are JSON, and compute nothing from anything else"


@check("the same actions give the same record", Sight.RECORD, promise="deterministic")
def record_bytes(subject: Subject) -> Iterator[Fault]:
    """Record each play twice; one with effects is left out, since they are what may differ."""
    for play in plays(subject):
        if any(turn.effects for turn in play.turns):
            continue
        one, other = _bytes(subject, play), subject.record(play.ref, play.actions)
        if one != other:
            lines = zip(one.splitlines(), other.splitlines(), strict=False)
            number = next((number for number, pair in enumerate(lines) if pair[0] != pair[1]), 0)
            yield Fault("two records of the same actions differ", f"{_where(play)}, line {number + 1}", _EFFECT)


@check("records replay to the byte", Sight.RECORD, promise="replayable")
def replay(subject: Subject) -> Iterator[Fault]:
    """Record each play, read the record, play it again with a fresh instance."""
    for play in plays(subject):
        report = play_again(_record(subject, play), subject.verifier())
        subject.tidy()
        if report.divergence is not None:
            yield Fault("a record does not replay", f"{_where(play)}, {report.divergence}", _EFFECT)


@check("an episode goes on where its world was lost", Sight.OBJECT, promise="resumable")
def resume(subject: Subject) -> Iterator[Fault]:
    """Bring a fresh instance to the middle of each play by what was recorded, and play the next turn for real."""
    if not subject.spec.capabilities.replayable:
        raise Skip("the spec says replayable: false", "")
    for play in plays(subject)[: subject.effort.branched]:
        half = len(play.actions) // 2
        if not play.actions:
            continue
        episode = subject.episode(play.ref, traced=False)
        episode.play(play.actions[:half], play.turns)
        turn = episode.step(play.actions[half])
        subject.tidy()
        if turn.error in UNDONE and play.turns[half + 1].error not in UNDONE:
            fix = "make the other side heed its seed, or declare resumable: false"
            yield Fault(f"an episode that was lost does not go on: {UNDONE[turn.error]}", episode.where(), fix)


@check("recorded outcomes rescore to the same verdict", Sight.RECORD, lost="nobody can recompute a reported score")
def rescore(subject: Subject) -> Iterator[Fault]:
    """Judge the recorded facts again, in every part but a reward that is paid by the step."""
    for play in plays(subject):
        try:
            report = judge_again(_record(subject, play), subject.verifier())
        except AgentEnvsError as error:
            yield Fault("a recorded outcome cannot be judged again", f"{_where(play)}: {raised(error)}", _FACTS)
            return
        finally:
            subject.tidy()
        first, second = _parts(subject, report.recorded), _parts(subject, report.rescored)
        for name, value in first.items():
            if value != second[name]:
                where = f"{_where(play)}, verdict.{name}: recorded {value!r}, judged again {second[name]!r}"
                yield Fault("a recorded outcome is judged differently", where, _FACTS)
                break


def _bytes(subject: Subject, play: Play) -> bytes:
    return subject.once(("record", id(play)), lambda: subject.record(play.ref, play.actions))


def _record(subject: Subject, play: Play) -> Record:
    return parse_records(_bytes(subject, play))[0]


def _parts(subject: Subject, verdict: Verdict) -> dict[str, JSON]:
    form = verdict.to_json()
    if subject.spec.capabilities.rewards == "step":
        form.pop("reward")
    return form


def _where(play: Play) -> str:
    return f"{play.ref.split}/{play.ref.index} ({play.who})"


CHECKS = (record_bytes, replay, resume, rescore)
