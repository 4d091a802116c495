"""The parts of an audit: draws, intervals, mutants, pages, what is told of guests and servers."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from agentenvs.api import world
from agentenvs.core.errors import ConfigError, ContractError
from agentenvs.core.task import TaskRef
from agentenvs.harness.audit import audit_env, changes
from agentenvs.harness.audit.addresses import _growing, _periodic
from agentenvs.harness.audit.hacks import judged
from agentenvs.harness.audit.mutating import Sources, scope_of
from agentenvs.harness.audit.page import page
from agentenvs.harness.audit.rows import Row, bounds, opened
from agentenvs.harness.audit.theatre import Take
from agentenvs_scoring.audits import Audit, audit_of
from agentenvs_scoring.probes import Probe
from agentenvs_scoring.probes.generic import HACKS
from agentenvs_scoring.stats import wilson
from tests.audit.broken import common, order_ignored, own_hack
from tests.audit.broken.common import Sound

REF = TaskRef("train", 0)


def takes(*earned: float) -> list[Take]:
    return [Take(REF, value, value == 1.0, 3, True) for value in earned]


@pytest.fixture(scope="module")
def report():
    return audit_env(Sound, quick=True, episodes=6, split="train")


def test_names_are_unique_and_there_is_a_row_for_each(report):
    names = [row.name for row in report.rows]
    assert len(set(names)) == len(names)
    assert {f"hack.{hack.name}" for hack in HACKS} <= set(names)


def test_the_same_seed_gives_the_same_table(report):
    again = audit_env(Sound, quick=True, episodes=6, split="train")
    assert again.to_json() == report.to_json()
    assert page(again) == page(report)


def test_another_seed_draws_otherwise(report):
    other = audit_env(Sound, quick=True, episodes=6, split="train", seed=7)
    assert other.seed == 7
    assert other.passed


def test_progress_counts_every_row():
    told: list[tuple[int, int, int]] = []
    report = audit_env(Sound, quick=True, episodes=3, split="train", progress=lambda *now: told.append(now))
    assert [number for number, _, _ in told] == list(range(1, len(report.rows) + 1))
    assert {total for _, total, _ in told} == {len(report.rows)}


def test_the_page_stands_alone_and_escapes(report):
    evil = replace(report, rows=(Row("hack.x", "<b>", "breach", "<script>\x1b[2J", 0.0, 1.0), *report.rows))
    text = page(evil)
    assert not [sign for sign in ("<script>", "\x1b", "http") if sign in text]
    assert "1 breaches" in text


def test_json_holds_every_row(report):
    form = json.loads(json.dumps(report.to_json()))
    assert [row["row"] for row in form["rows"]] == [row.name for row in report.rows]
    assert (form["seed"], len(form["tasks"])) == (0, 6)


@pytest.mark.parametrize("wins", [0, 1, 5, 12])
def test_bounds_of_wins_are_wilsons(wins):
    found = bounds([1.0] * wins + [0.0] * (12 - wins), 0.0, 1.0)
    assert found == pytest.approx(wilson(wins, 12))


def test_bounds_are_scaled_and_rounded_outwards():
    low, high = bounds([-1.0, 0.0, 1.0, 0.5], -1.0, 1.0)
    assert low == pytest.approx(-1.0 + 2.0 * wilson(2, 4).low)
    assert high == pytest.approx(-1.0 + 2.0 * wilson(3, 4).high)
    assert bounds([], 0.0, 1.0) is None
    assert bounds([1.0], -math.inf, math.inf) is None


NEVER = Probe("never", "may not", lambda winning: None)
GUESS = Probe("guess", "may", lambda winning: None, ceiling=1.0, average=0.2)


@pytest.mark.parametrize(
    ("probe", "earned", "verdict"),
    [
        (NEVER, [0.0] * 5, "held"),
        (NEVER, [0.0, 0.1], "breach"),
        (GUESS, [0.0] * 9 + [1.0], "held"),
        (GUESS, [0.0] * 7 + [1.0] * 3, "unclear"),
        (GUESS, [1.0] * 10, "breach"),
    ],
)
def test_a_row_says_what_was_earned(probe, earned, verdict):
    assert judged("hack.x", "tries", probe, takes(*earned), (0.0, 1.0)).verdict == verdict


def test_a_leak_and_a_late_step_are_breaches():
    for slip in ({"leaks": ("the word",)}, {"late": ("a step after the end was played",)}):
        row = judged("hack.x", "tries", NEVER, [replace(takes(0.0)[0], **slip)], (0.0, 1.0))
        assert row.verdict == "breach"


def test_a_declared_hole_is_open_and_only_a_breach_is():
    row = Row("hack.x", "tries", "breach", "earns 1")
    assert opened(row, "as the original").verdict == "open"
    assert opened(replace(row, verdict="held"), "as the original").verdict == "held"


def test_periods_and_growing_lengths():
    assert _periodic([("a",), ("b",)] * 8) == "solutions come back every 2 tasks"
    assert _periodic([(str(number),) for number in range(16)]) == ""
    assert "longer" in _growing(list(range(16)))
    assert _growing([3, 9, 1, 7, 2, 8, 4, 6, 5, 3, 9, 1, 7, 2, 8, 4]) == ""


def test_mutants_are_put_back():
    entry, modules = scope_of(Sound)
    before = entry.__code__
    mutants = list(Sources(entry, modules).mutants())
    assert mutants
    assert len({mutant.label for mutant in mutants}) == len(mutants)
    for mutant in mutants:
        with mutant.planted():
            assert entry.__code__ is not before
        assert entry.__code__ is before


def test_every_operator_is_used_somewhere():
    import ast

    source = """
