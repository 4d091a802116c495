"""One turn of the contract: what is refused, counted, cut off, paid, shaped, journalled, copied and shown."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agentenvs.core.environment import Effect, Environment
from agentenvs.core.errors import (
    AgentEnvsError,
    CapabilityError,
    ContractError,
    EpisodeEnded,
    EpisodeNotStarted,
    OptionError,
    SnapshotError,
    SplitError,
)
from agentenvs.core.observation import TextBlock
from agentenvs.core.task import Task, TaskRef
from agentenvs.core.trace import Fact
from tests.core.toy import Bound, Paying, Toy, Waiting

FAR = TaskRef("train", 3)
"""Four steps to the goal."""


def _begun(cls: type[Environment] = Toy, ref: TaskRef = FAR, **options: Any) -> Environment:
    env = cls(**options)
    env.reset(ref)
    return env


def _ended() -> Environment:
    env = _begun()
    env.step({"end": True})
    return env


def test_a_first_observation() -> None:
    env = Toy(admissible=True)
    seen = env.reset(TaskRef("test", 2))
    assert seen.text == "The goal is 3 steps away."
    assert seen.budgets == {"throws": 2, "steps": 6}
    assert seen.admissible == ("walk", "throw") == env.admissible()
    assert env.observation is seen
    assert env.task() == Task("toytests/Toy-v0", TaskRef("test", 2), env.public_options(), "Walk to the goal.")


def test_a_reset_without_an_address_is_the_first_of_the_default_split() -> None:
    env = Toy()
    env.reset()
    assert env.ref == TaskRef("train", 0)


def test_options_of_the_machine_are_not_public() -> None:
    env = Toy(folder="/tmp/games")
    assert env.options["folder"] == "/tmp/games"
    assert env.public_options() == {"shaping": False, "admissible": False, "limit": 6}


def test_an_option_that_is_none_is_refused() -> None:
    with pytest.raises(OptionError, match="toytests/Toy-v0 has no option 'speed'"):
        Toy(speed=1)


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        (TaskRef("dev", 0), "AE102 toytests/Toy-v0 has no split 'dev'\n  fix: its splits: train, test"),
        (
            TaskRef("test", 3),
            "AE102 split 'test' has no index 3\n  why: it holds 3 scenarios, counted from 0",
        ),
        (TaskRef("test", -1), "AE102 split 'test' has no index -1\n  why: it holds 3 scenarios, counted from 0"),
        (
            TaskRef("train", "1"),  # type: ignore[arg-type]
            "AE102 '1' is no index\n  fix: indices and seeds are whole numbers",
        ),
        (TaskRef("train", True), "AE102 True is no index\n  fix: indices and seeds are whole numbers"),
    ],
)
def test_an_address_of_nothing(ref: TaskRef, message: str) -> None:
    with pytest.raises(SplitError) as caught:
        Toy().reset(ref)
    assert str(caught.value) == message


_USES: dict[str, Callable[[Environment], Any]] = {
    "step": lambda env: env.step("walk"),
    "astep": lambda env: asyncio.run(env.astep("walk")),
    "finish": lambda env: env.finish("abandoned"),
    "fork": lambda env: env.fork(),
    "snapshot": lambda env: env.snapshot(),
    "task": lambda env: env.task(),
}


@pytest.mark.parametrize("make", [Toy, Waiting], ids=["sync", "async"])
@pytest.mark.parametrize("use", _USES)
def test_before_reset_and_after_close(make: type[Environment], use: str) -> None:
    closed = _begun(make)
    closed.close()
    closed.close()
    for env in (make(), closed):
        with pytest.raises(EpisodeNotStarted, match=r"AE201 toytests/.*-v0 has no episode\n  fix: call reset"):
            _USES[use](env)


def test_there_is_no_observation_before_reset() -> None:
    with pytest.raises(EpisodeNotStarted):
        _ = Toy().observation


@pytest.mark.parametrize("make", [Toy, Waiting], ids=["sync", "async"])
@pytest.mark.parametrize("use", ["step", "astep"])
def test_after_the_end(make: type[Environment], use: str) -> None:
    env = _begun(make)
    env.finish("abandoned")
    with pytest.raises(EpisodeEnded, match=r"AE202 the episode of .* has ended \(abandoned\)\n  fix: call reset"):
        _USES[use](env)
    env.reset(FAR)
    assert not env.step("walk").terminated


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda env: env.fork(), "AE203 toytests/Bound-v0 cannot be forked\n  why: its spec says forkable: false"),
        (lambda env: env.snapshot(), "AE203 toytests/Bound-v0 has no snapshots\n  why: its spec says snapshot: false"),
        (
            lambda env: env.restore(b""),
            "AE203 toytests/Bound-v0 has no snapshots\n  why: its spec says snapshot: false",
        ),
    ],
    ids=["fork", "snapshot", "restore"],
)
def test_what_is_not_promised(use: Callable[[Environment], Any], message: str) -> None:
    with pytest.raises(CapabilityError) as caught:
        use(_begun(Bound))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("action", "text", "code"),
    [
        ("dance", "What?", "unknown"),
        ({"tool": "walk", "arguments": {"by": "x"}}, "How far?", "how_far"),
        (None, "Invalid action: a NoneType is no action.", "malformed"),
        (
            [{"tool": "walk"}] * 3,
            "Invalid action: at most 2 tool calls a turn, not 3.",
            "too_many_calls",
        ),
        ({"message": "Hi."}, "Invalid action: this environment takes text, tool, end, not message.", "wrong_kind"),
    ],
)
@pytest.mark.parametrize("make", [Toy, Waiting], ids=["sync", "async"])
def test_an_invalid_action_is_a_turn(make: type[Environment], action: Any, text: str, code: str) -> None:
    env = _begun(make)
    before = env.state_key
    observation, reward, terminated, truncated, info = env.step(action)
    assert (observation.text, reward, terminated, truncated, info) == (text, 0.0, False, False, {"invalid": True})
    assert (env.turn, env.last_valid, env.state_key) == (1, (False, code), before)
    assert observation.budgets["steps"] == 5


@pytest.mark.parametrize("text", ["walk", ""])
def test_text_is_refused_where_it_is_not_taken(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Toy, "spec", replace(Toy.spec, accepts=("tool",)))
    env = _begun()
    assert env.step(text).observation.text == "Invalid action: this environment takes tool, not text."
    assert env.last_valid == (False, "wrong_kind")


@pytest.mark.parametrize("make", [Toy, Waiting], ids=["sync", "async"])
@pytest.mark.parametrize(
    ("calls", "texts", "invalid", "ended"),
    [
        ([{"by": 1}, {"by": 2}], ["at 1", "at 3"], False, False),
        ([{"by": "x"}, {"by": 2}], ["How far?", "at 2"], False, False),
        ([{"by": "x"}, {"by": None}], ["How far?", "How far?"], True, False),
        ([{"by": 4}, {"by": 9}], ["at 4"], False, True),
        ([{"by": 1}], ["at 1"], False, False),
    ],
)
def test_calls_of_one_turn(
    make: type[Environment], calls: list[Any], texts: list[str], invalid: bool, ended: bool
) -> None:
    env = _begun(make)
    result = env.step({"calls": [{"tool": "walk", "arguments": call} for call in calls]})
    assert result.observation.blocks == tuple(TextBlock(text) for text in texts)
    assert (result.info["invalid"], result.terminated, env.turn) == (invalid, ended, 1)


def test_the_data_of_every_call_is_told() -> None:
    calls = [{"tool": "walk", "arguments": {"by": by}} for by in (1, "x")]
    data = {"calls": [{"valid": True, "by": 1}, {"valid": False}]}
    assert _begun().step(calls).info == {"invalid": False, "data": data}
    assert _begun().step("walk").info == {"invalid": False, "data": {"by": 1}}


def test_an_observation_is_bounded() -> None:
    text = _begun().step("story").observation.text
    assert text.startswith("long long")
    assert text.endswith("\n[… cut: 300 characters more]")


def test_the_budget_of_steps_truncates() -> None:
    env = _begun(limit=2)
    assert not env.step("dance").truncated
    result = env.step("walk")
    assert (result.terminated, result.truncated, result.reward, env.ending) == (False, True, 0.0, "truncated")
    assert result.observation.budgets["steps"] == 0


def test_the_goal_at_the_last_step_terminates() -> None:
    env = _begun(ref=TaskRef("train", 0), limit=1)
    result = env.step("walk")
    assert (result.terminated, result.truncated, result.reward, env.ending) == (True, False, 1.0, "terminated")


@pytest.mark.parametrize(
    ("limit", "declared"), [(6, {"steps": 6, "throws": 2}), (9, {"steps": 9, "throws": 2}), (0, {"throws": 2})]
)
def test_declared_budgets(limit: int, declared: dict[str, int]) -> None:
    env = _begun(limit=limit)
    assert env.declared_budgets() == declared
    assert env.observation.budgets == declared


def test_without_a_limit_nothing_truncates() -> None:
    env = _begun(limit=0)
    assert not any(env.step("dance").truncated for _ in range(20))


def test_a_failing_world_is_aborted() -> None:
    env = _begun()
    result = env.step("crash")
    assert (result.terminated, result.truncated, env.ending) == (False, True, "aborted")


@pytest.mark.parametrize("ending", ["terminated", "truncated", "abandoned", "aborted"])
def test_finish(ending: Any) -> None:
    env = _begun()
    env.step("walk")
    verdict = env.finish(ending)
    assert (env.ending, verdict.success, verdict.facts) == (ending, False, {"at": 1})
    assert env.finish("aborted") is verdict
    assert env.ending == ending


def test_no_ending() -> None:
    with pytest.raises(ContractError) as caught:
        _begun().finish("bored")  # type: ignore[arg-type]
    assert str(caught.value) == ("AE301 'bored' is no ending\n  fix: one of: terminated, truncated, abandoned, aborted")


def test_a_final_reward_is_paid_once() -> None:
    env = _begun()
    assert [env.step("walk").reward for _ in range(4)] == [0.0, 0.0, 0.0, 1.0]
    assert env.verdict is not None
    assert (env.verdict.reward, env.verdict.success, env.verdict.reasons) == (1.0, True, ("arrived",))


@pytest.mark.parametrize(("walks", "reward"), [(4, 1.0), (2, 0.5), (0, 0.0)])
def test_rewards_of_steps_are_summed(walks: int, reward: float) -> None:
    env = _begun(Paying)
    paid = [env.step("walk").reward for _ in range(walks)]
    assert env.finish("abandoned").reward == sum(paid) == reward


def test_shaping_pays_the_discounted_difference() -> None:
    env = _begun(shaping=True)
    assert [env.step("walk").reward for _ in range(2)] == [0.5 * 1 - 0, 0.5 * 2 - 1]
    assert env.step("dance").reward == 0.5 * 2 - 2
    assert env.step({"tool": "walk", "arguments": {"by": 2}}).reward == 1.0 - 2  # the end has no potential
    assert env.verdict is not None
    assert env.verdict.reward == 1.0


@pytest.mark.parametrize(
    ("actions", "left"), [(["walk"] * 4, 0.0), (["walk", "dance", "walk"], 2.0), (["throw", "walk"], 2.0)]
)
def test_shaping_telescopes(actions: list[str], left: float) -> None:
    plain, shaped = _begun(limit=0), _begun(limit=0, shaping=True)
    extra = [shaped.step(action).reward - plain.step(action).reward for action in actions]
    assert sum(0.5**turn * more for turn, more in enumerate(extra)) == 0.5 ** len(actions) * left


def test_a_truncated_episode_keeps_its_potential() -> None:
    env = _begun(limit=1, shaping=True)
    assert env.step("walk").reward == 0.5


@pytest.mark.parametrize("make", [Toy, Waiting], ids=["sync", "async"])
def test_effects_are_journalled_and_fed_back(make: type[Environment]) -> None:
    env = _begun(make)
    env.step("throw")
    assert env.effects == [Effect("die", 1)]
    env.step("walk")
    assert env.effects == []
    result = env.step("throw", effects=[Effect("die", 2)])
    assert (result.observation.text, env.effects) == ("at 4", [Effect("die", 2)])


@pytest.mark.parametrize(
    ("effects", "has"), [([], "none"), ([Effect("coin", 1)], "coin"), ([Effect("coin", 1), Effect("die", 1)], "coin")]
)
@pytest.mark.parametrize("make", [Toy, Waiting], ids=["sync", "async"])
def test_another_effect_than_recorded(make: type[Environment], effects: list[Effect], has: str) -> None:
    with pytest.raises(ContractError) as caught:
        _begun(make).step("throw", effects=effects)
    assert str(caught.value) == f"AE301 effect 'die' was not recorded here\n  why: the record has: {has}"


@pytest.mark.parametrize("make", [Toy, Waiting], ids=["sync", "async"])
def test_step_and_astep_are_one(make: type[Environment]) -> None:
    actions = ["walk", "dance", None, [{"tool": "walk"}, {"tool": "walk"}], "throw"]
    one, other = _begun(make), _begun(make)

    async def play() -> list[Any]:
        return [await other.astep(action) for action in actions]

    assert [one.step(action) for action in actions] == asyncio.run(play())
    assert one.verdict == other.verdict
    assert one.verdict is not None


def test_a_fork_goes_its_own_way() -> None:
    env = _begun()
    env.step("throw")
    twin = env.fork()
    assert twin.effects == env.effects
    twin.step("walk")
    twin.finish("abandoned")
    assert (env.turn, env.ending, env.state_key, env.effects) == (1, None, f"{1:032x}", [Effect("die", 1)])
    assert (twin.turn, twin.ending, twin.state_key) == (2, "abandoned", f"{2:032x}")


@pytest.mark.parametrize("actions", [[], ["walk", "dance"], ["throw"], ["walk"] * 4], ids=len)
@pytest.mark.parametrize("shaping", [False, True])
def test_a_snapshot_restores_exactly(actions: list[str], shaping: bool) -> None:
    env, other = _begun(shaping=shaping), Toy(shaping=shaping)
    for action in actions:
        env.step(action)
    assert other.restore(env.snapshot()) == env.observation == other.observation
    assert other.snapshot() == env.snapshot()
    assert (other.turn, other.ending, other.verdict, other.state_key) == (
        env.turn,
        env.ending,
        env.verdict,
        env.state_key,
    )
    if env.ending is None:
        assert other.step("walk") == env.step("walk")


def _edited(**change: Any) -> bytes:
    env = _begun()
    env.step("walk")
    return json.dumps({**json.loads(env.snapshot()), **change}).encode()


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "these bytes are no snapshot"),
        (b"\xff", "these bytes are no snapshot"),
        (b"[]", "these bytes are no snapshot"),
        (b"{}", "these bytes are no snapshot"),
        (b"[" * 100_000, "these bytes are no snapshot"),
        (_edited(format=2), "the snapshot is of another environment"),
        (_edited(env="a/B-v0"), "the snapshot is of another environment"),
        (_edited(release="2"), "the snapshot is of another environment"),
        (_edited(options={}), "the snapshot is of another environment"),
        (_edited(scenario="00"), "the snapshot is of another scenario"),
        (_edited(world={}), "the snapshot is damaged"),
        (_edited(world={"at": "far", "throws": 1}), "the snapshot is damaged"),
        (_edited(turn=-1), "the snapshot is damaged"),
        (_edited(ending="bored"), "the snapshot is damaged"),
        (_edited(verdict=[]), "the snapshot is damaged"),
        (_edited(observation={}), "the snapshot is damaged"),
    ],
    ids=range(16),
)
def test_no_snapshot(data: bytes, what: str) -> None:
    env = Toy()
    with pytest.raises(SnapshotError, match=f"AE204 {what}\n  why: "):
        env.restore(data)
    with pytest.raises(EpisodeNotStarted):
        env.step("walk")


def test_a_trace() -> None:
    env = _begun()
    assert env.last_trace is None
    env.step({"tool": "walk", "arguments": {"by": 2}})
    trace = env.last_trace
    assert trace is not None
    assert trace.to_json() == {
        "turn": 1,
        "state_before": f"{0:032x}",
        "state_after": f"{2:032x}",
        "action": {"tool": "walk", "arguments": {"by": 2}},
        "valid": True,
        "error": None,
        "actor": "player",
        "observed": [],
        "used": [],
        "written": [["walker", "at", "2", 0]],
        "milestones": ["moved"],
        "potential": 2.0,
    }
    assert trace.written == (Fact("walker", "at", "2", 0),)


def test_the_trace_of_an_invalid_turn_has_no_facts() -> None:
    env = _begun()
    env.step(7)
    trace = env.last_trace
    assert trace is not None
    assert (trace.valid, trace.error, trace.written, trace.milestones) == (False, "malformed", (), ())
    assert trace.action == {"malformed": 7, "why": "a int is no action"}


@pytest.mark.parametrize("use", [lambda env: env.step("walk"), lambda env: env.fork().step("walk")])
def test_an_ended_episode_stays_ended_in_its_fork(use: Callable[[Environment], Any]) -> None:
    with pytest.raises(AgentEnvsError) as caught:
        use(_ended())
    assert caught.value.code == "AE202"


@pytest.mark.parametrize("hook", ["_save", "rejudge"])
def test_a_promise_without_its_hook_is_the_authors_mistake(monkeypatch, hook):
    env = Toy()
    env.reset()
    monkeypatch.delattr(Toy, hook)
    with pytest.raises(ContractError, match="write "):
        env.snapshot() if hook == "_save" else env.rejudge(env.current, {}, "terminated")
