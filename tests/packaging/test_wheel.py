"""The wheel: four import names, all data inside, and it works from another folder with nothing but what it asks for.

The clean environment is filled by pip. Where pip can reach no index the tests that need it are skipped, except in
continuous integration (``CI`` is set), where that is a failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

import pytest

PACKAGES = {
    "agentenvs": "agentenvs",
    "agentenvs_servers": "servers/agentenvs_servers",
    "agentenvs_scenarios": "scenarios/agentenvs_scenarios",
    "agentenvs_scoring": "scoring/agentenvs_scoring",
}

_IMPORT_ALL = """
import importlib, pkgutil, sys
for name in sys.argv[2:]:
    package = importlib.import_module(name)
    assert package.__file__.startswith(sys.argv[1]), package.__file__
    for module in pkgutil.walk_packages(package.__path__, name + "."):
        if module.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(module.name)
        except Exception as error:
            # The trainer is an extra: its modules may want PyTorch, and nothing else that is not there.
            wanted = getattr(error, "name", None) in ("torch", "transformers") or "agentenvs[train]" in str(error)
            if not (module.name.startswith("agentenvs.train") and wanted):
                raise
"""

pytestmark = pytest.mark.xdist_group("wheel")


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    _run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(root), cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def clean(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` folder of an environment with the wheel and its base dependencies."""
    venv = tmp_path_factory.mktemp("clean") / "venv"
    _run(sys.executable, "-m", "venv", str(venv), cwd=venv.parent)
    folder = venv / ("Scripts" if os.name == "nt" else "bin")
    command = [str(folder / "python"), "-m", "pip", "install", "--quiet", "--retries", "1", str(wheel)]
    done = subprocess.run(command, cwd=venv.parent, capture_output=True, text=True, check=False)
    if done.returncode and "No matching distribution found" in done.stderr and not os.environ.get("CI"):
        pytest.skip("pip can reach no package index, so no clean environment can be filled")
    assert done.returncode == 0, done.stderr
    return folder


def _run(*command: str, cwd: Path) -> str:
    surroundings = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(command, cwd=cwd, env=surroundings, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}", pytrace=False)
    return done.stdout


def _names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def _metadata(clean: Path) -> Distribution:
    (folder,) = clean.parent.glob("**/site-packages/agentenvs-*.dist-info")
    return PathDistribution(folder)


def test_exactly_four_names_at_the_top(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in _names(wheel) if ".dist-info/" not in name}
    assert tops == set(PACKAGES)


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_every_file_of_a_package_is_inside(wheel: Path, root: Path, package: str) -> None:
    folder = root / PACKAGES[package]
    files = {
        f"{package}/{path.relative_to(folder).as_posix()}"
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    inside = {name for name in _names(wheel) if name.startswith(f"{package}/")}
    assert inside == files
    assert f"{package}/py.typed" in inside


def test_the_licence_is_inside(wheel: Path) -> None:
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in _names(wheel))


def test_every_module_imports_with_the_base_install_alone(clean: Path, tmp_path: Path) -> None:
    _run(str(clean / "python"), "-c", _IMPORT_ALL, str(clean.parent), *PACKAGES, cwd=tmp_path)


def test_every_console_script_runs_from_another_folder(clean: Path, tmp_path: Path) -> None:
    scripts = [entry.name for entry in _metadata(clean).entry_points if entry.group == "console_scripts"]
    assert "agentenvs" in scripts
    for script in scripts:
        assert script in _run(str(clean / script), "--help", cwd=tmp_path)


def test_an_environment_is_made_from_the_installed_wheel(clean: Path, tmp_path: Path) -> None:
    code = "import gymnasium, agentenvs; print(len(gymnasium.make('agentenvs/Household-v0').reset(seed=1)[0]))"
    assert int(_run(str(clean / "python"), "-c", code, cwd=tmp_path)) > 0
