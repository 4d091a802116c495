from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentenvs.core.actions import End, Message, ToolCall
from agentenvs.core.errors import PolicyError
from agentenvs.core.observation import Observation, TextBlock
from agentenvs.core.task import Task, TaskRef
from agentenvs.harness import policies
from agentenvs.harness.stopping import PolicyStop
from tests.harness.playroom import Oracle, Stairs

SPEC = Stairs.spec
HERE = "tests.harness.playroom"


def _seen(**more: Any) -> Observation:
    return Observation((TextBlock(""),), **{"budgets": {"steps": 5}, **more})


def _made(name: str, spec: Any = SPEC, index: int = 0) -> Any:
    policy = policies.resolve(name, spec)()
    policy.reset(spec, Task(spec.id, TaskRef("few", index)))
    return policy


def test_a_name_may_be_a_player_of_the_environment_or_a_factory() -> None:
    assert type(_made("oracle")) is Oracle
    assert type(_made(f"{HERE}:Oracle")) is Oracle
    assert policies.policy_names(SPEC) == ["oracle", "gone", "noop", "random", "openai"]


def test_a_policy_in_the_working_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_policy_of_stairs.py").write_text(
        "class P:\n  def reset(self, spec, task): ...\n  def act(self, observation): return 'up'\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert _made("my_policy_of_stairs:P").act(_seen()) == "up"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("orakel", ["no policy 'orakel'", "did you mean 'oracle'?", "noop", "MODULE:FACTORY"]),
        ("tests.harness.nowhere:Gone", ["cannot be imported", "No module named"]),
        (f"{HERE}:Nobody", ["cannot be found", "has no 'Nobody'"]),
        (f"{HERE}:", ["cannot be found", "module:attribute"]),
        (f"{HERE}:NOT_CALLABLE", ["is a int", "must be callable"]),
        ("gone", ["cannot be imported"]),
    ],
)
def test_a_name_that_is_no_policy(name: str, said: list[str]) -> None:
    with pytest.raises(PolicyError) as told:
        policies.resolve(name, SPEC)
    assert all(part in str(told.value) for part in said), str(told.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Handless", ["made a Handless without act", "reset(spec, task)"]),
        ("unmakeable", ["cannot make a policy", "playroom.py:", "FileNotFoundError: weights.bin"]),
        ("needy", ["cannot make a policy", "takes no arguments"]),
        ("quits", ["cannot make a policy", "SystemExit: 0"]),
    ],
)
def test_a_factory_that_makes_no_policy(name: str, said: list[str]) -> None:
    with pytest.raises(PolicyError) as told:
        policies.resolve(f"{HERE}:{name}", SPEC)()
    assert all(part in str(told.value) for part in said), str(told.value)


def test_a_module_that_fails_at_import_is_named_with_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_policy_of_stairs.py").write_text("x = 1\nx / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(PolicyError, match=r"broken_policy_of_stairs.py:2: ZeroDivisionError"):
        policies.resolve("broken_policy_of_stairs:P", SPEC)


def test_a_policy_that_wants_what_is_no_option_is_told_so() -> None:
    with pytest.raises(PolicyError, match="wants is a int"):
        policies.wanted_options(SimpleNamespace(wants=7), SPEC)


def test_source_digest_names_the_file_of_a_policy() -> None:
    policies.resolve(f"{HERE}:Oracle", SPEC)
    assert policies.source_digest(f"{HERE}:Oracle", SPEC) == policies.source_digest("oracle", SPEC) is not None
    assert policies.source_digest("noop", SPEC) is None


@pytest.mark.parametrize(
    ("accepts", "nothing"),
    [(("text", "tool"), ""), (("message", "tool", "end"), End()), (("message",), Message(""))],
)
def test_noop_does_the_nothing_that_the_environment_takes(accepts: Any, nothing: Any) -> None:
    assert _made("noop", replace(SPEC, accepts=accepts)).act(_seen()) == nothing


def test_random_draws_what_is_admissible_and_the_same_for_the_same_task() -> None:
    drawn = [
        [_made("random", index=index).act(_seen(admissible=tuple("abcdefgh"))) for _ in range(3)] for index in (0, 1)
    ]
    assert all(len(set(same)) == 1 for same in drawn)
    one = _made("random")
    assert {one.act(_seen(admissible=("a", "b"))) for _ in range(30)} == {"a", "b"}
    assert one.act(_seen(admissible=())) == ToolCall("up", {})
    assert _made("random", replace(SPEC, tools=(), accepts=("message",))).act(_seen()) == Message("Hello.")


@pytest.mark.parametrize("name", ["noop", "random"])
def test_built_in_players_stop_where_nothing_else_would(name: str) -> None:
    policy = _made(name)
    for _ in range(policies.UNLIMITED_TURNS):
        policy.act(_seen(budgets={}))
    with pytest.raises(PolicyStop, match="sets no limit"):
        policy.act(_seen(budgets={}))
