"""One suite over every environment: what the contract promises, seen from outside."""

from __future__ import annotations

import json

import pytest

from agentenvs.core import registry
from agentenvs.core.canon import canonical_bytes
from agentenvs.core.errors import (
    CapabilityError,
    ContractError,
    EpisodeEnded,
    EpisodeNotStarted,
    SnapshotError,
    SplitError,
)
from agentenvs.core.record import Recorded, parse_records
from agentenvs.core.replay import replay, rescore
from agentenvs.core.spec import RESERVED_TOOLS, EnvSpec
from agentenvs.core.task import TaskRef
from agentenvs.core.verdict import ENDINGS
from agentenvs.harness.policies import resolve
from agentenvs.harness.rollout import play


def _seen(env, result):
    return result.observation.to_json(), result.reward, result.terminated, result.truncated, result.info, env.state_key


def _walk(env, actions):
    rows = []
    for action in actions:
        if env.ending is not None:
            break
        rows.append(_seen(env, env.step(action)))
    return rows


def test_twin_runs_are_equal_to_the_byte(case, make):
    first, second = Recorded(make()), Recorded(make())
    for recorded in (first, second):
        recorded.reset(case.ref())
        for action in case.walk:
            if recorded.env.ending is None:
                recorded.step(action)
        recorded.finish("abandoned")
    if case.name == "slow_tool":  # its clock is an effect; everything else is equal
        strip = [json.loads(line) for line in first.to_bytes().splitlines()]
        other = [json.loads(line) for line in second.to_bytes().splitlines()]
        assert [line.get("state") for line in strip] == [line.get("state") for line in other]
    else:
        assert first.to_bytes() == second.to_bytes()


def test_a_reset_forgets_the_episode_before(case, make):
    env = make()
    env.reset(case.ref())
    rows = _walk(env, case.walk[:2])
    env.reset(case.ref(1))
    _walk(env, case.walk)
    env.reset(case.ref())
    again = _walk(env, case.walk[:2])
    assert [row[-1] for row in again] == [row[-1] for row in rows]


@pytest.mark.parametrize("turns", [0, 1, 3, 5])
def test_snapshot_and_restore_are_exact(case, make, turns):
    env, twin = make(), make()
    env.reset(case.ref())
    _walk(env, case.walk[:turns])
    data = env.snapshot()
    assert twin.restore(data) == env.observation
    assert twin.snapshot() == data
    assert twin.state_key == env.state_key
    rest = [action for action in case.walk[turns:] if "nap" not in str(action)]
    assert _walk(twin, rest) == _walk(env, rest)


@pytest.mark.parametrize("turns", [0, 2, 4])
def test_a_fork_is_exact_and_independent(case, make, turns):
    env = make()
    env.reset(case.ref())
    _walk(env, case.walk[:turns])
    if not env.spec.capabilities.forkable:
        with pytest.raises(CapabilityError, match="cannot be forked"):
            env.fork()
        return
    key = env.state_key
    twin = env.fork()
    rest = [action for action in case.walk[turns:] if "nap" not in str(action)]
    rows = _walk(twin, rest)
    assert env.state_key == key
    assert _walk(env, rest) == rows
    twin.close()


def test_records_replay_and_rescore(case, make):
    recorded = Recorded(make())
    recorded.reset(case.ref())
    for action in case.walk:
        if recorded.env.ending is None:
            recorded.step(action)
    recorded.finish("abandoned")
    record = parse_records(recorded.to_bytes())[0]
    report = replay(record, make())
    assert report.equal, str(report.divergence)
    assert rescore(record, make()).equal


def test_a_replay_names_the_first_difference(case, make):
    recorded = Recorded(make())
    recorded.reset(case.ref())
    for action in case.walk[:3]:
        recorded.step(action)
    record = parse_records(recorded.to_bytes())[0]
    record.turns[1]["state"] = "somewhere else"
    report = replay(record, make())
    assert report.divergence is not None
    assert (report.divergence.turn, report.divergence.field) == (2, "state")
    assert "somewhere else" in str(report.divergence)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("turns", [0, 2])
def test_every_ending_has_a_verdict_at_any_turn(case, make, ending, turns):
    env = make()
    env.reset(case.ref())
    _walk(env, case.walk[:turns])
    verdict = env.finish(ending)
    assert env.ending == ending
    assert verdict.reward == 0.0
    assert env.finish("truncated") == verdict
    assert env.rejudge(env.current, verdict.facts, ending).to_json() == verdict.to_json()


def test_nothing_is_played_before_reset_or_after_the_end(case, make):
    env = make()
    with pytest.raises(EpisodeNotStarted):
        env.step("look")
    with pytest.raises(EpisodeNotStarted):
        env.finish("abandoned")
    with pytest.raises(EpisodeNotStarted):
        env.snapshot()
    env.reset(case.ref())
    env.finish("abandoned")
    with pytest.raises(EpisodeEnded):
        env.step(case.walk[0])


def test_an_ending_that_is_none_is_refused(case, make):
    env = make()
    env.reset(case.ref())
    with pytest.raises(ContractError, match="is no ending"):
        env.finish("won")


