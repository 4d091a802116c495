"""Gymnasium's vector face: many episodes side by side, one call for all of them.

Where the episodes are played is the affair of a :class:`Fleet`: in this process (:class:`LocalFleet`), or on a server,
which takes the whole step in one request. What is seen is the same as of Gymnasium's own ``SyncVectorEnv`` over the
single face, :class:`~agentenvs.core.gym.GymEnv`: the same draws, observations, rewards and infos, in each of its three
autoreset modes. Observations are strings in an object array.

One thing more than there: an environment that fails, or an episode whose session is gone, ends in its own slot as
truncated, with reward 0 and the reason in ``info["lost"]``; the others go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from agentenvs.core import registry
from agentenvs.core.environment import Environment
from agentenvs.core.errors import AgentEnvsError, CapabilityError, ContractError, OptionError
from agentenvs.core.gym import ActionSpace, GymEnv, TextSpace, choose, shown
from agentenvs.core.observation import Observation
from agentenvs.core.record import Recorded
from agentenvs.core.spec import EnvSpec, SplitSpec
from agentenvs.core.task import TaskRef
from agentenvs.core.turn import StepResult
from agentenvs.core.verdict import Verdict

Observations: TypeAlias = npt.NDArray[np.object_]
Infos: TypeAlias = dict[str, Any]


class Fleet(Protocol):
    """Episodes side by side, each in a slot."""

    @property
    def spec(self) -> EnvSpec:
        """What the environment says of itself."""

    @property
    def size(self) -> int:
        """How many slots there are."""

    def splits(self) -> dict[str, SplitSpec]:
        """Return the splits by name."""

    def reset(self, refs: Mapping[int, TaskRef]) -> Mapping[int, Observation]:
        """Begin episodes in some slots; running ones are abandoned."""

    def step(self, actions: Mapping[int, Any]) -> Mapping[int, StepResult | Exception]:
        """Play a turn in some slots; what went wrong in one takes none of the others."""

    def verdicts(self) -> Sequence[Verdict | None]:
        """Return what the last episode that ended was worth, slot by slot."""

    def records(self) -> Sequence[bytes | None]:
        """Return the record of the last episode that ended, slot by slot."""

    def close(self) -> None:
        """Give up everything. May be called twice."""


class LocalFleet:
    """Episodes in this process.

    Args:
        envs: One for each slot; they are closed with the fleet.
        record: Whether to keep the record of the last episode of each.
    """

    def __init__(self, envs: Sequence[Environment], *, record: bool = False) -> None:
        self._envs = list(envs)
        self._players: list[Environment | Recorded] = [Recorded(env) if record else env for env in self._envs]
        self._verdicts: list[Verdict | None] = [None] * len(self._envs)
        self._records: list[bytes | None] = [None] * len(self._envs)

    @property
    def spec(self) -> EnvSpec:
        """See :class:`Fleet`."""
        return self._envs[0].spec

    @property
    def size(self) -> int:
        """See :class:`Fleet`."""
        return len(self._envs)

    def splits(self) -> dict[str, SplitSpec]:
        """See :class:`Fleet`."""
        return self._envs[0].splits()

    def reset(self, refs: Mapping[int, TaskRef]) -> Mapping[int, Observation]:
        """See :class:`Fleet`."""
        return {slot: self._players[slot].reset(ref) for slot, ref in refs.items()}

    def step(self, actions: Mapping[int, Any]) -> Mapping[int, StepResult | Exception]:
        """See :class:`Fleet`."""
        return {slot: self._step(slot, action) for slot, action in actions.items()}

    def _step(self, slot: int, action: Any) -> StepResult | Exception:
        player = self._players[slot]
        try:
            result = player.step(action)
        except Exception as error:  # noqa: BLE001 - boundary: an environment may fail in any way
            return error
        if result.terminated or result.truncated:
            self._verdicts[slot] = self._envs[slot].verdict
            if isinstance(player, Recorded):
                self._records[slot] = player.to_bytes()
        return result

    def verdicts(self) -> Sequence[Verdict | None]:
        """See :class:`Fleet`."""
        return tuple(self._verdicts)

    def records(self) -> Sequence[bytes | None]:
        """See :class:`Fleet`.

        Raises:
            CapabilityError: They are not kept.
        """
        if not any(isinstance(player, Recorded) for player in self._players):
            raise CapabilityError("no records are kept of these episodes", fix="make_vec(…, record=True)")
        return tuple(self._records)

    def close(self) -> None:
        """See :class:`Fleet`."""
        for env in self._envs:
            env.close()


class VectorEnv(gymnasium.vector.VectorEnv[Observations, Any, npt.NDArray[Any]]):
    """Many episodes behind ``gymnasium.vector.VectorEnv``.

    ``reset(seed=…)`` and ``options`` are those of :class:`~agentenvs.core.gym.GymEnv`; a single seed counts on from
    slot to slot, as in Gymnasium. ``options["index"]`` may also be a list with one for each slot, and
    ``options["reset_mask"]`` a Boolean array of the slots to be reset.

    Args:
        fleet: Where the episodes are played.
        autoreset_mode: What happens in a slot whose episode has ended; see ``metadata["autoreset_mode"]``.

            * ``NextStep``: the next step begins another episode there, and its action is not played. Gymnasium's own
              default, which its wrappers ask for.
            * ``SameStep``: another episode begins at once; what ended is in ``info["final_obs"]`` and
              ``info["final_info"]``. Costs no action, which may be a reply of a large model.
            * ``Disabled``: the caller resets it, with ``options["reset_mask"]``.
        render_mode: ``ansi``: :meth:`render` returns the last observations.
    """

    def __init__(
        self,
        fleet: Fleet,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
    ) -> None:
        super().__init__()
        self.fleet = fleet
        self.num_envs = fleet.size
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**GymEnv.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = render_mode
        spec = fleet.spec
        self.single_observation_space = TextSpace.of(spec)
        self.single_action_space = ActionSpace(spec)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._random: list[tuple[np.random.Generator, int] | None] = [None] * self.num_envs
        self._seen: list[Observation | None] = [None] * self.num_envs
        self._over = np.ones(self.num_envs, dtype=np.bool_)
        self._splits: dict[str, SplitSpec] | None = None

    # ---- Gymnasium's methods ---------------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, Infos]:
        """Begin episodes in all slots, or in those of ``options["reset_mask"]``.

        Raises:
            ContractError: It is closed.
            OptionError: The options or seeds make no sense.
            SplitError: No such scenario.
        """
        self._must_be_open()
        options = dict(options or {})
        slots = self._masked(options.pop("reset_mask", None))
        seeds = self._seeds(seed)
        refs = {slot: self._ref(slot, seeds[slot], self._options_of(slot, options)) for slot in slots}
        infos = gathered(self._begin(refs), self.num_envs)
        return self._shown(), infos

    def step(self, actions: Any) -> tuple[Observations, npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], Infos]:
        """Play a turn in every slot.

        Args:
            actions: One for each slot, in a list or an object array; each is anything.

        Raises:
            ContractError: There are more or fewer; or a slot has no running episode; or it is closed.
            ServiceError: The server stays away. The same actions may be played again.
        """
        self._must_be_open()
        wanted = self._actions(actions)
        due = [slot for slot in range(self.num_envs) if self._over[slot]]
        if due and (
            self.autoreset_mode is not AutoresetMode.NEXT_STEP or any(self._seen[slot] is None for slot in due)
        ):
            raise ContractError(f"slot {due[0]} has no running episode", fix="reset it")
        results = self.fleet.step({slot: wanted[slot] for slot in range(self.num_envs) if not self._over[slot]})
        told = {slot: self._taken(slot, result) for slot, result in results.items()}
        rewards, terminations, truncations = self._arrays(told)
        ended = np.logical_or(terminations, truncations)
        same = self.autoreset_mode is AutoresetMode.SAME_STEP
        again = [slot for slot in range(self.num_envs) if ended[slot]] if same else due
        final = {
            slot: {"final_obs": self._text(slot), "final_info": self._info(slot, told[slot])} for slot in again if same
        }
        fresh = self._begin({slot: self._ref(slot, None, {}) for slot in again}) if again else {}
        self._over = ended if not same else np.zeros(self.num_envs, dtype=np.bool_)
        infos = gathered(
            {slot: fresh.get(slot) or self._info(slot, told[slot]) for slot in range(self.num_envs)}, self.num_envs
        )
        if final:
            infos |= gathered(final, self.num_envs)
        return self._shown(), rewards, terminations, truncations, infos

    def render(self) -> tuple[str | None, ...] | None:  # type: ignore[override]
        """Return the last observations where ``render_mode`` is ``ansi``."""
        if self.render_mode != "ansi":
            return None
        return tuple(None if seen is None else seen.text for seen in self._seen)

    def close_extras(self, **kwargs: Any) -> None:
        """Give up the fleet."""
        self.fleet.close()

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """The generators that draw the scenarios, slot by slot."""
        return tuple(self._drawing(slot)[0] for slot in range(self.num_envs))

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """Their seeds."""
        return tuple(self._drawing(slot)[1] for slot in range(self.num_envs))

    # ---- what Gymnasium does not know ------------------------------------------------------------------------------

    def verdicts(self) -> Sequence[Verdict | None]:
        """Return what the last episode that ended in each slot was worth."""
        return self.fleet.verdicts()

    def records(self) -> Sequence[bytes | None]:
        """Return the record of the last episode that ended in each slot.

        Raises:
            CapabilityError: They are not kept in this process.
            ServiceError: The server stays away, or has one not any more.
        """
        return self.fleet.records()

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _must_be_open(self) -> None:
        """Refuse to go on after the end: a fleet on a server would make its sessions again."""
        if self.closed:
            raise ContractError("the environments are closed", fix="make others")

    def _begin(self, refs: Mapping[int, TaskRef]) -> dict[int, dict[str, Any]]:
        """Begin episodes, and return the first infos."""
        for slot, observation in self.fleet.reset(refs).items():
            self._seen[slot], self._over[slot] = observation, False
        return {slot: self._info(slot, {"invalid": False}) for slot in refs}

    def _taken(self, slot: int, result: StepResult | Exception) -> StepResult:
        """Take what a turn showed; one that failed shows nothing new, and ends its episode."""
        before = self._seen[slot]
        if isinstance(result, Exception):
            why = _told(result)
            result = StepResult(before or Observation(()), 0.0, False, True, {"invalid": False, "lost": why})
        self._seen[slot] = result.observation
        return result

    def _arrays(self, told: Mapping[int, StepResult]) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
        rewards = np.zeros(self.num_envs, dtype=np.float64)
        terminations, truncations = (np.zeros(self.num_envs, dtype=np.bool_) for _ in range(2))
        for slot, result in told.items():
            rewards[slot], terminations[slot], truncations[slot] = result.reward, result.terminated, result.truncated
        return rewards, terminations, truncations

    def _info(self, slot: int, told: StepResult | dict[str, Any]) -> dict[str, Any]:
        seen = self._seen[slot]
        info = told.info if isinstance(told, StepResult) else told
        return info if seen is None else shown(info, seen)

    def _text(self, slot: int) -> str:
        seen = self._seen[slot]
        return "" if seen is None else seen.text

    def _shown(self) -> Observations:
        array: Observations = np.empty(self.num_envs, dtype=object)
        array[:] = [self._text(slot) for slot in range(self.num_envs)]
        return array

    def _actions(self, actions: Any) -> list[Any]:
        if isinstance(actions, str | bytes | Mapping):  # each has a length, which may be that of the slots
            raise ContractError("one action for all slots", fix="give a list with one for each slot")
        found = actions.tolist() if isinstance(actions, np.ndarray) else list(actions)
        if len(found) != self.num_envs:
            raise ContractError(f"{len(found)} actions for {self.num_envs} slots", fix="give one for each slot")
        return found

    def _seeds(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        if seed is None or isinstance(seed, int | np.integer):
            return [None if seed is None else int(seed) + slot for slot in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise OptionError(f"{len(seed)} seeds for {self.num_envs} slots", fix="give one for each slot, or one")
        return list(seed)

    def _masked(self, mask: Any) -> list[int]:
        if mask is None:
            return list(range(self.num_envs))
        sound = isinstance(mask, np.ndarray) and mask.dtype == np.bool_ and mask.shape == (self.num_envs,)
        if not sound or not mask.any():
            raise OptionError(
                "reset_mask makes no sense", fix=f"a Boolean array of {self.num_envs} slots, at least one of them True"
            )
        return [int(slot) for slot in np.flatnonzero(mask)]

    def _options_of(self, slot: int, options: dict[str, Any]) -> dict[str, Any]:
        index = options.get("index")
        if not isinstance(index, list | tuple | np.ndarray):
            return options
        if len(index) != self.num_envs:
            raise OptionError(f"{len(index)} indices for {self.num_envs} slots", fix="give one for each slot, or one")
        return {**options, "index": index[slot]}

    def _ref(self, slot: int, seed: int | None, options: dict[str, Any]) -> TaskRef:
        if seed is not None:
            self._random[slot] = seeding.np_random(seed)
        if self._splits is None:
            self._splits = self.fleet.splits()
        return choose(self.fleet.spec, self._splits, seed, options, lambda: self._drawing(slot)[0])

    def _drawing(self, slot: int) -> tuple[np.random.Generator, int]:
        found = self._random[slot]
        if found is None:
            found = self._random[slot] = seeding.np_random()
        return found


def _told(error: Exception) -> str:
    """Say what went wrong with an episode, in a line; the words of an environment's failure may give a goal away."""
    if not isinstance(error, AgentEnvsError):
        return type(error).__name__
    return error.what + (f" ({error.why})" if error.why else "")


