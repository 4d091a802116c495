"""OpenEnv's named checks of a good environment, as far as they can be made here.

OpenEnv 0.10 names 46 checks (its policy ``severity-v2``) and has code for six. Those that say whether an environment
may be trained on are made here: most by the checks of this package, under the name that OpenEnv has for them; six by
playing more. What needs an image, a hub or a running server is left to those, and listed as such.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from agentenvs.core.canon import JSON
from agentenvs.core.errors import AgentEnvsError
from agentenvs.core.task import TaskRef
from agentenvs.harness.check.findings import Sight, Skip, raised
from agentenvs.harness.check.plays import ORACLE, rolled, rolled_by
from agentenvs.harness.check.report import UNSEEN, Report
from agentenvs.harness.check.subject import Subject
from agentenvs.harness.policies import NoOp, Random
from agentenvs_scoring import probes

POLICY = "severity-v2"
"""The list of checks this is about."""

SEEDS = 6
"""Seeds whose openings are compared."""

_SLACK = 1e-9

BY_OURS: Mapping[str, tuple[str, ...]] = {
    "runtime.reward_well_formed": ("rewards.reward_range", "rewards.verdicts", "rewards.after_the_end"),
    "runtime.observation_schema": ("views.observation_form", "views.observation_bound"),
    "runtime.trajectory_record": ("records.record_bytes",),
    "runtime.tool_declaration_accuracy": ("interface.tools", "interface.reserved_names"),
    "runtime.task_declaration_accuracy": ("interface.splits", "interface.addresses", "interface.scenarios"),
    "runtime.episode_determinism": (
        "determinism.twin_runs",
        "determinism.global_random",
        "elsewhere.hash_seeds",
        "elsewhere.wall_clock",
    ),
    "runtime.episode_isolation": ("determinism.reset_forgets", "hosting.undone"),
    "runtime.oracle_containment": ("secrets.canaries",),
    "semantic.no_solution_leakage": ("secrets.twins", "secrets.canaries"),
    "semantic.verifier_determinism": ("records.rescore", "endings.finish"),
    "semantic.replayability": ("records.replay",),
}
"""Names of OpenEnv, and the checks of ours that they are made of."""

ELSEWHERE: Mapping[str, str] = {
    "runtime.startup": "of a server: openenv validate",
    "runtime.state_contract": "of a server: openenv validate",
    "runtime.network_policy": "of an image: openenv validate",
    "runtime.host_containment": "of an image",
    "runtime.resource_bounds": "of an image",
    "hub.cross_host_determinism": "of two machines: the golden digests, and make determinism",
    "semantic.canary_floor": "the catalogue of reward hacks stands for canaries: statistical.adversarial_floor",
    "statistical.difficulty_separation": "of many episodes: the score card",
    "statistical.headroom": "of many episodes: the score card",
}
"""Names that matter, and where they are looked at."""

Status = Literal["pass", "fail", "skip"]


@dataclass(frozen=True, slots=True)
class Grade:
    """What came of a check by OpenEnv's name."""

    check_id: str
    status: Status
    evidence: str
    """What was seen; why it failed or was not made."""
    measured: Mapping[str, JSON] = field(default_factory=dict)

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form, under the names of OpenEnv's reports."""
        return {
            "check_id": self.check_id,
            "status": self.status,
            "evidence": [self.evidence],
            "measured": dict(self.measured),
        }


class _Failed(Exception):
    """A check that does not hold."""

    def __init__(self, why: str, **measured: JSON) -> None:
        super().__init__(why)
        self.measured = measured


def judge(subject: Subject, report: Report) -> list[Grade]:
    """Return the grades of an environment, in the order of the names.

    Args:
        subject: The environment.
        report: What came of the checks of this package.
    """
    found = [_by_ours(check_id, names, report) for check_id, names in BY_OURS.items()]
    found += [_measured(check_id, measure, subject) for check_id, measure in MEASURES.items()]
    found += [Grade(check_id, "skip", why) for check_id, why in ELSEWHERE.items()]
    return sorted(found, key=lambda grade: grade.check_id)


