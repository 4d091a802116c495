"""The household with the face of ALFWorld's text environment, so that a loop written for that one runs unchanged.

    import agentenvs.adapters.alfworld as environment

    env = environment.get_environment("AlfredTWEnv")(config, train_eval="eval_out_of_distribution")
    env = env.init_env(batch_size=1)
    obs, info = env.reset()
    obs, scores, dones, infos = env.step(["look"])

Everything comes in lists of ``batch_size``. Each ``reset`` goes on to the next games. As in the original, ``dones``
says that a game is over, won or not: success stands in ``infos["won"]``. A game that is over repeats its last answer
until the next ``reset``.

What differs: games are played in sorted order until ``seed`` is called (the original shuffles with a fixed seed), and a
shuffle is drawn from the suite's own streams; rules are those of the ``compat`` profile unless another is asked for;
``extra.gamefile`` is relative to the folder of the splits; the expert of DAgger training is the shortest solution;
``domain_randomization`` is refused. ``extra.gamefile`` gives the goal away, there as here: keep it from the player.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from agentenvs.core import registry
from agentenvs.core.actions import malformed
from agentenvs.core.environment import Environment
from agentenvs.core.errors import ConfigError, DataError
from agentenvs.core.streams import Stream, scenario_key
from agentenvs.core.task import TaskRef

BUILT_IN: Final = "builtin"
"""As a path in a configuration: the suite's hand-made rooms instead of a folder of games."""
TASK_TYPES: Final[Mapping[int, str]] = {
    1: "pick_and_place_simple",
    2: "look_at_obj_in_light",
    3: "pick_clean_then_place_in_recep",
    4: "pick_heat_then_place_in_recep",
    5: "pick_cool_then_place_in_recep",
    6: "pick_two_obj_and_place",
}
"""By the ids that stand in configurations."""

_GAME_FILE = "game.tw-pddl"
_PATHS = {
    "train": "data_path",
    "eval_in_distribution": "eval_id_data_path",
    "eval_out_of_distribution": "eval_ood_data_path",
}
_LIMIT = 50
_MADE_UP_SCENE = 501  # the scenes of the original end at 430

Infos = dict[str, list[Any]]


class Game(NamedTuple):
    """One game of a pool."""

    path: str
    """``<folder>/<task type>-<object>-None-<target>-<scene>/trial_<id>/game.tw-pddl``; made up for built-in rooms."""
    ref: TaskRef
    data: str | None
    """Folder of the game files; None for built-in rooms."""


def get_environment(env_type: str) -> type[AlfredTWEnv]:
    """Return the class for a type of environment.

    Raises:
        ConfigError: Not the text environment.
    """
    if env_type != "AlfredTWEnv":
        raise ConfigError(
            f"there is no environment {env_type!r} here", why="only ALFWorld's text environment has a face"
        )
    return AlfredTWEnv


def games_of(data: str | Path | None = None) -> list[Game]:
    """Return the games of a folder, sorted by path; the built-in rooms where None.

    Args:
        data: One split's folder, the folder ``json_2.1.1``, or its parent.

    Raises:
        DataError: The folder holds no games.
    """
    if data is None:
        return _built_in_games()
    from agentenvs.envs.household.data import list_games

    return [
        Game("/".join(Path(file.path).parts[-4:]), TaskRef(split.name, index), str(data))
        for split in list_games(Path(data)).values()
        for index, file in enumerate(split.games)
    ]