def gathered(infos: Mapping[int, Mapping[str, Any]], size: int) -> Infos:
    """Return the infos of slots as Gymnasium gathers them: an array for each name, and a mask of who has it.

    The same as ``gymnasium.vector.VectorEnv._add_info`` slot by slot, in a quarter of the time.

    Args:
        infos: By slot.
        size: How many slots there are.
    """
    columns: dict[str, tuple[list[int], list[Any]]] = {}
    for slot, info in infos.items():
        for name, value in info.items():
            column = columns.get(name)
            if column is None:
                column = columns[name] = ([], [])
            column[0].append(slot)
            column[1].append(value)
    found: Infos = {}
    for name, (slots, values) in columns.items():
        found[name] = _column(slots, values, size)
        found[f"_{name}"] = mask = np.zeros(size, dtype=np.bool_)
        mask[slots] = True
    return found


def _column(slots: list[int], values: list[Any], size: int) -> Any:
    kind = type(values[0])
    if kind is dict:
        return gathered(dict(zip(slots, values, strict=True)), size)
    if kind in (int, float, bool):
        array: npt.NDArray[Any] = np.zeros(size, dtype=kind)
        array[slots] = values
        return array
    array = np.full(size, None, dtype=object)
    for slot, value in zip(slots, values, strict=True):
        array[slot] = value
    return array


def make_local(
    name: str,
    num_envs: int,
    *,
    autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
    render_mode: str | None = None,
    record: bool = False,
    **options: Any,
) -> VectorEnv:
    """Make environments of this process behind Gymnasium's vector face; see ``agentenvs.make_vec``."""
    if type(num_envs) is not int or num_envs < 1:
        raise OptionError(f"num_envs {num_envs!r} makes no sense", fix="a whole number, 1 or more")
    fleet = LocalFleet([registry.make(name, **options) for _ in range(num_envs)], record=record)
    return VectorEnv(fleet, autoreset_mode, render_mode)