def _by_ours(check_id: str, names: Sequence[str], report: Report) -> Grade:
    findings = [report.finding(name) for name in names]
    failed = [finding for finding in findings if finding.status == "failed"]
    if failed:
        said = failed[0].faults[0]
        return Grade(check_id, "fail", f"{failed[0].theme}.{failed[0].check}: {said.what} ({said.where})")
    passed = [f"{finding.theme}.{finding.check}" for finding in findings if finding.status == "passed"]
    if not passed:
        return Grade(check_id, "skip", findings[0].why)
    return Grade(check_id, "pass", ", ".join(passed))


def _measured(check_id: str, measure: Callable[[Subject], tuple[str, dict[str, JSON]]], subject: Subject) -> Grade:
    try:
        said, measured = measure(subject)
    except _Failed as failed:
        return Grade(check_id, "fail", str(failed), failed.measured)
    except Skip as skip:
        return Grade(check_id, "skip", skip.why)
    except (AgentEnvsError, Exception) as error:  # noqa: BLE001 - boundary: what is checked may raise anything
        return Grade(check_id, "fail", raised(error))
    finally:
        subject.tidy()
    return Grade(check_id, "pass", said, measured)


# ---- measures --------------------------------------------------------------------------------------------------------


def _seed_control(subject: Subject) -> tuple[str, dict[str, JSON]]:
    """The same seed begins alike; other seeds begin otherwise."""
    split = subject.splits()[subject.main_split]
    seeds = range(min(SEEDS, split.size or SEEDS))
    first, second = ([_opening(subject, TaskRef(split.name, seed)) for seed in seeds] for _ in range(2))
    different = len(set(first))
    told: dict[str, JSON] = {"seeds": len(seeds), "different_openings": different}
    if first != second:
        seed = next(seed for seed in seeds if first[seed] != second[seed])
        raise _Failed(f"{split.name}/{seed} begins in two ways", **told)
    if len(seeds) > 1 and different == 1:
        known = {_digest(subject, TaskRef(split.name, seed)) for seed in seeds}
        if len(known) == 1:
            raise _Failed("every seed begins alike, with the same scenario", **told)
        return "the same seed begins alike; seeds differ in what is hidden", told
    return f"the same seed begins alike; {different} of {len(seeds)} openings differ", told


def _opening(subject: Subject, ref: TaskRef) -> str:
    episode = subject.episode(ref, traced=False)
    episode.begin()
    return str(episode.turns[0].shown)


def _digest(subject: Subject, ref: TaskRef) -> str:
    env = subject.make()
    try:
        return str(env.scenario(ref.split, ref.index).digest)
    except (AgentEnvsError, AttributeError):
        return str(ref)  # not to be seen from here


def _rewards(subject: Subject) -> list[float]:
    """Return what the oracle earns."""
    if ORACLE not in subject.spec.players:
        raise Skip("its spec names no player 'oracle'")
    return [rolled(subject, ORACLE, ref).summary.episode_return for ref in subject.refs]


def _oracle_max(subject: Subject) -> tuple[str, dict[str, JSON]]:
    """The oracle earns the most there is, on every task that was tried."""
    earned, most = _rewards(subject), subject.spec.reward_range[1]
    told: dict[str, JSON] = {"least": min(earned), "max": most, "tasks": len(earned)}
    if min(earned) < most - _SLACK:
        raise _Failed(f"the oracle earns {min(earned):g} of {most:g}", **told)
    return f"the oracle earns {most:g} on {len(earned)} tasks", told


def _reachability(subject: Subject) -> tuple[str, dict[str, JSON]]:
    """Every task that was tried can be won."""
    earned = _rewards(subject)
    won = sum(reward > 0 for reward in earned)
    if won < len(earned):
        raise _Failed(f"the oracle earns nothing on {len(earned) - won} tasks", won=won, tasks=len(earned))
    return f"{won} of {len(earned)} tasks are won", {"won": won, "tasks": len(earned)}


