"""Gymnasium's own checker, on the environment's Gymnasium face."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from agentenvs.harness.check.findings import Fault, check, raised
from agentenvs.harness.check.subject import Subject

# It compares spaces with a space of its own, wants a registered id and a render mode: no environment is at fault.
_OF_NO_CONCERN = ".*(not within|spec|render mode|render_modes).*"


@check("Gymnasium's own checker passes")
def env_checker(subject: Subject) -> Iterator[Fault]:
    """``gymnasium.utils.env_checker.check_env`` raises and warns of nothing."""
    from gymnasium.utils.env_checker import check_env

    from agentenvs.core.gym import GymEnv

    env = GymEnv(subject.make())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=_OF_NO_CONCERN)
        try:
            check_env(env, skip_render_check=True)
        except Exception as error:  # noqa: BLE001 - boundary: what is checked may raise anything, and so does the checker
            where = f"gymnasium.utils.env_checker: {raised(error)}"
            yield Fault("Gymnasium's checker is not content", where, "leave reset() and step() to the base class")


CHECKS = (env_checker,)