def test_the_limit_truncates_and_pays_nothing(case, make):
    if "limit" not in {option.name for option in registry.spec(case.env).options}:
        pytest.skip("this environment has a fixed limit")
    env = make(limit=2)
    env.reset(case.ref())
    env.step(case.walk[0])
    assert env.observation.budgets["steps"] == 1
    result = env.step(case.walk[1])
    assert (result.terminated, result.truncated) == (False, True)
    assert env.verdict is not None
    assert env.verdict.reward == 0.0


def test_a_no_op_earns_nothing(case, make):
    policy = resolve("noop", registry.spec(case.env))()
    episode = play(make(), policy, case.ref())
    assert episode.summary.reward == 0.0
    assert not episode.summary.success
    assert episode.summary.error is None


def test_the_oracle_earns_everything(case, make):
    policy = resolve("oracle", registry.spec(case.env))()
    episode = play(make(), policy, case.ref())
    assert episode.summary.success, episode.sidecar
    assert episode.summary.reward == 1.0


def test_an_invalid_action_moves_only_budgets(case, make):
    env = make()
    env.reset(case.ref())
    key, budgets = env.state_key, env.observation.budgets
    result = env.step({"no": "action"})
    assert result.info["invalid"] is True
    assert result.reward == 0.0 or case.name == "household-shaped"
    assert env.state_key == key
    assert set(result.observation.budgets) == set(budgets)
    assert env.last_trace is not None
    assert (env.last_trace.valid, env.last_trace.written) == (False, ())


def test_traces_speak_of_the_turn(case, make):
    env = make()
    env.reset(case.ref())
    assert env.last_trace is None
    before = env.state_key
    env.step(case.walk[0])
    trace = env.last_trace
    assert trace is not None
    assert (trace.turn, trace.state_before, trace.state_after) == (1, before, env.state_key)
    assert canonical_bytes(trace.to_json())


def test_observations_are_bounded(case, make):
    env = make()
    first = env.reset(case.ref())
    texts = [first.text, *(env.step(action).observation.text for action in case.walk[:4])]
    assert max(len(text.encode()) for text in texts) <= env.spec.max_observation_bytes


def test_scenarios_are_the_same_for_the_same_address(case, make):
    first, second = make().scenario(case.split, 5), make().scenario(case.split, 5)
    assert first.digest == second.digest
    assert first.to_json() == second.to_json()
    assert make().scenario(case.split, 6).digest != first.digest


@pytest.mark.parametrize("ref", [TaskRef("nowhere", 0), TaskRef("builtin", 10**9), TaskRef("builtin", -1)])
def test_an_address_of_nothing_is_refused(case, make, ref):
    if case.split != "builtin" and ref.split == "builtin":
        ref = TaskRef("elsewhere", ref.index)
    with pytest.raises(SplitError):
        make().reset(ref)


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", b"[1]", b'{"format": 1}'])
def test_bytes_that_are_no_snapshot_are_refused(make, data):
    with pytest.raises(SnapshotError):
        make().restore(data)


def test_a_damaged_snapshot_is_refused(case, make):
    env = make()
    env.reset(case.ref())
    form = json.loads(env.snapshot())
    form["world"] = {"of": "somebody else"}
    with pytest.raises(SnapshotError, match="damaged"):
        make().restore(json.dumps(form).encode())


BAD_FIELDS = [
    ("turn", -1),
    ("turn", "2"),
    ("turn", True),
    ("turn", 10**400),
    ("paid", None),
    ("paid", float("inf")),
    ("ending", "won"),
    ("ending", []),
    ("ending", "terminated"),
    ("observation", 3),
]


@pytest.mark.parametrize(("field", "value"), BAD_FIELDS)
def test_a_snapshot_with_a_senseless_field_is_refused(case, make, field, value):
    env = make()
    env.reset(case.ref())
    if not env.spec.capabilities.snapshot:
        pytest.skip("it has no snapshots")
    form = json.loads(env.snapshot()) | {field: value}
    with pytest.raises(SnapshotError):
        make().restore(json.dumps(form).encode())


def test_the_spec_goes_to_json_and_back(case):
    spec = registry.spec(case.env)
    assert EnvSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    assert not RESERVED_TOOLS.intersection(tool.name for tool in spec.tools)


def test_closing_twice_is_harmless(case, make):
    env = make()
    env.reset(case.ref())
    env.close()
    env.close()
    with pytest.raises(EpisodeNotStarted):
        env.step(case.walk[0])


def test_no_secret_is_told_before_a_rule_reveals_it(case, make):
    env = make()
    observation = env.reset(case.ref())
    said = json.dumps([observation.to_json(), env.task().instruction, env.public_options(), env.spec.to_json()])
    scenario = env.current
    assert scenario is not None
    assert scenario.digest not in said
    if case.env == "searchworld":
        for spellings in scenario.question.answers:
            assert spellings[0] not in said
    elif case.env == "webshop":
        for want in scenario.goal.wants:
            assert want.product not in said
            assert want.title not in said
    elif case.env != "household":
        for value in scenario.to_json()["hidden"].values():
            assert json.dumps(value) not in json.dumps(observation.to_json())
    else:
        for thing in scenario.things:
            assert f" {thing.name}" not in observation.text