def floor_of(subject: Subject) -> float:
    """Return the most that players earn on average who do nothing, or anything."""
    found = []
    for name, policy in (("noop", NoOp), ("random", Random)):
        known = name in subject.spec.players
        earned = [
            (rolled(subject, name, ref) if known else rolled_by(subject, policy(), ref)).summary.episode_return
            for ref in subject.refs
        ]
        subject.tidy()
        found.append(sum(earned) / len(earned))
    return max(found)


def _floor_gap(subject: Subject) -> tuple[str, dict[str, JSON]]:
    """Who does nothing, or anything, earns far less than the most there is."""
    low, high = subject.spec.reward_range
    floor, margin = floor_of(subject), margin_of(subject)
    told: dict[str, JSON] = {"floor": floor, "max": high, "floor_margin": margin}
    if high - floor < margin:
        raise _Failed(f"doing nothing, or anything, earns {floor:g} of {high:g} on average", **told)
    return f"doing nothing, or anything, earns {floor:g} of {low:g} .. {high:g} on average", told


def margin_of(subject: Subject) -> float:
    """Return the least distance from the floor to the most that is asked for: half the range of rewards."""
    low, high = subject.spec.reward_range
    return (high - low) / 2


def _attacked(subject: Subject) -> list[probes.Report]:
    """Return what the reward hacks of the environment get."""
    return subject.once("attacked", lambda: list(_attacks(subject)))


def _attacks(subject: Subject) -> Iterator[probes.Report]:
    known = probes.probes_of(subject.spec.slug)
    if Sight.OBJECT not in subject.sights:
        raise Skip(f"{UNSEEN}: {Sight.OBJECT.value}")
    if not known:
        raise Skip("it has no catalogue of reward hacks")
    profile = subject.options.get("profile", subject.spec.resolve({}).get("profile"))
    for probe in known:
        if profile not in probe.open_in:
            for ref in subject.refs[:2]:
                yield probes.attack(subject.make(**probe.options), probe, ref)
                subject.tidy()


def _adversarial_floor(subject: Subject) -> tuple[str, dict[str, JSON]]:
    """No reward hack of the catalogue earns more than it may."""
    found = _attacked(subject)
    told: dict[str, JSON] = {"attacks": len(found), "most": max(report.earned for report in found)}
    if broken := [report for report in found if not report.held]:
        first = broken[0]
        raise _Failed(f"{first.probe.name} earns {first.earned:g}: {first.probe.description}", **told)
    return f"{len(found)} attacks earn at most {told['most']:g}, none more than it may", told


def _gameability(subject: Subject) -> tuple[str, dict[str, JSON]]:
    """The best reward hack that does not do the task is far below the oracle."""
    earned, most = _rewards(subject), subject.spec.reward_range[1]
    best = max((report.earned for report in _attacked(subject) if report.probe.ceiling < most), default=0.0)
    gap, margin = min(earned) - best, margin_of(subject)
    told: dict[str, JSON] = {"oracle": min(earned), "best_attack": best}
    if gap < margin:
        raise _Failed(f"the best attack earns {best:g}, the oracle {min(earned):g}", **told)
    return f"the best attack that does not do the task earns {best:g}, the oracle {min(earned):g}", told


MEASURES: Mapping[str, Callable[[Subject], tuple[str, dict[str, Any]]]] = {
    "runtime.seed_control": _seed_control,
    "semantic.oracle_max": _oracle_max,
    "semantic.floor_gap": _floor_gap,
    "statistical.reward_reachability": _reachability,
    "statistical.adversarial_floor": _adversarial_floor,
    "statistical.gameability_gap": _gameability,
}
"""Names of OpenEnv that are looked at by playing more."""
