"""Plays a record again and names the first difference; computes a verdict again from recorded facts.

These are the two questions one may ask of a number: did these actions really lead here (``replay``), and is this
outcome really worth that much (``rescore``)?
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agentenvs.core import registry
from agentenvs.core.canon import JSON
from agentenvs.core.environment import Environment
from agentenvs.core.errors import AgentEnvsError, ContractError, RecordError
from agentenvs.core.portable import total
from agentenvs.core.record import Record, effects_of, effects_to_json
from agentenvs.core.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first place where a replay differs from its record."""

    turn: int
    """0 is the reset; one past the last turn is the footer."""
    field: str
    recorded: JSON
    replayed: JSON

    def __str__(self) -> str:
        return f"turn {self.turn}, {self.field}: recorded {self.recorded!r}, replayed {self.replayed!r}"


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What came of a replay."""

    turns: int
    """Turns that were played again."""
    divergence: Divergence | None

    @property
    def equal(self) -> bool:
        """Whether the replay gave the same bytes."""
        return self.divergence is None


@dataclass(frozen=True, slots=True)
class RescoreReport:
    """The recorded verdict beside the recomputed one."""

    recorded: Verdict
    rescored: Verdict

    @property
    def equal(self) -> bool:
        """Whether both are the same in every part."""
        return self.recorded.to_json() == self.rescored.to_json()


def env_for(record: Record, **machine_options: Any) -> Environment:
    """Make the environment a record was made in.

    Args:
        record: The record.
        **machine_options: Options that no record holds, such as the folder of game files.

    Raises:
        RecordError: The environment here is of another release, or the record sets what belongs to the machine.
        UserError: Some subclass: no such environment here, or an option it does not take.
    """
    _must_be_whole(record)
    spec = registry.spec(record.header["env"])
    if spec.release != record.header["release"]:
        raise RecordError(
            f"the record is of {spec.id} release {record.header['release']}, here is {spec.release}",
            why="another release may play the same actions differently",
            fix=f"version {record.header['since'] or '?'} of its package was the first with that release: use that",
        )
    options = record.header["options"]
    if foreign := [option.name for option in spec.options if option.secret and option.name in options]:
        raise RecordError(
            f"the record sets the option {foreign[0]!r}",
            why="it belongs to the machine, and a record from elsewhere has no say in that",
        )
    return registry.make_from(spec, **{**options, **machine_options})


def _must_be_whole(record: Record) -> None:
    if record.header.get("redacted"):
        raise RecordError(
            "the record is redacted",
            why="it is of a sealed scenario, and says nothing of what is hidden",
            fix="only the operator of its server has the whole record",
        )


def replay(record: Record, env: Environment | None = None, **machine_options: Any) -> ReplayReport:
    """Play a record again, effects fed back, and compare every field.

    Raises:
        RecordError: The environment is not replayable, or of another release.
        SplitError: The scenario is not to be had here.
    """
    _must_be_whole(record)
    env = env or env_for(record, **machine_options)
    if not env.spec.capabilities.replayable:
        raise RecordError(f"{env.spec.id} cannot be replayed", why="its spec says replayable: false")
    turns = 0
    try:
        for turn, field, recorded, replayed in comparisons(record, env):
            turns = max(turns, turn)
            if recorded != replayed:
                return ReplayReport(env.turn, Divergence(turn, field, recorded, replayed))
    except ContractError as error:
        return ReplayReport(env.turn, Divergence(env.turn + 1, "effects", "as recorded", error.what))
    except AgentEnvsError:
        raise
    except Exception as error:  # noqa: BLE001 - boundary: a world that is fed forged effects may fail in any way
        return ReplayReport(env.turn, Divergence(env.turn + 1, "failure", None, type(error).__name__))
    finally:
        env.close()
    return ReplayReport(len(record.turns), None)


def rescore(record: Record, env: Environment | None = None, **machine_options: Any) -> RescoreReport:
    """Compute the verdict of an ended record again from its outcome facts.

    Raises:
        RecordError: The record has no footer, its facts are none, or the scenario here is another one.
    """
    recorded = record.verdict
    if record.footer is None or recorded is None:
        raise RecordError("the record has no end, so there is no verdict to compare", fix="rescore ended episodes")
    if record.footer.get("failed"):
        return RescoreReport(recorded, recorded)  # the environment failed before it could judge: nothing was earned
    found = env or env_for(record, **machine_options)
    try:
        return RescoreReport(recorded, _rejudged(record, recorded, found))
    finally:
        if env is None:
            found.close()


def _rejudged(record: Record, recorded: Verdict, env: Environment) -> Verdict:
    scenario = env.scenario(record.ref.split, record.ref.index)
    if scenario.digest != record.header["scenario"]:
        raise RecordError(
            f"the scenario at {record.ref} is another one here",
            why=f"recorded {record.header['scenario']}, found {scenario.digest}",
            fix="give the data the record was made with",
        )
    env.ref = record.ref
    ending = (record.footer or {})["ending"]
    try:
        return env.rejudge(scenario, recorded.facts, ending)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise RecordError("the outcome facts of the record cannot be judged", why=repr(error)) from error


def comparisons(record: Record, env: Environment) -> Iterator[tuple[int, str, JSON, JSON]]:
    """Play a record again and yield each field beside what it is now: turn, name, recorded, replayed.

    For whoever may go on after a difference; :func:`replay` stops at the first.

    Raises:
        ContractError: Other effects were recorded than are asked for.
        SplitError: The scenario is not to be had here.
    """
    header = record.header
    for field, here in (("env", env.spec.id), ("release", env.spec.release), ("since", env.spec.since)):
        yield 0, field, header[field], here
    yield 0, "spec", header["spec"], env.spec.digest
    if header["observation"] is None:  # the environment failed before it showed anything
        return
    found = env.scenario(record.ref.split, record.ref.index)
    yield 0, "scenario", header["scenario"], found.digest
    first = env.reset(record.ref, effects=effects_of(header["effects"]))
    yield 0, "observation", header["observation"], first.digest()
    yield 0, "state", header["state"], env.state_key
    yield 0, "effects", header["effects"], effects_to_json(env.effects)
    for line in record.turns:
        if env.ending is not None:
            yield line["turn"], "ending", None, env.ending
        result = env.step(line["action"], effects=effects_of(line["effects"]))
        valid, error = env.last_valid
        played = {
            "valid": valid,
            "error": error,
            "observation": result.observation.digest(),
            "reward": result.reward,
            "state": env.state_key,
            "effects": effects_to_json(env.effects),
        }
        for field, value in played.items():
            yield line["turn"], field, line[field], value
    yield from _footer_comparisons(record, env)


def _footer_comparisons(record: Record, env: Environment) -> Iterator[tuple[int, str, JSON, JSON]]:
    last = len(record.turns) + 1
    footer = record.footer
    if footer is None:
        return
    yield last, "turns", footer["turns"], env.turn
    if footer.get("failed"):
        return
    yield last, "return", footer["return"], total(line["reward"] for line in record.turns)
    verdict = env.finish(footer["ending"])
    yield last, "ending", footer["ending"], env.ending
    for field, value in verdict.to_json().items():
        yield last, f"verdict.{field}", footer["verdict"][field], value