class AlfredTWEnv:
    """A pool of games chosen by a configuration; :meth:`init_env` makes the environment.

    Args:
        config: As ``base_config.yaml``, read. ``dataset`` names folders (variables are expanded, ``builtin`` is the
            hand-made rooms, and so is a configuration without ``dataset``) and how many games of them; ``env`` the task
            types; ``general``, ``rl`` and ``dagger`` the limit of steps. The rest is not looked at.
        train_eval: ``train``, ``eval_in_distribution`` or ``eval_out_of_distribution``.
        profile: Rules; see the household's options.
        text: Words; see the household's options.

    Raises:
        ConfigError: A configuration that makes no sense here.
        DataError: A folder holds no games.
    """

    profile: str = "compat"
    text: str = "auto"
    _known: Mapping[str, Game] = {}

    def __init__(
        self, config: Mapping[str, Any], train_eval: str = "train", *, profile: str = "compat", text: str = "auto"
    ) -> None:
        self.config = config
        self.train_eval = train_eval
        self.profile = profile
        self.text = text
        self.collect_game_files()

    def collect_game_files(self, verbose: bool = False) -> None:
        """List ``game_files``, sorted, and ``num_games``. May be called again after a change of ``config``."""
        wanted = [
            TASK_TYPES[number] for number in _at(self.config, "env", "task_types", TASK_TYPES) if number in TASK_TYPES
        ]
        if not wanted:
            raise ConfigError("the configuration names no task type", fix="env.task_types: [1, 2, 3, 4, 5, 6]")
        games = [game for game in games_of(self._folder()) if game.path.split("/")[-3].startswith(tuple(wanted))]
        kind = "num_train_games" if self.train_eval == "train" else "num_eval_games"
        most = _at(self.config, "dataset", kind, -1)
        games = games[:most] if most > 0 else games
        if not games:
            raise DataError(f"there is no game of the wanted types for {self.train_eval}")
        self._known = {game.path: game for game in games}
        self.game_files = [game.path for game in games]
        self.num_games = len(self.game_files)

    def init_env(self, batch_size: int) -> AlfworldEnv:
        """Return the environment over ``game_files``, which may have been changed to paths of other game files.

        Raises:
            ConfigError: A limit, a training method or a randomization that makes no sense here.
            DataError: A game file is not there.
        """
        method = _at(self.config, "general", "training_method", "dqn")
        if method not in ("dqn", "dagger"):
            raise ConfigError(f"there is no training method {method!r}", fix="general.training_method: dqn or dagger")
        training = _at(self.config, "rl" if method == "dqn" else "dagger", "training", {})
        if self.train_eval == "train" and _at(self.config, "env", "domain_randomization", False):
            raise ConfigError(
                "domain randomization is not to be had here",
                why="it renames the objects of a game by chance, so that no two runs play the same games",
                fix="env.domain_randomization: False",
            )
        expert = _at(self.config, "env", "expert_type", "handcoded")
        return AlfworldEnv(
            [self._known.get(str(path)) or _game_at(str(path)) for path in self.game_files],
            batch_size=batch_size,
            limit=training.get("max_nb_steps_per_episode", _LIMIT),
            profile=self.profile,
            text=self.text,
            expert=expert if method == "dagger" and self.train_eval == "train" else None,
        )

    def _folder(self) -> str | None:
        key = _PATHS.get(self.train_eval)
        if key is None:
            raise ConfigError(f"there is no split {self.train_eval!r}", fix=f"one of: {', '.join(_PATHS)}")
        if "dataset" not in self.config:
            return None
        path = os.path.expandvars(str(_at(self.config, "dataset", key, "")))
        if path == BUILT_IN:
            return None
        if not path or "$" in path:
            raise DataError(
                f"dataset.{key} names no folder: {path!r}",
                why="it is empty, or holds a variable that is not set",
                fix=f"set ALFWORLD_DATA to the folder above json_2.1.1, or write {BUILT_IN!r} for the hand-made rooms",
            )
        return path


class AlfworldEnv:
    """A batch of households over a pool of games.

    Args:
        games: The pool; the built-in rooms where None.
        batch_size: Games played side by side.
        limit: Steps after which a game is over; 0 is no limit.
        profile: Rules; see the household's options.
        text: Words; see the household's options.
        expert: ``handcoded`` adds the next command of a shortest solution as ``infos["extra.expert_plan"]``,
            ``planner`` the whole of it; None adds nothing.

    Raises:
        ConfigError: No games, or no batch.
        OptionError: A value the household refuses.
    """

    def __init__(
        self,
        games: Sequence[Game] | None = None,
        *,
        batch_size: int = 1,
        limit: int = _LIMIT,
        profile: str = "compat",
        text: str = "auto",
        expert: str | None = None,
    ) -> None:
        pool = games_of() if games is None else list(games)
        if not pool:
            raise ConfigError("there are no games to play")
        if batch_size < 1:
            raise ConfigError(f"a batch of {batch_size} makes no sense", fix="1 or more")
        self.batch_size = batch_size
        self.num_games = len(pool)
        self._pool = pool
        self._expert = expert
        options = {"limit": limit, "profile": profile, "text": text, "admissible": True}
        self._slots = [_Slot(options, expert, pool[0]) for _ in range(batch_size)]
        self._upcoming = _in_order(pool)

    def seed(self, seed: int | None = None) -> list[int | None]:
        """Begin the pool anew, shuffled by a seed and again after each pass; in sorted order where None."""
        self._upcoming = _in_order(self._pool) if seed is None else _shuffled(self._pool, int(seed))
        return [seed]

    def skip(self, nb_games: int = 1) -> None:
        """Leave out the next games."""
        for _ in range(nb_games):
            next(self._upcoming)

    def reset(self) -> tuple[list[str], Infos]:
        """Begin the next games.

        Returns:
            First observations, and infos: ``won``, ``admissible_commands``, ``extra.gamefile``.
        """
        for slot in self._slots:
            slot.begin(next(self._upcoming))
        return [slot.text for slot in self._slots], self._infos()

    def step(self, commands: Sequence[Any]) -> tuple[list[str], list[float], list[bool], Infos]:
        """Play one command in each game.

        Returns:
            Observations, scores (1 once won), whether each game is over (won or at the limit), and infos.

        Raises:
            ConfigError: ``commands`` is no list of ``batch_size``.
            EpisodeNotStarted: Before the first reset.
        """
        if not isinstance(commands, list | tuple) or len(commands) != self.batch_size:
            raise ConfigError("commands come as a list, one for each game of the batch", why=f"got {commands!r:.80}")
        for slot, command in zip(self._slots, commands, strict=True):
            slot.play(command)
        texts = [slot.text for slot in self._slots]
        scores = [float(slot.won) for slot in self._slots]
        return texts, scores, [slot.done for slot in self._slots], self._infos()

    def close(self) -> None:
        """Close the households. May be called twice."""
        for slot in self._slots:
            slot.close()

    def _infos(self) -> Infos:
        infos: Infos = {
            "won": [slot.won for slot in self._slots],
            "admissible_commands": [list(slot.admissible) for slot in self._slots],
            "extra.gamefile": [slot.gamefile for slot in self._slots],
        }
        if self._expert is not None:
            infos["extra.expert_plan"] = [slot.plan() for slot in self._slots]
        return infos


