"""A loop written for ALFWorld's text environment runs on the household."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import agentenvs.adapters.alfworld as environment
from agentenvs.adapters.alfworld import AlfredTWEnv, AlfworldEnv, Game, games_of, get_environment
from agentenvs.core.errors import ConfigError, DataError, EpisodeNotStarted, OptionError

PREFIXES = (
    "pick_and_place",
    "pick_clean_then_place",
    "pick_heat_then_place",
    "pick_cool_then_place",
    "look_at_obj",
    "pick_two_obj",
)
Config = dict[str, Any]


def config(data: Path | str | None = None, method: str = "dqn", limit: int = 50, **env: Any) -> Config:
    """Return the parts of ``base_config.yaml`` that matter."""
    folder = str(data) if data is not None else "$ALFWORLD_DATA/json_2.1.1"
    return {
        "dataset": {
            "data_path": f"{folder}/valid_train",
            "eval_id_data_path": f"{folder}/valid_seen",
            "eval_ood_data_path": f"{folder}/valid_unseen",
            "num_train_games": -1,
            "num_eval_games": -1,
        },
        "logic": {"domain": "alfred.pddl", "grammar": "alfred.twl2"},
        "env": {
            "type": "AlfredTWEnv",
            "domain_randomization": False,
            "task_types": [1, 2, 3, 4, 5, 6],
            "expert_type": "handcoded",
            "goal_desc_human_anns_prob": 0.0,
            **env,
        },
        "general": {"training_method": method},
        "rl": {"training": {"max_nb_steps_per_episode": limit}},
        "dagger": {"training": {"max_nb_steps_per_episode": limit}},
    }


def builtin_config(method: str = "dqn", limit: int = 50, **env: Any) -> Config:
    made = config(method=method, limit=limit, **env)
    paths = ("data_path", "eval_id_data_path", "eval_ood_data_path")
    return {**made, "dataset": {**dict.fromkeys(paths, "builtin"), "num_train_games": -1, "num_eval_games": -1}}


# ---- loops as others write them -------------------------------------------------------------------------------------


def react_loop(made: Config, split: str, llm: Callable[[str, list[str]], str]) -> tuple[list[str], list[int]]:
    """Play every game of a split the way ReAct's notebook does; return the names and the rewards."""
    env = getattr(environment, made["env"]["type"])(made, train_eval=split)
    games = env.num_games
    env = env.init_env(batch_size=1)
    names, rewards = [], []
    for _ in range(games):
        ob, info = env.reset()
        ob = "\n".join(ob[0].split("\n\n")[1:])
        name = "/".join(info["extra.gamefile"][0].split("/")[-3:-1])
        assert [name.startswith(prefix) for prefix in PREFIXES].count(True) == 1
        names.append(name)
        transcript, reward = f"{ob}\n>", 0
        for _ in range(1, 50):
            action = llm(transcript, info["admissible_commands"][0]).strip()
            observation, _, done, info = env.step([action])
            seen = "OK." if action.startswith("think:") else observation[0]
            transcript += f" {action}\n{seen}\n>"
            if done[0]:
                reward = int(info["won"][0])
                break
        rewards.append(reward)
    env.close()
    return names, rewards


def test_a_react_loop_runs_over_the_built_in_rooms() -> None:
    asked = []

    def llm(transcript: str, admissible: list[str]) -> str:
        asked.append(transcript)
        return "think: hm" if len(asked) % 2 else admissible[len(asked) % len(admissible)]

    names, rewards = react_loop(builtin_config(), "eval_out_of_distribution", llm)
    assert len(names) == len(set(names)) == 12
    assert names == sorted(names)
    assert set(rewards) <= {0, 1}
    assert all(transcript.startswith("You are in the middle of a room.") for transcript in asked)
    assert "Your task is to: " in asked[0]


def test_a_react_loop_runs_over_real_games(shared_data: Path) -> None:
    folder = shared_data / "household" / "json_2.1.1"
    names, rewards = react_loop(config(folder), "eval_in_distribution", lambda _, admissible: admissible[0])
    assert names == sorted(path.parent.relative_to(folder / "valid_seen").as_posix() for path in _games(folder))
    assert rewards == [0] * len(names)


def _games(folder: Path) -> list[Path]:
    return list((folder / "valid_seen").rglob("game.tw-pddl"))


