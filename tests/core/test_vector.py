"""Gymnasium's vector face shows what Gymnasium's own vector environment shows."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import agentenvs
from agentenvs.core import registry
from agentenvs.core.errors import CapabilityError, ContractError, OptionError, SplitError
from agentenvs.core.gym import make_gym
from agentenvs.core.record import Recorded, parse_records
from agentenvs.core.replay import replay, rescore
from agentenvs.core.task import TaskRef
from agentenvs.core.vector import LocalFleet, VectorEnv, gathered
from tests.harness import playroom

MODES = list(AutoresetMode)
WORDS = ["look", "inventory", "nonsense", "go to fridge 1", {"tool": "look", "arguments": {}}]


@pytest.fixture(autouse=True)
def _rooms() -> None:
    for kind in (playroom.Stairs, playroom.Escalator):
        registry.register(kind.spec)


def same(ours: Any, theirs: Any) -> None:
    """Hold that two values of the vector API are the same, arrays and all; strings may come in a tuple there."""
    if isinstance(theirs, tuple):
        assert isinstance(ours, np.ndarray)
        assert ours.dtype == object
        assert list(ours) == list(theirs)
    elif isinstance(theirs, dict):
        assert set(ours) == set(theirs)
        for name in theirs:
            same(ours[name], theirs[name])
    else:
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        assert [each for each in ours] == [each for each in theirs]  # noqa: C416 - elements may be lists


def both(env: str, count: int, mode: AutoresetMode, **options: Any) -> tuple[VectorEnv, SyncVectorEnv]:
    ours = agentenvs.make_vec(env, count, autoreset_mode=mode, **options)
    theirs = SyncVectorEnv([lambda: make_gym(env, **options)] * count, autoreset_mode=mode)
    return ours, theirs


@pytest.fixture(params=MODES, ids=[mode.value for mode in MODES])
def mode(request: Any) -> AutoresetMode:
    return request.param  # type: ignore[no-any-return]


def test_spaces_and_metadata_are_gymnasiums(mode: AutoresetMode) -> None:
    ours, theirs = both("household", 3, mode)
    assert ours.metadata == theirs.metadata
    assert ours.metadata["autoreset_mode"] is mode
    assert ours.num_envs == theirs.num_envs
    for name in ("single_action_space", "action_space", "single_observation_space", "observation_space"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert ours.observation_space == batch_space(ours.single_observation_space, 3)
    observations, _ = ours.reset(seed=1)
    assert observations in ours.observation_space
    ours.action_space.seed(1)
    for _ in range(5):
        assert ours.step(ours.action_space.sample())[0] in ours.observation_space
    assert repr(ours) == "VectorEnv(num_envs=3)"


@pytest.mark.parametrize("options", [{}, {"admissible": True}, {"shaping": True}])
def test_household_is_what_gymnasium_makes_of_it(mode: AutoresetMode, options: dict[str, Any]) -> None:
    ours, theirs = both("household", 4, mode, limit=3, **options)
    for mine, yours in zip(ours.reset(seed=5), theirs.reset(seed=5), strict=True):
        same(mine, yours)
    for turn in range(9):
        if mode is AutoresetMode.DISABLED and turn and turn % 3 == 0:
            for mine, yours in zip(ours.reset(), theirs.reset(), strict=True):
                same(mine, yours)
        actions = [WORDS[(turn + slot) % len(WORDS)] for slot in range(4)]
        for mine, yours in zip(ours.step(actions), theirs.step(actions), strict=True):
            same(mine, yours)
    assert [generator.bit_generator.state for generator in ours.np_random] == [
        generator.bit_generator.state for generator in theirs.np_random
    ]
    assert ours.np_random_seed == theirs.np_random_seed


MOVES = st.lists(st.lists(st.sampled_from(["up", "down", "no"]), min_size=3, max_size=3), max_size=12)
SEEDS = st.one_of(st.integers(0, 9), st.lists(st.one_of(st.none(), st.integers(0, 9)), min_size=3, max_size=3))


@pytest.mark.parametrize("env", ["stairs", "escalator"])
@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP], ids=lambda mode: mode.value)
@given(moves=MOVES, seeds=SEEDS)
@settings(max_examples=40, deadline=None)
def test_any_play_is_what_gymnasium_makes_of_it(env: str, mode: AutoresetMode, moves: Any, seeds: Any) -> None:
    ours, theirs = both(env, 3, mode)
    mine, yours = ours.reset(seed=seeds), theirs.reset(seed=seeds)
    if not isinstance(seeds, list) or None not in seeds:  # without a seed the draws are nobody's to foretell
        for one, two in zip(mine, yours, strict=True):
            same(one, two)
        for actions in moves:
            for one, two in zip(ours.step(actions), theirs.step(actions), strict=True):
                same(one, two)


VALUES = st.recursive(
    st.one_of(st.booleans(), st.integers(-5, 5), st.floats(allow_nan=False), st.text(max_size=3), st.none())
    | st.lists(st.integers(0, 3), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(["x", "y"]), VALUES), st.lists(st.integers(0, 3), unique=True))
def test_infos_are_gathered_as_gymnasium_gathers_them(info: dict[str, Any], slots: list[int]) -> None:
    vector = gymnasium.vector.VectorEnv()
    vector.num_envs = 4
    wanted: dict[str, Any] = {}
    for slot in slots:
        wanted = vector._add_info(wanted, info, slot)
    same(gathered(dict.fromkeys(slots, info), 4), wanted)


def test_gymnasiums_wrappers_take_it() -> None:
    vector = RecordEpisodeStatistics(agentenvs.make_vec("stairs", 2))
    vector.reset(options={"split": "few", "index": 0})
    _, rewards, terminations, _, infos = vector.step(["up", "up"])
    assert (list(rewards), list(terminations)) == ([1.0, 1.0], [True, True])
    assert list(infos["episode"]["l"]) == [1, 1]
    vector.close()


def test_scenarios_can_be_named_slot_by_slot() -> None:
    vector = agentenvs.make_vec("household", 3)
    singles = [registry.make("household").reset(TaskRef("dev", index)).text for index in (4, 0, 2)]
    for indices in ([4, 0, 2], (4, 0, 2), np.array([4, 0, 2])):
        observations, _ = vector.reset(options={"split": "dev", "index": indices})
        assert list(observations) == singles
    observations, _ = vector.reset(options={"split": "dev", "index": 4})
    assert list(observations) == singles[:1] * 3


def test_some_slots_can_be_reset_alone() -> None:
    vector = agentenvs.make_vec("stairs", 3, autoreset_mode="Disabled")
    vector.reset(options={"split": "few", "index": [0, 1, 2]})
    _, _, terminations, _, _ = vector.step(["up"] * 3)
    assert list(terminations) == [True, False, False]
    with pytest.raises(ContractError, match="slot 0 has no running episode"):
        vector.step(["up"] * 3)
    mask = np.array([True, False, False])
    observations, infos = vector.reset(options={"split": "few", "index": 1, "reset_mask": mask})
    assert list(observations[1:]) == ["Step 1."] * 2
    assert list(infos["_invalid"]) == [True, False, False]
    _, _, terminations, _, _ = vector.step(["up"] * 3)
    assert list(terminations) == [False, True, False]


@pytest.mark.parametrize("mode", ["SameStep", "NextStep"])
def test_verdicts_and_records_of_what_ended_are_kept(mode: str) -> None:
    vector = agentenvs.make_vec("stairs", 2, autoreset_mode=mode, record=True)
    vector.reset(seed=1, options={"split": "few", "index": [0, 2]})  # what follows is drawn from it
    assert (vector.verdicts(), vector.records()) == ((None, None), (None, None))
    vector.step(["up", "up"])
    vector.step(["up", "up"])
    verdicts, (data, none) = vector.verdicts(), vector.records()
    assert (verdicts[0].success, verdicts[1], none) == (True, None, None)
    recorded = Recorded(registry.make("stairs"))
    recorded.reset(TaskRef("few", 0))
    recorded.step("up")
    assert data == recorded.to_bytes()
    (record,) = parse_records(data)
    assert replay(record).equal
    assert rescore(record).equal
    with pytest.raises(CapabilityError, match="no records are kept"):
        agentenvs.make_vec("stairs", 2).records()


class Brittle(playroom.Stairs):
    """Fails when it is told to."""

    def _act(self, action: Any) -> Any:
        if action == "fail":
            raise RuntimeError("it broke")
        return super()._act(action)


def test_one_that_fails_takes_none_of_the_others() -> None:
    vector = VectorEnv(LocalFleet([Brittle(), Brittle()]), "SameStep")
    vector.reset(options={"split": "few", "index": 2})
    observations, rewards, terminations, truncations, infos = vector.step(["fail", "up"])
    assert (list(rewards), list(terminations), list(truncations)) == ([0.0] * 2, [False] * 2, [True, False])
    assert infos["final_info"]["lost"][0] == "RuntimeError"
    assert observations[1] == "Step 1."
    assert list(vector.step(["up", "up"])[0])[1] == "Step 2."


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda vector: vector.step(["up"]), ContractError, "1 actions for 2 slots"),
        (lambda vector: vector.reset(seed=[1]), OptionError, "1 seeds for 2 slots"),
        (lambda vector: vector.reset(options={"index": [1]}), OptionError, "1 indices for 2 slots"),
        (lambda vector: vector.reset(options={"more": 1}), OptionError, "reset has no option 'more'"),
        (lambda vector: vector.reset(options={"reset_mask": [True, False]}), OptionError, "reset_mask makes no sense"),
        (lambda vector: vector.reset(options={"reset_mask": np.zeros(2, bool)}), OptionError, "reset_mask makes"),
        (lambda vector: vector.reset(options={"split": "few", "index": 99}), SplitError, "no index 99"),
    ],
)
def test_what_makes_no_sense_is_told(call: Any, error: Any, message: str) -> None:
    vector = agentenvs.make_vec("stairs", 2)
    vector.reset(options={"split": "few", "index": 2})
    with pytest.raises(error, match=message):
        call(vector)
    assert list(vector.step(["up", "up"])[0]) == ["Step 1."] * 2


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_nothing_is_played_before_the_first_reset(mode: str) -> None:
    with pytest.raises(ContractError, match="slot 0 has no running episode"):
        agentenvs.make_vec("stairs", 2, autoreset_mode=mode).step(["up", "up"])


@pytest.mark.parametrize("count", [0, -1, 1.5, "2", None])
def test_a_number_of_slots_that_is_none(count: Any) -> None:
    with pytest.raises(OptionError, match="num_envs"):
        agentenvs.make_vec("stairs", count)


def test_what_is_rendered() -> None:
    vector = agentenvs.make_vec("stairs", 2, render_mode="ansi")
    assert vector.render() == (None, None)
    observations, _ = vector.reset(seed=1)
    assert vector.render() == tuple(observations)
    assert agentenvs.make_vec("stairs", 2).render() is None
    vector.close()
    vector.close()


def test_one_text_is_no_action_for_each_slot() -> None:
    envs = agentenvs.make_vec("household", 4)
    envs.reset(seed=1)
    for action in ("look", b"look", {"tool": "look", "arguments": {}, "a": 1, "b": 2}):
        with pytest.raises(ContractError, match="one action for all slots"):
            envs.step(action)
    envs.close()


def test_nothing_goes_on_after_the_end() -> None:
    envs = agentenvs.make_vec("household", 2)
    envs.reset(seed=1)
    envs.close()
    for call in (envs.reset, lambda: envs.step(["look"] * 2)):
        with pytest.raises(ContractError, match="closed"):
            call()
    envs.close()
