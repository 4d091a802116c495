"""Gymnasium's face: its own checker passes, both import orders work, spaces are small."""

from __future__ import annotations

import tracemalloc
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import agentenvs
from agentenvs.core import registry
from agentenvs.core.errors import EpisodeEnded, OptionError, SplitError
from agentenvs.core.gym import ActionSpace, GymEnv, TextSpace, make_gym
from tests.core.test_registry import run_python
from tests.envs.fixtures import register_fixtures

IDS = [*register_fixtures(), "agentenvs/Household-v0"]


@pytest.fixture(params=IDS)
def env(request: pytest.FixtureRequest) -> Any:
    made = GymEnv(registry.make(request.param))
    yield made
    made.close()


def test_the_environment_checker_of_gymnasium_passes(env):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # It compares with a space of its own and wants a registered id; neither is a fault of ours.
        warnings.filterwarnings("ignore", message=".*(not within|spec|render modes).*")
        check_env(env, skip_render_check=True)


@pytest.mark.parametrize("order", ["import gymnasium, agentenvs", "import agentenvs, gymnasium"])
def test_importing_agentenvs_is_enough_in_either_order(root, order):
    code = (
        f"{order}\nenv = gymnasium.make('agentenvs/Household-v0', limit=3)\n"
        "observation, info = env.reset(seed=1)\n"
        "steps = [env.step('look') for _ in range(3)]\n"
        "print(type(observation).__name__, info['budgets'], steps[-1][2:4])\n"
    )
    assert run_python(root, code) == "str {'steps': 3} (False, True)\n"


def test_importing_agentenvs_does_not_import_gymnasium_and_a_missing_one_stays_missing(root):
    code = "import sys, agentenvs, agentenvs.core.registry as r\nr.spec('household')\nprint('gymnasium' in sys.modules)"
    assert run_python(root, code) == "False\n"
    missing = (
        "import sys, agentenvs\nsys.path_hooks.clear(); sys.path_importer_cache.clear(); sys.path.clear()\n"
        "try:\n    import gymnasium\nexcept ModuleNotFoundError as error:\n    print(error.name)\n"
    )
    assert run_python(root, missing) == "gymnasium\n"


def test_registering_twice_is_harmless():
    from agentenvs.core import gymhook

    gymhook.install()
    gymhook.install()
    assert agentenvs.__version__
    assert "agentenvs/Household-v0" in gymnasium.registry


def test_the_made_environment_keeps_the_face_of_gymnasium():
    env = gymnasium.make("agentenvs/Household-v0", admissible=True, render_mode="ansi")
    observation, info = env.reset(options={"split": "builtin", "index": 2})
    assert env.observation_space.contains(observation)
    assert (info["invalid"], info["budgets"]) == (False, {"steps": 50})
    assert "look" in info["admissible"]
    text, reward, terminated, truncated, info = env.step("nonsense")
    assert (text, reward, terminated, truncated, info["invalid"]) == ("Nothing happens.", 0.0, False, False, True)
    assert env.render() == text
    assert env.unwrapped.last_trace.valid is False
    assert env.unwrapped.core.ref == agentenvs.TaskRef("builtin", 2)


def test_a_seed_chooses_the_scenario():
    env = make_gym("clerk")
    env.reset(seed=5)
    assert env.core.ref == agentenvs.TaskRef("train", 5)
    house = make_gym("household")
    house.reset(seed=25)
    assert house.core.ref == agentenvs.TaskRef("train", 25)
    env.reset(seed=7)
    env.reset()
    drawn = env.core.ref
    env.reset(seed=7)
    env.reset()
    assert env.core.ref == drawn
    assert drawn.index != 7


def test_what_cannot_be_reset_to_is_refused():
    env = make_gym("clerk")
    with pytest.raises(OptionError, match="reset has no option 'seed'"):
        env.reset(options={"seed": 1})
    with pytest.raises(SplitError, match="no split 'test'"):
        env.reset(options={"split": "test"})


def test_nothing_is_played_after_the_end():
    env = make_gym("clerk")
    env.reset(seed=1)
    assert env.step({"end": ""})[2]
    with pytest.raises(EpisodeEnded):
        env.step({"end": ""})


def test_spaces_are_small_and_fast():
    tracemalloc.start()
    spaces = [TextSpace(65_536), ActionSpace(registry.spec("ledger"))]
    samples = [space.sample() for space in spaces for _ in range(20)]
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()
    assert len(samples) == 40


@pytest.mark.parametrize("name", IDS)
def test_what_the_action_space_draws_is_in_it_and_follows_its_seed(name):
    spec = registry.spec(name)
    first, second = ActionSpace(spec, seed=3), ActionSpace(spec, seed=3)
    drawn = [first.sample() for _ in range(20)]
    assert drawn == [second.sample() for _ in range(20)]
    assert all(first.contains(action) for action in drawn)
    assert not first.contains(object())
    assert not first.contains([{"tool": "x"}] * 99)


def test_the_text_space_is_bounded_in_bytes():
    space = TextSpace(100)
    assert space.contains("é" * 50)
    assert not space.contains("é" * 100)
    assert not space.contains(b"bytes")
    assert space == TextSpace(100) != TextSpace(101)
    assert not space.is_np_flattenable
    assert repr(space) == "TextSpace(100)"


def test_reset_takes_numpys_integers_and_refuses_a_split_that_is_no_name():
    env = make_gym("agentenvs/Household-v0")
    first, _ = env.reset(options={"index": np.int64(3)})
    assert first == env.reset(options={"index": 3})[0]
    with pytest.raises(OptionError, match="is no name of a split"):
        env.reset(options={"split": []})
