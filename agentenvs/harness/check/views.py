"""What a player sees has its form: bounded, JSON that reads back, budgets that are declared and only ever shrink."""

from __future__ import annotations

from collections.abc import Iterator

from agentenvs.core.canon import JSON
from agentenvs.core.errors import AgentEnvsError
from agentenvs.core.observation import CUT_MARKER, Observation
from agentenvs.harness.check.episodes import Turn
from agentenvs.harness.check.findings import Fault, check, raised, short
from agentenvs.harness.check.plays import Play, first_failure, plays
from agentenvs.harness.check.subject import Subject

_LEGAL_PLAYS = 4
_LEGAL_ACTIONS = 6

_MARKER_BYTES = len(CUT_MARKER.encode()) + 16
"""Room for the marker of a cut, its number written out."""


@check("it plays its own actions without raising")
def plays_on(subject: Subject) -> Iterator[Fault]:
    """Neither the oracle's actions nor a wanderer's make the environment raise."""
    for play in first_failure(subject):
        if play.broken is not None:
            error, place = play.broken.error, play.broken.place
            said = error.fix if isinstance(error, AgentEnvsError) else ""
            fix = said or f"mend {place or 'it'}; an action that cannot be done is one with valid=False (Invalid)"
            yield Fault(f"the environment raises {raised(error)}", play.broken.where, fix)


@check("observations are within their bound")
def observation_bound(subject: Subject) -> Iterator[Fault]:
    """The text has at most ``max_observation_bytes`` bytes, and a marker where it was cut."""
    spec = subject.spec
    for play in plays(subject):
        for number, turn in enumerate(play.turns):
            observation = Observation.from_json(turn.shown["observation"])
            size = len(observation.text.encode())
            most = spec.max_observation_bytes + _MARKER_BYTES * max(len(observation.blocks), 1)
            if size > most:
                yield Fault(
                    f"an observation has {size} bytes, the spec says {spec.max_observation_bytes}",
                    _where(play, number),
                    "leave the bound to the base class (_observe), or raise max_observation_bytes",
                )
                return


@check("observations and info are JSON that reads back")
def observation_form(subject: Subject) -> Iterator[Fault]:
    """An observation is equal to what is read back of it; info has a bool ``invalid``; ended flags are bools."""
    for play in plays(subject):
        for number, turn in enumerate(play.turns):
            wrong = _malformed(turn)
            if wrong is not None:
                yield Fault(
                    wrong, _where(play, number), "build observations from TextBlock and DataBlock, info from JSON"
                )
                return


def _malformed(turn: Turn) -> str | None:
    form = turn.shown["observation"]
    try:
        if Observation.from_json(form).to_json() != form:
            return "an observation reads back as another one"
    except (AgentEnvsError, KeyError, TypeError, ValueError) as error:
        return f"an observation cannot be read back: {raised(error)}"
    if "info" not in turn.shown:
        return None
    if type(turn.shown["info"].get("invalid")) is not bool:
        return f"info['invalid'] is {short(turn.shown['info'].get('invalid'))}, no bool"
    flags = [name for name in ("terminated", "truncated") if type(turn.shown[name]) is not bool]
    return f"{flags[0]} is {short(turn.shown[flags[0]])}, no bool" if flags else None


@check("actions listed as legal are legal")
def legal_actions(subject: Subject) -> Iterator[Fault]:
    """Play some of the listed actions at some turns: none is invalid."""
    stream = subject.stream("legal")
    returns = subject.spec.capabilities.recoverable  # what is not is played from its start, for real
    for play in plays(subject)[:_LEGAL_PLAYS]:
        like = play.turns if returns else None
        for turn in sorted({0, stream.below(len(play.turns))}) if returns else (0,):
            episode = subject.episode(play.ref, traced=False, **subject.listing())
            episode.play(play.actions[:turn], like)
            if episode.ended:
                continue
            listed = list(episode.env.admissible() or ())
            stream.shuffle(listed)
            for action in listed[:_LEGAL_ACTIONS]:
                other = subject.episode(play.ref, traced=False)
                other.play(play.actions[:turn], like)
                if not other.step(action).valid:
                    yield Fault(
                        "an action listed as legal is invalid", other.where(), "list in _admissible() what _act() does"
                    )
                    return
            subject.tidy()


@check("budgets are declared, shown and only shrink")
def budgets(subject: Subject) -> Iterator[Fault]:
    """Each budget shown is declared, each declared one is shown; all are whole numbers, none grows or is below 0."""
    for play in plays(subject):
        declared = _declared(subject)
        before: dict[str, JSON] = declared
        for number, turn in enumerate(play.turns):
            shown = turn.shown["observation"].get("budgets", {})
            wrong = _budget_fault(declared, before, shown)
            if wrong is not None:
                yield Fault(*wrong[:1], f"{_where(play, number)}: {short(shown)}", wrong[1])
                return
            before = shown


def _declared(subject: Subject) -> dict[str, JSON]:
    declared: dict[str, JSON] = subject.once("budgets", lambda: subject.make().declared_budgets())
    return declared


def _budget_fault(declared: dict[str, JSON], before: dict[str, JSON], shown: dict[str, JSON]) -> tuple[str, str] | None:
    """Return what is wrong with budgets, and how to mend it."""
    if extra := [name for name in shown if name not in declared]:
        return f"the budget {extra[0]!r} is not declared", "add it to the spec's budgets"
    if absent := [name for name in declared if name not in shown]:
        return f"the budget {absent[0]!r} is declared and not shown", "return it from _budgets()"
    for name, value in shown.items():
        if type(value) is not int or value < 0:
            return f"the budget {name!r} is {short(value)}", "budgets are whole numbers, at least 0"
        if value > before[name]:
            return f"the budget {name!r} grows from {before[name]} to {value}", "declare what an episode starts with"
    return None


def _where(play: Play, turn: int) -> str:
    action = f", action {short(play.actions[turn - 1], 80)}" if turn else ""
    return f"{play.ref.split}/{play.ref.index} ({play.who}), turn {turn}{action}"


CHECKS = (plays_on, observation_bound, observation_form, legal_actions, budgets)