@pytest.mark.parametrize("expert", ["handcoded", "planner"])
def test_a_dagger_loop_follows_the_expert_to_the_end(expert: str) -> None:
    env = get_environment("AlfredTWEnv")(builtin_config("dagger", expert_type=expert), train_eval="train")
    games, batch = env.num_games, 5
    env = env.init_env(batch_size=batch)
    won = 0
    for _ in range(-(-games // batch)):
        _, infos = env.reset()
        dones = [False] * batch
        for _ in range(50):
            if all(dones):
                break
            assert len(infos["extra.expert_plan"]) == batch
            _, scores, dones, infos = env.step([plan[0] for plan in infos["extra.expert_plan"]])
            assert scores == [float(item) for item in infos["won"]]
        won += sum(infos["won"])
    assert won == 15


def test_the_expert_solves_real_games(shared_data: Path) -> None:
    folder = shared_data / "household" / "json_2.1.1"
    env = AlfredTWEnv(config(folder, "dagger"), train_eval="train").init_env(batch_size=26)
    _, infos = env.reset()
    for _ in range(12):
        _, _, dones, infos = env.step([plan[0] for plan in infos["extra.expert_plan"]])
    assert all(dones)
    assert all(infos["won"])


# ---- shapes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 3])
def test_everything_is_a_list_of_the_batch(batch: int) -> None:
    env = AlfworldEnv(batch_size=batch)
    assert (env.batch_size, env.num_games) == (batch, 12)
    obs, infos = env.reset()
    assert sorted(infos) == ["admissible_commands", "extra.gamefile", "won"]
    assert infos["won"] == [False] * batch
    obs, scores, dones, infos = env.step(["look"] * batch)
    assert [len(part) for part in (obs, scores, dones, *infos.values())] == [batch] * 6
    assert obs[0] == "You are in the middle of a room. Looking quickly around you, you see nothing."
    assert (scores, dones) == ([0.0] * batch, [False] * batch)
    assert all(isinstance(command, str) for command in infos["admissible_commands"][0])
    assert "look" in infos["admissible_commands"][0]


def test_the_limit_is_done_and_not_won() -> None:
    env = AlfworldEnv(limit=2)
    env.reset()
    assert env.step(["look"])[2] == [False]
    obs, scores, dones, infos = env.step(["look"])
    assert (scores, dones, infos["won"]) == ([0.0], [True], [False])
    assert env.step(["go to bed 1"]) == (obs, scores, dones, infos)
    env.reset()
    assert env.step(["look"])[2] == [False]


def test_a_won_game_stays_won_while_others_go_on() -> None:
    bedroom = next(game for game in games_of() if game.path.startswith("builtin/look_at_obj_in_light-Cd-"))
    env = AlfworldEnv([bedroom], batch_size=2)
    env.reset()
    commands = ("go to drawer 2", "open drawer 2", "take cd 1 from drawer 2", "go to desk 1", "use desklamp 1", "look")
    for command in commands:
        obs, scores, dones, infos = env.step([command, "look"])
    assert (scores, dones, infos["won"]) == ([1.0, 0.0], [True, False], [True, False])
    assert obs[0] == "You turn on the desklamp 1."


def test_made_up_paths_have_the_shape_of_real_ones() -> None:
    for game in games_of():
        folder, task, trial, file = game.path.split("/")
        kind, thing, none, target, scene = task.split("-")
        assert (folder, none, file) == ("builtin", "None", "game.tw-pddl")
        assert kind in environment.TASK_TYPES.values()
        assert scene.isdigit()
        assert thing[0].isupper()
        assert target[0].isupper()
        assert trial.startswith("trial_")


def test_real_paths_are_relative_to_the_splits(shared_data: Path) -> None:
    folder = shared_data / "household"
    _, infos = AlfworldEnv(games_of(folder)).reset()
    assert (folder / "json_2.1.1" / infos["extra.gamefile"][0]).is_file()


# ---- the order ------------------------------------------------------------------------------------------------------


def names(env: AlfworldEnv, count: int) -> list[str]:
    return [env.reset()[1]["extra.gamefile"][0] for _ in range(count)]


def test_games_come_sorted_each_once_and_again() -> None:
    env = AlfworldEnv()
    found = names(env, 24)
    assert found[:12] == sorted(found[:12]) == found[12:]
    assert len(set(found)) == 12


def test_a_seed_fixes_the_order() -> None:
    env = AlfworldEnv()
    assert env.seed(42) == [42]
    first = names(env, 24)
    assert sorted(first[:12]) == sorted(first[12:]) == sorted(set(first))
    assert first[:12] != first[12:]
    env.seed(np.int64(42))
    assert names(env, 24) == first
    env.seed(43)
    assert names(env, 12) != first[:12]
    env.seed(None)
    assert names(env, 12) == sorted(set(first))


def test_skip_leaves_games_out() -> None:
    env = AlfworldEnv()
    whole = names(env, 12)
    env.seed(None)
    env.skip()
    env.skip(3)
    assert names(env, 2) == whole[4:6]


def test_a_batch_takes_the_next_games() -> None:
    env = AlfworldEnv(batch_size=5)
    found = [name for _ in range(3) for name in env.reset()[1]["extra.gamefile"]]
    assert found == (sorted(set(found)) * 2)[:15]


# ---- the configuration ----------------------------------------------------------------------------------------------


def test_the_configuration_chooses_types_number_and_limit() -> None:
    made = builtin_config(limit=1, task_types=[2, 99])
    assert AlfredTWEnv(made, train_eval="train").num_games == 2
    made["dataset"]["num_eval_games"] = 1
    env = AlfredTWEnv(made, train_eval="eval_in_distribution")
    assert len(env.game_files) == env.num_games == 1
    batch = env.init_env(batch_size=1)
    batch.reset()
    assert batch.step(["look"])[2] == [True]


def test_no_dataset_is_the_built_in_rooms() -> None:
    assert AlfredTWEnv({}, train_eval="train").init_env(batch_size=1).num_games == 12


def test_variables_in_paths_are_expanded(monkeypatch: pytest.MonkeyPatch, shared_data: Path) -> None:
    monkeypatch.setenv("ALFWORLD_DATA", str(shared_data / "household"))
    assert AlfredTWEnv(config(), train_eval="eval_in_distribution").num_games == 8


def test_game_files_may_be_replaced(shared_data: Path) -> None:
    folder = shared_data / "household" / "json_2.1.1"
    file = sorted(_games(folder))[3]
    env = AlfredTWEnv(builtin_config(), train_eval="eval_out_of_distribution")
    env.game_files = [str(file)]
    _, infos = env.init_env(batch_size=1).reset()
    assert infos["extra.gamefile"] == [file.relative_to(folder).as_posix()]


@pytest.mark.parametrize(
    ("made", "split", "error", "says"),
    [
        (builtin_config(), "test", ConfigError, "there is no split 'test'"),
        (builtin_config(task_types=[]), "train", ConfigError, "names no task type"),
        (config(), "train", DataError, "set ALFWORLD_DATA"),
        (config("/nowhere"), "train", DataError, "no such folder"),
        ({**config(), "dataset": {"data_path": None}}, "train", DataError, "names no folder"),
        (builtin_config(method="ppo"), "train", ConfigError, "no training method 'ppo'"),
        (builtin_config(domain_randomization=True), "train", ConfigError, "domain randomization"),
    ],
)
def test_a_senseless_configuration_is_named(made: Config, split: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        AlfredTWEnv(made, train_eval=split).init_env(batch_size=1)


def test_randomization_is_for_training_alone() -> None:
    made = builtin_config(domain_randomization=True)
    assert AlfredTWEnv(made, train_eval="eval_in_distribution").init_env(batch_size=1).num_games == 12


def test_other_environments_have_no_face() -> None:
    with pytest.raises(ConfigError, match="there is no environment 'AlfredThorEnv'"):
        get_environment("AlfredThorEnv")


def test_a_missing_game_file_is_named() -> None:
    env = AlfredTWEnv({})
    env.game_files = ["valid_seen/none/trial/game.tw-pddl"]
    with pytest.raises(DataError, match="there is no game file valid_seen/none"):
        env.init_env(batch_size=1)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ConfigError, match="a batch of 0"):
        AlfworldEnv(batch_size=0)
    with pytest.raises(ConfigError, match="no games to play"):
        AlfworldEnv([])
    with pytest.raises(OptionError, match="'profile'"):
        AlfworldEnv(profile="fast")
    env = AlfworldEnv(batch_size=2)
    with pytest.raises(EpisodeNotStarted):
        env.step(["look", "look"])
    env.reset()
    for commands in ("look", ["look"], None):
        with pytest.raises(ConfigError, match="commands come as a list"):
            env.step(commands)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "command", [None, 3, {"tool": "look"}, ["look"], "", " ", "LOOK", "x" * 9999, "\ud800", b"look"]
)
def test_junk_is_a_step_in_which_nothing_happens(command: Any) -> None:
    env = AlfworldEnv(limit=1)
    env.reset()
    obs, _, dones, infos = env.step([command])
    assert (obs, dones, infos["won"]) == (["Nothing happens."], [True], [False])


def test_a_numpy_string_is_a_command() -> None:
    env = AlfworldEnv()
    _, infos = env.reset()
    obs, _, _, _ = env.step([np.random.choice(infos["admissible_commands"][0])])
    assert obs != ["Nothing happens."]


def test_closing_twice_is_no_harm() -> None:
    env = AlfworldEnv(batch_size=2)
    env.reset()
    env.close()
    env.close()


def test_profile_and_text_are_chosen_by_the_caller() -> None:
    env = AlfredTWEnv({}, profile="original", text="0.3").init_env(batch_size=1)
    env.reset()
    assert env.step(["help"])[0] == ["Nothing happens."]
    assert isinstance(games_of()[0], Game)
