"""What counts as a policy, and what sets a privileged one and a learner apart."""

from __future__ import annotations

from typing import Any

import pytest

from agentenvs.core.policy import Learner, Policy, Privileged


class Plain:
    def reset(self, spec: Any, task: Any) -> None: ...

    def act(self, observation: Any) -> str:
        return "look"


class Waiting(Plain):
    async def act(self, observation: Any) -> str:  # type: ignore[override]
        return "look"


class Actless:
    def reset(self, spec: Any, task: Any) -> None: ...


class Oracle(Privileged):
    def reset(self, spec: Any, task: Any) -> None: ...

    def act(self, observation: Any) -> str:
        return "look"

    def reveal(self, scenario: Any) -> None: ...


class Student(Plain):
    def episode_ended(self, record: bytes, reward: float | None) -> None: ...

    def library_digest(self) -> str:
        return ""


@pytest.mark.parametrize(
    ("cls", "policy", "privileged", "learner"),
    [
        (Plain, True, False, False),
        (Waiting, True, False, False),
        (Student, True, False, True),
        (Oracle, True, True, False),
        (Actless, False, False, False),
        (object, False, False, False),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_kinds(cls: type[Any], policy: bool, privileged: bool, learner: bool) -> None:
    player = cls()
    assert isinstance(player, Policy) is policy
    assert isinstance(player, Learner) is learner
    assert issubclass(cls, Privileged) is privileged


def test_a_privileged_policy_must_take_the_scenario() -> None:
    class Lazy(Privileged):
        def reset(self, spec: Any, task: Any) -> None: ...

        def act(self, observation: Any) -> str:
            return "look"

    with pytest.raises(TypeError, match="reveal"):
        Lazy()


def test_one_that_only_has_a_method_of_that_name_is_not_privileged() -> None:
    sly = type("Sly", (Plain,), {"reveal": lambda self, scenario: None})
    assert not isinstance(sly(), Privileged)