class _Slot:
    """One place of a batch: the household in it, and its last answer."""

    def __init__(self, options: Mapping[str, Any], expert: str | None, first: Game) -> None:
        self._options = options
        self._expert = expert
        self._made: dict[str | None, Environment] = {}
        # Refuses wrong options now and not at the first reset.
        self._env = self._household(first.data)
        self.text = self.gamefile = ""
        self.won = self.done = False
        self.admissible: tuple[str, ...] = ()

    def begin(self, game: Game) -> None:
        self._env = self._household(game.data)
        observation = self._env.reset(game.ref)
        self.gamefile, self.won, self.done = game.path, False, False
        self.text, self.admissible = observation.text, observation.admissible or ()

    def play(self, command: Any) -> None:
        if self.done:
            return
        # A mapping or a list would be a tool call, which this face does not have.
        action = command if isinstance(command, str) else malformed(command, "a command is text")
        observation, _, terminated, truncated, _ = self._env.step(action)
        verdict = self._env.verdict
        self.won = terminated and verdict is not None and verdict.success
        self.done = terminated or truncated
        self.text, self.admissible = observation.text, observation.admissible or ()

    def plan(self) -> list[str]:
        """Return the next command of a shortest solution, or all of them; ``look`` where there is nothing to do."""
        from agentenvs.envs.household.actions import command_text
        from agentenvs.envs.household.prove import shortest

        world = self._env.world
        commands = [command_text(world.layout, command) for command in shortest(world) or ()]
        return (commands if self._expert == "planner" else commands[:1]) or ["look"]

    def close(self) -> None:
        for env in self._made.values():
            env.close()

    def _household(self, data: str | None) -> Environment:
        if data not in self._made:
            self._made[data] = registry.make("household", data=data, **self._options)
        return self._made[data]


def _built_in_games() -> list[Game]:
    from agentenvs_scenarios.household.builtin import NAMES, builtin

    games = []
    for index in range(len(NAMES)):
        scenario = builtin(index)
        goal = scenario.goal
        room = f"{goal.task}-{goal.thing.title()}-None-{goal.target.title()}-{_MADE_UP_SCENE + index}"
        path = f"{BUILT_IN}/{room}/trial_{scenario.digest[:12]}/{_GAME_FILE}"
        games.append(Game(path, TaskRef(BUILT_IN, index), None))
    return sorted(games, key=lambda game: game.path)


def _game_at(path: str) -> Game:
    """Return the game of a file somewhere on the disk."""
    file = Path(os.path.expandvars(path)).expanduser().absolute()
    if not file.is_file() or len(file.parts) < 4:
        raise DataError(f"there is no game file {path}", fix=f"give …/<split>/<task>/<trial>/{_GAME_FILE}")
    for game in games_of(file.parents[2]):
        if game.path.split("/")[-3:-1] == list(file.parts[-3:-1]):
            return game
    raise DataError(f"{path} is no game that can be played", why="the release marks it unsolvable, or it is no game")


def _in_order(pool: Sequence[Game]) -> Iterator[Game]:
    while True:
        yield from pool


def _shuffled(pool: Sequence[Game], seed: int) -> Iterator[Game]:
    stream = Stream(scenario_key("household", "alfworld-order", seed), "adapters.alfworld")
    games = list(pool)
    while True:
        stream.shuffle(games)
        yield from list(games)


def _at(config: Mapping[str, Any], section: str, key: str, default: Any) -> Any:
    """Return an entry of a configuration; an absent section or entry is the default, and so is null."""
    value = (config.get(section) or {}).get(key)
    return default if value is None else value


__all__ = ["TASK_TYPES", "AlfredTWEnv", "AlfworldEnv", "Game", "games_of", "get_environment"]
