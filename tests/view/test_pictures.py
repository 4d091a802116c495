"""The pictures of docs/viewing.md: made by this test, anew with AGENTENVS_TEST_PICTURES=1, each small."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentenvs.view import background
from agentenvs.view.pages import Pages
from tests.view.test_browser import Open

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "viewing.md"
MOST_BYTES = 150_000
SIZE = {"width": 1120, "height": 740}

PICTURES = {
    "view-runs": ("/", "light", None),
    "view-run": ("/run/{prior}", "light", None),
    "view-episode": ("/run/{prior}/episode/3?trace=1#turn-3", "light", "#turn-3"),
    "view-side-by-side": ("/compare/episode?run={prior}&run={yardstick}&a=9&b=9", "light", "#first-difference"),
    "view-comparison": ("/compare?run={prior}&run={expert}", "dark", None),
}


@pytest.fixture(scope="module")
def url(made: Path) -> Iterator[str]:
    before = Path.cwd()
    os.chdir(made.parent)
    with background([Path("runs"), Path("yardstick")]) as address:
        yield address
    os.chdir(before)


@pytest.fixture(scope="module")
def names(made: Path) -> dict[str, str]:
    return {one.folder.name: one.name for one in Pages([made, made.parent / "yardstick"]).shelf.all()}


@pytest.mark.browser
@pytest.mark.xdist_group("view-browser")
@pytest.mark.parametrize("name", list(PICTURES))
def test_the_pictures_of_the_docs(browser: Any, url: str, names: dict[str, str], tmp_path: Path, name: str) -> None:
    path, scheme, focus = PICTURES[name]
    one = Open(browser, url, color_scheme=scheme)
    one.page.set_viewport_size(SIZE)
    page = one.go(path.format(**names))
    page.wait_for_selector("#pending", state="detached")
    if name == "view-side-by-side":
        page.keyboard.press("d")
        page.evaluate("document.activeElement.blur()")
    if focus:
        page.evaluate(f"scrollBy(0, document.querySelector('{focus}').getBoundingClientRect().top - 240)")
    page.wait_for_timeout(200)
    kept = ROOT / "docs" / "images" / f"{name}.png"
    file = kept if os.environ.get("AGENTENVS_TEST_PICTURES") else tmp_path / "picture.png"
    page.screenshot(path=file)
    one.context.close()
    for picture in (file, kept):
        assert 5_000 < picture.stat().st_size < MOST_BYTES
    assert one.wrong == []


def test_the_page_shows_every_picture_and_no_other() -> None:
    shown = re.findall(r'src="images/([\w-]+)\.png"', PAGE.read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(PICTURES)
    assert all((PAGE.parent / "images" / f"{name}.png").is_file() for name in shown)