def score(a, b=1):
    "Words."
    total = 0
    for item in [x for x in a if x > 0 and not x == 3]:
        if item < b:
            continue
        total += item * 2 - 1
    try:
        return {"x": min(total, 5), "y": any(a)} if total else (total, dict(a=1.5, b=True))
    except ValueError:
        return total, b
"""
    (function,) = ast.parse(source).body
    found = {change.operator for change in changes.of_function(function)}
    wanted = {"comparison", "and/or", "clause dropped", "negation dropped", "arithmetic", "constant", "off by one"}
    wanted |= {"condition negated", "branch removed", "least/most", "argument dropped", "nothing returned"}
    wanted |= {"components swapped", "component dropped", "filter dropped", "statement removed", "handler raises"}
    assert found == wanted
    plain = ast.unparse(function)
    for change in changes.of_function(function):
        with change.made():
            compile(ast.Module([function], []), "x", "exec")
        assert ast.unparse(function) == plain


def test_an_endless_mutant_is_noticed():
    import ast
    import types

    tree = ast.parse("def f():\n    while True:\n        pass")
    changes.count_loops(tree)
    calls = []

    def tick() -> None:
        calls.append(1)
        if len(calls) > 5:
            raise RuntimeError

    scope: dict[str, object] = {changes.TICK: tick}
    exec(compile(tree, "x", "exec"), scope)
    loop = scope["f"]
    assert isinstance(loop, types.FunctionType)
    with pytest.raises(RuntimeError):
        loop()


def test_what_a_world_says_is_found():
    assert audit_of("x", order_ignored.Broken) == order_ignored.AUDIT
    (probe,) = audit_of("x", own_hack.Broken).probes
    assert (probe.name, probe.ceiling) == ("Swears", 0.0)
    assert audit_of("x", Sound) == Audit()


def test_an_audit_that_is_none_is_refused(monkeypatch):
    monkeypatch.setattr(common, "AUDIT", {"luck": 1}, raising=False)
    with pytest.raises(ContractError, match="is no Audit"):
        audit_of("x", Sound)


@pytest.mark.parametrize("episodes", [0, -1])
def test_no_episodes_are_refused(episodes):
    with pytest.raises(ConfigError, match="episodes are none"):
        audit_env(Sound, episodes=episodes)


def test_a_hack_that_had_nothing_to_try_does_not_say_that_the_world_held():
    task = staticmethod(lambda rng: {"word": "iris", "door": rng.choice(common.DOORS)})
    alike = type("Alike", (common.Doors,), {"__module__": __name__, "task": task})  # all end with one and the same step
    made = audit_env(world("audit/Alike-v0", steps=20, players=common.PLAYERS)(alike), quick=True, episodes=3)
    row = made.row("hack.odd-answers")
    assert (row.verdict, row.evidence) == ("skipped", "there is nothing of the kind to try")
