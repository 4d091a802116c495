"""``doctor``: what it finds, and what it says to do."""

from __future__ import annotations

import importlib.metadata
import sys

import pytest

from agentenvs.core import registry


def found(ran, part: str) -> dict[str, str]:
    (item,) = [item for item in ran.json if part in item["what"]]
    return item


def test_nothing_is_broken(cli):
    ran = cli("doctor", "--json")
    assert ran.code == 0
    assert {item["state"] for item in ran.json} <= {"ok", "warn"}
    assert found(ran, "Household-v0 loads")["state"] == "ok"


def test_the_lines_for_people(cli):
    ran = cli("doctor")
    assert ran.out.startswith("ok    Python ")
    assert "household plays its built-in rooms" in ran.out
    assert ran.err == "All that is needed is there.\n"


def test_every_package_of_the_base_install_is_looked_at(cli):
    said = " ".join(item["what"] for item in cli("doctor", "--json").json)
    for requirement in importlib.metadata.requires("agentenvs") or []:
        if "extra" not in requirement and "win32" not in requirement:
            assert requirement.split(">")[0] in said


def test_a_missing_package(cli, monkeypatch):
    real = importlib.metadata.version

    def version(name: str) -> str:
        if name == "orjson":
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    ran = cli("doctor", "--json")
    assert ran.code == 1
    assert found(ran, "orjson is not installed")["fix"].startswith("pip install 'orjson>=")


@pytest.mark.parametrize(("version", "state"), [("3.9.99", "fail"), ("3.10", "ok"), ("4", "ok")])
def test_an_old_package(cli, monkeypatch, version, state):
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: ["orjson>=3.10", "x; extra == 'dev'"])
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    assert found(cli("doctor", "--json"), f"orjson {version}")["state"] == state


def test_a_folder_that_was_never_installed(cli, monkeypatch):
    def requires(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", requires)
    assert found(cli("doctor", "--json"), "is not installed")["state"] == "warn"


def test_an_old_python(cli, monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 10, 0))
    assert cli("doctor", "--json").json[0]["fix"] == "install Python 3.11 or newer"


def test_an_environment_that_does_not_load(cli, monkeypatch):
    def broken(spec):
        raise RuntimeError("oh")

    monkeypatch.setattr(registry, "make_from", broken)
    ran = cli("doctor", "--json")
    assert ran.code == 1
    assert "RuntimeError('oh')" in found(ran, "Household-v0 does not load")["what"]


def test_data_that_was_asked_for(cli, tmp_path):
    ran = cli("doctor", "--data", str(tmp_path))
    assert ran.code == 1
    assert "fail  --data is " in ran.out
    assert "fix: give the folder json_2.1.1" in ran.out


def test_a_variable_that_leads_nowhere_is_a_warning(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / "nowhere"))
    ran = cli("doctor", "--json")
    assert ran.code == 0
    assert found(ran, "$ALFWORLD_DATA is")["state"] == "warn"


def test_real_games_are_counted(cli, shared_data):
    assert "valid_seen 8" in cli("doctor", "--data", str(shared_data / "household")).out


def test_no_docker_is_a_warning(cli, monkeypatch):
    monkeypatch.setitem(sys.modules, "docker", None)
    assert found(cli("doctor", "--json"), "no Docker engine answers")["state"] == "warn"


def test_little_room_on_the_disk(cli, monkeypatch):
    import shutil

    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(2**30, 2**30 - 1, 1))
    assert "make room" in cli("doctor").out


def test_where_prepared_worlds_lie(cli, monkeypatch, tmp_path):
    monkeypatch.setenv("AGENTENVS_CACHE", str(tmp_path / "new" / "cache"))
    assert found(cli("doctor", "--json"), "cache of what worlds prepare")["state"] == "ok"
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AGENTENVS_CACHE", str(tmp_path / "file" / "cache"))
    assert found(cli("doctor", "--json"), "cannot be written")["state"] == "warn"
    monkeypatch.setenv("AGENTENVS_PREPARED", str(tmp_path))
    assert found(cli("doctor", "--json"), "AGENTENVS_PREPARED")["state"] == "ok"
    monkeypatch.setenv("AGENTENVS_PREPARED", str(tmp_path / "none"))
    ran = cli("doctor", "--json")
    assert (ran.code, found(ran, "AGENTENVS_PREPARED")["state"]) == (1, "fail")
