"""The pages in a real browser: usable by keyboard, held against axe-core in light and dark, loading nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentenvs.leaderboard import anchors, asking
from agentenvs.leaderboard.boards import Board
from agentenvs.leaderboard.building import build
from agentenvs.leaderboard.refusals import Refused
from agentenvs.leaderboard.store import opened
from tests import axe
from tests.leaderboard import desk
from tests.leaderboard.test_app import served

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install playwright)")
CHROMIUM = os.environ.get("AGENTENVS_TEST_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
PICTURE = Path(__file__).resolve().parents[2] / "docs" / "images" / "leaderboard.png"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the PATH (apt-get install chromium)"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as api:
        made = api.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield made
        made.close()


@pytest.fixture(scope="module")
def shelf(
    tmp_path_factory: pytest.TempPathFactory, small: Board, desks: dict[str, desk.Desk]
) -> Iterator[tuple[Any, str]]:
    """A store with a board that has rows of every kind, served."""
    folder = tmp_path_factory.mktemp("shelf")
    shown = replace(small, title="Household, eight rooms", attempts=5)
    idle = desk.Desk.of(desk.played(folder / "idle", "noop")).told(lambda told: told["agent"].update(name="mine"))
    with opened(folder / "board") as store:
        store.make(shown)
        anchors.measure(store, small.id, ["oracle", "random"])
        store.admit(
            small.id, desks["expert"].named(contestant="Ada", agent="searcher", notes="Looks, then acts.").sent()
        )
        store.admit(small.id, desks["prior"].named(contestant="Grace", agent="guesser", version="2.1").sent())
        store.admit(small.id, idle.named(contestant="Edsger", agent="patience").sent())
        with pytest.raises(Refused):
            store.admit(small.id, desks["expert"].named(contestant="Mallory", agent="mine").sent())
        with served(store) as url:
            yield store, url


def paths(store: Any, board: str) -> list[str]:
    rows, _ = asking.page(store, board)
    return ["/", "/tiers", "/queue", f"/boards/{board}", f"/boards/{board}/refused", *(
        f"/boards/{board}/entries/{row['id']}" for row in rows[:3]
    )]  # fmt: skip


def test_the_pages_hold_against_axe_in_light_and_dark(shelf, small: Board, browser):
    store, url = shelf
    page = browser.new_page()
    wrong = []
    page.on("console", lambda message: wrong.append(message.text))
    page.on("requestfailed", lambda request: wrong.append(request.url))
    for path in paths(store, small.id):
        page.goto(url + path)
        assert axe.schemes(page) == {}, path
    assert wrong == []
    page.close()


def test_a_visitor_goes_from_the_boards_to_a_row_by_keyboard(shelf, small: Board, browser):
    _, url = shelf
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(url)
    page.keyboard.press("Tab")
    assert page.locator(":focus").inner_text() == "to the content"
    page.get_by_role("link", name="Household, eight rooms").press("Enter")
    page.get_by_label("Contestant").fill("gra")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=gra")
    assert page.get_by_role("row").count() == 2
    page.get_by_role("link", name="Grace").press("Enter")
    page.wait_for_url("**/entries/*")
    assert "What stands behind this row: replayed" in page.inner_text("main")
    assert page.get_by_role("table").count() == 2
    page.close()


def test_a_page_is_not_wider_than_a_telephone(shelf, small: Board, browser):
    _, url = shelf
    page = browser.new_page(viewport={"width": 375, "height": 700})
    for path in ("/", f"/boards/{small.id}", "/tiers"):
        page.goto(url + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 375, path
    page.close()


def test_a_build_needs_no_server(shelf, small: Board, browser, tmp_path: Path):
    store, _ = shelf
    build(store, tmp_path / "site")
    page = browser.new_page()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"file://{tmp_path}/site/index.html")
    page.get_by_role("link", name="Household, eight rooms").click()
    page.get_by_role("link", name="Ada").click()
    page.get_by_role("link", name="Household, eight rooms").click()
    page.get_by_role("link", name="What was refused").click()
    assert "LB401" in page.inner_text("main")
    page.get_by_role("link", name="What a row proves").click()
    assert "attested" in page.inner_text("main")
    assert all(url.startswith("file://") for url in asked)
    page.close()


def test_the_picture_of_the_documentation(shelf, small: Board, browser, tmp_path: Path):
    """Writes ``docs/images/leaderboard.png`` where AGENTENVS_PICTURES is set; else only sees that one can be made."""
    _, url = shelf
    page = browser.new_page(viewport={"width": 1240, "height": 640}, color_scheme="light")
    page.goto(f"{url}/boards/{small.id}")
    made = PICTURE if os.environ.get("AGENTENVS_PICTURES") else tmp_path / "leaderboard.png"
    made.parent.mkdir(exist_ok=True)
    page.screenshot(path=made)
    assert 10_000 < made.stat().st_size < 150_000
    assert PICTURE.exists()
    page.close()
