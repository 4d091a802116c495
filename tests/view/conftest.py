"""Runs to be viewed, and a browser to view them with."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from agentenvs.core import registry
from agentenvs.core.task import TaskRef
from agentenvs.harness import folder as folders
from agentenvs.harness.rollout import play
from agentenvs.harness.run import RunConfig, evaluate
from agentenvs.view.app import make_app
from agentenvs.view.pages import Pages
from tests.view.site import Site

CHROMIUM = os.environ.get("AGENTENVS_TEST_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
EPISODES = 60


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two runs, won and lost, and a training run; a third run lies beside it. Nobody writes there."""
    room = tmp_path_factory.mktemp("made")
    for policy in ("expert", "prior"):
        options = {"limit": 11}
        evaluate(RunConfig("household", policy, episodes=EPISODES, options=options, out=room / "runs" / policy))
    evaluate(RunConfig("household", "oracle", episodes=12, options={"limit": 11}, out=room / "yardstick"))
    training(room / "runs" / "training")
    return room / "runs"


def training(folder: Path, steps: int = 40) -> None:
    """Write a training run that learns."""
    folder.mkdir(parents=True)
    config = {"method": "grpo", "name": "t", "seed": 3, "steps": steps, "worlds": {"household": {}}}
    (folder / "config.json").write_text(json.dumps(config))
    lines = []
    for step in range(steps):
        share = min(step / 50, 0.75)
        if step % 8 == 0:
            lines.append(
                f'{{"kind": "eval", "step": {step}, "eval_success": {share}, "eval_low": {share * 0.8}, '
                f'"eval_high": {share * 0.8 + 0.2}, "eval_episodes": 50, "eval_return": {share}}}'
            )
        lines.append(
            f'{{"kind": "step", "step": {step}, "success": {share * 0.9 + step % 3 * 0.02}, "return": {share}, '
            f'"loss": {1 / (step + 1)}, "valid": 0.9, "turns": {20 - step / 4}, "gradient_norm": 0.{step % 7 + 1}}}'
        )
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "model").mkdir()


@pytest.fixture
def view() -> Iterator[Callable[..., Site]]:
    """Return a function that shows folders to a client in this process."""
    shelves = []

    def show(*roots: Path) -> Site:
        pages = Pages(list(roots))
        shelves.append(pages.shelf)
        return Site(pages, TestClient(make_app(pages), base_url="http://127.0.0.1:7575"))

    yield show
    for shelf in shelves:
        shelf.close()


@pytest.fixture
def site(made: Path, view: Callable[..., Site]) -> Site:
    """The made runs, shown."""
    return view(made)


@pytest.fixture
def played(tmp_path: Path, made: Path) -> Callable[..., Path]:
    """Return a function that lets a player of a test's own play episodes into a run folder."""

    def play_into(name: str, policy: Any, env: Any = None, episodes: int = 1) -> Path:
        folder = folders.make_folder(tmp_path / name, "household", "mine")
        world = env or registry.make("household", limit=11)
        for number in range(episodes):
            ref = TaskRef(world.spec.default_split, number)
            folders.keep(folder, play(world, policy, ref, number=number))
        shutil.copy(made / "prior" / "plan.json", folder / "plan.json")
        return folder

    return play_into


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no chromium on the PATH (apt-get install chromium)")
    with playwright.sync_playwright() as api:
        one = api.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield one
        one.close()
