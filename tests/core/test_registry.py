"""Which environments there are: look-ups, hints, and plug-ins that harm nobody."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentenvs.core import registry
from agentenvs.core.errors import ContractError, OptionError, UnknownEnvError
from tests.envs.fixtures import clerk, ledger


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {clerk.SPEC.id: clerk.SPEC})
    monkeypatch.setattr(registry, "_plugins_read", False)
    monkeypatch.setattr(registry, "entry_points", lambda group: [])


class Point:
    """An entry point as a package announces it."""

    value = "plugin.module:SPEC"

    def __init__(self, loaded: Any) -> None:
        self._loaded = loaded

    def load(self) -> Any:
        if isinstance(self._loaded, Exception):
            raise self._loaded
        return self._loaded


def announce(monkeypatch: pytest.MonkeyPatch, *points: Any) -> list[str]:
    asked: list[str] = []

    def entry_points(group: str) -> list[Point]:
        asked.append(group)
        return [Point(point) for point in points]

    monkeypatch.setattr(registry, "entry_points", entry_points)
    return asked


@pytest.mark.parametrize("name", ["tests/Clerk-v0", "tests/Clerk", "Clerk-v0", "clerk"])
def test_an_environment_has_several_names(name):
    assert registry.spec(name) is clerk.SPEC


@pytest.mark.parametrize("name", ["agentenvs/Household-v0", "agentenvs/Household", "household"])
def test_built_in_environments_are_found_by_any_name(name):
    assert registry.spec(name).id == "agentenvs/Household-v0"


def test_a_name_without_a_version_is_the_newest():
    newer = replace(clerk.SPEC, id="tests/Clerk-v10")
    registry.register(newer)
    registry.register(replace(clerk.SPEC, id="tests/Clerk-v9"))
    assert registry.spec("tests/Clerk") is newer
    assert registry.spec("clerk") is newer


def test_a_misspelt_name_gets_a_hint():
    with pytest.raises(UnknownEnvError, match="did you mean 'household'") as raised:
        registry.spec("housold")
    assert "known: " in raised.value.fix
    with pytest.raises(UnknownEnvError, match="there is no environment 'zzz'") as raised:
        registry.spec("zzz")
    assert "did you mean" not in raised.value.fix


def test_an_unknown_version_gets_the_known_ones():
    with pytest.raises(UnknownEnvError, match=r"known versions: tests/Clerk-v0[\s\S]*use tests/Clerk-v0"):
        registry.spec("tests/Clerk-v7")
    for version in (10, 9):
        registry.register(replace(clerk.SPEC, id=f"tests/Clerk-v{version}"))
    with pytest.raises(UnknownEnvError, match=r"Clerk-v0, tests/Clerk-v9, tests/Clerk-v10\n  fix: use tests/Clerk-v10"):
        registry.spec("tests/Clerk-v7")


def test_an_id_is_taken_once():
    registry.register(clerk.SPEC)
    with pytest.raises(ContractError, match="the id tests/Clerk-v0 is taken"):
        registry.register(replace(clerk.SPEC, release="1"))
    with pytest.raises(ContractError, match="is taken"):
        registry.register(replace(clerk.SPEC, id="agentenvs/Household-v0"))


@pytest.mark.parametrize("slug", ["household", "clerk"])
def test_a_slug_of_another_environment_is_taken(slug):
    with pytest.raises(ContractError, match=f"the slug '{slug}' is taken"):
        registry.register(replace(clerk.SPEC, id="elsewhere/Other-v99", slug=slug))
    registry.register(replace(clerk.SPEC, id="tests/Clerk-v1"))


def test_the_list_is_sorted_and_holds_each_environment_once():
    registry.register(ledger.SPEC)
    registry.spec("household")
    ids = [spec.id for spec in registry.list_envs()]
    assert ids == sorted(set(ids))
    assert {"agentenvs/Household-v0", "tests/Clerk-v0", "tests/Ledger-v0"} <= set(ids)


def test_plug_ins_are_read_on_a_miss_only_and_once(monkeypatch):
    asked = announce(monkeypatch, ledger.SPEC)
    registry.spec("clerk")
    assert asked == []
    assert registry.spec("ledger") is ledger.SPEC
    with pytest.raises(UnknownEnvError):
        registry.spec("zzz")
    assert asked == ["agentenvs.envs"]


@pytest.mark.parametrize(
    "announced",
    [ledger.SPEC, [ledger.SPEC], lambda: ledger.SPEC, lambda: (ledger.SPEC,)],
    ids=["spec", "list", "f", "g"],
)
def test_a_plug_in_may_announce_itself_in_several_ways(monkeypatch, announced):
    announce(monkeypatch, announced)
    assert registry.spec("ledger") is ledger.SPEC


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (ImportError("no module of that name"), "no module of that name"),
        (7, "'int' object is not iterable"),
        (replace(clerk.SPEC, release="1"), "the id tests/Clerk-v0 is taken"),
        (ContractError("a tool name is reserved"), "a tool name is reserved"),
    ],
)
def test_a_broken_plug_in_is_a_warning_that_names_it_and_harms_nobody(monkeypatch, broken, said):
    announce(monkeypatch, broken, ledger.SPEC)
    with pytest.warns(UserWarning, match=f"'plugin.module:SPEC' cannot be loaded: .*{said}"):
        assert registry.spec("ledger") is ledger.SPEC


def test_making_checks_the_options():
    with pytest.raises(OptionError, match="has no option 'colour'"):
        registry.make("clerk", colour="red")
    registry.make("clerk").close()


@pytest.mark.parametrize(
    ("entry", "match"),
    [
        ("nonsense", "is no entry point"),
        (":x", "is no entry point"),
        ("tests.envs.fixtures.clerk:Nobody", "has no 'Nobody'"),
        ("tests.envs.fixtures.clerk:oracle", "made a Scripted"),
    ],
)
def test_an_entry_point_that_leads_nowhere_is_named(entry, match):
    with pytest.raises(ContractError, match=match):
        registry.make_from(replace(clerk.SPEC, entry_point=entry))


def run_python(root: Path, code: str, *more_paths: Path) -> str:
    paths = [root, *(root / room for room in ("servers", "scenarios", "scoring")), *more_paths]
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_listing_ids_imports_no_environment(root):
    code = "import sys; from agentenvs.core import registry; registry.built_in_ids(); print(sorted(sys.modules))"
    assert "agentenvs.envs" not in run_python(root, code)


def test_an_installed_package_is_found_by_its_entry_point(root, tmp_path):
    info = tmp_path / "plugin-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[agentenvs.envs]\ngood = tests.envs.fixtures.ledger:SPEC\nbad = plugin_without_code:SPEC\n"
    )
    code = "import agentenvs; print([spec.slug for spec in agentenvs.list_envs()])"
    said = run_python(root, code, tmp_path)
    assert "'searchworld', 'webshop', 'ledger'" in said
    assert "'plugin_without_code:SPEC' cannot be loaded" in said
