"""The pages in a real browser: keys, filters, a run that is being played, hostile words, files that load nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentenvs.harness.run import RunConfig, evaluate
from agentenvs.view import Pages, background, exported
from tests.axe import schemes
from tests.view.test_damage import Hostile

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("view-browser")]


class Open:
    """A page with what went wrong on it."""

    def __init__(self, browser: Any, url: str = "", **context: Any) -> None:
        self.context = browser.new_context(reduced_motion="reduce", viewport={"width": 1280, "height": 800}, **context)
        self.page = self.context.new_page()
        self.wrong: list[str] = []
        self.asked: list[str] = []
        self.page.on(
            "console", lambda said: self.wrong.append(said.text) if said.type in ("error", "warning") else None
        )
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.wrong.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.url = url

    def go(self, path: str) -> Any:
        self.page.goto(self.url + path)
        self.page.wait_for_selector("html[data-ready]")
        return self.page

    def here(self) -> str:
        return str(self.page.evaluate("location.hash"))

    def in_view(self, selector: str) -> bool:
        box = self.page.locator(selector).bounding_box()
        return box is not None and 0 <= box["y"] < 800


def until(page: Any, true: str) -> None:
    """Wait for an expression to be true: the browser's own way to wait would need what the pages' policy forbids."""
    end = time.monotonic() + 60
    while not page.evaluate(true):
        assert time.monotonic() < end, true
        page.wait_for_timeout(50)


@pytest.fixture(scope="module")
def url(made: Path) -> Iterator[str]:
    with background([made]) as address:
        yield address


@pytest.fixture(scope="module")
def names(made: Path) -> dict[str, str]:
    shelf = Pages([made]).shelf
    return {one.folder.name: one.name for one in shelf.all()}


@pytest.fixture
def opened(browser: Any, url: str) -> Iterator[Open]:
    one = Open(browser, url)
    yield one
    one.context.close()
    assert one.wrong == []
    assert [path for path in one.asked if not path.startswith((url, "data:"))] == []


def addresses(names: dict[str, str]) -> dict[str, str]:
    pair = f"run={names['prior']}&run={names['expert']}"
    return {
        "runs": "/",
        "run": f"/run/{names['prior']}",
        "filtered": f"/run/{names['prior']}?outcome=lost&text=put",
        "episode": f"/run/{names['prior']}/episode/3",
        "inside": f"/run/{names['prior']}/episode/3?trace=1",
        "comparison": f"/compare?{pair}",
        "side": f"/compare/episode?{pair}&a=5&b=5",
        "training": f"/training/{names['training']}",
        "missing": "/nowhere",
    }


@pytest.mark.parametrize("what", list(addresses({"prior": "", "expert": "", "training": ""})))
def test_pages_are_accessible_in_both_colour_schemes(opened: Open, names: dict[str, str], what: str) -> None:
    page = opened.go(addresses(names)[what])
    until(page, "!document.getElementById('pending')")
    assert schemes(page) == {}
    if what == "missing":
        opened.wrong.clear()  # the browser says that it is a 404
    if what in ("episode", "side"):
        page.keyboard.press("?")
        assert page.locator("dialog[open]").count() == 1
        assert schemes(page) == {}


def test_no_page_is_wider_than_a_telephone(browser: Any, url: str, names: dict[str, str]) -> None:
    page = browser.new_context(viewport={"width": 360, "height": 700}).new_page()
    for path in addresses(names).values():
        page.goto(url + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
        assert page.locator(".crumbs-nav").bounding_box()["width"] > 300
    page.context.close()


def test_keys_go_from_turn_to_turn_and_from_episode_to_episode(opened: Open, names: dict[str, str]) -> None:
    path = f"/run/{names['prior']}/episode/3"
    page = opened.go(path)
    for key in ("j", "ArrowRight", "j", "k"):
        page.keyboard.press(key)
    turn = opened.here()
    assert turn.startswith("#turn-")
    assert opened.in_view(turn)
    page.keyboard.press("ArrowLeft")
    assert opened.here() != turn
    open_now = page.locator(opened.here()).get_attribute("open")
    page.keyboard.press("o")
    assert page.locator(opened.here()).get_attribute("open") != open_now
    page.keyboard.press("e")
    count = page.locator("details.turn").count()
    assert page.locator("details.turn[open]").count() in (0, count)
    page.keyboard.press("n")
    page.wait_for_url("**/episode/4")
    page.wait_for_selector("html[data-ready]")
    page.keyboard.press("p")
    page.wait_for_url("**/episode/3")
    page.wait_for_selector("html[data-ready]")
    page.keyboard.press("?")
    page.locator("[data-keys]").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    assert page.url.endswith("/episode/3")


def test_a_deep_link_opens_its_turn(opened: Open, names: dict[str, str]) -> None:
    page = opened.go(f"/run/{names['prior']}/episode/0#turn-2")
    assert page.locator("#turn-2").get_attribute("open") is not None
    assert opened.in_view("#turn-2")


def test_the_first_difference_is_jumped_to(opened: Open, names: dict[str, str]) -> None:
    page = opened.go(addresses(names)["side"])
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.keyboard.press("d")
    assert opened.here() == "#first-difference"
    assert opened.in_view("#first-difference")
    assert page.locator("#first-difference + details[open]").count() == 1


def test_filters_change_the_table_without_a_new_page(opened: Open, names: dict[str, str]) -> None:
    page = opened.go(addresses(names)["run"])
    page.evaluate("window.same = true")
    before = page.locator("#episodes tbody tr").count()
    page.get_by_label("Outcome").select_option("lost")
    until(page, "!document.querySelector('#episodes .won')")
    assert page.locator("#episodes tbody tr").count() < before
    assert "outcome=lost" in page.url
    page.get_by_label("Text of the task").fill("dev/9999")
    until(page, "document.querySelectorAll('#episodes tbody tr').length === 0")
    assert page.evaluate("window.same") is True


def test_two_runs_are_chosen_in_the_list(opened: Open, names: dict[str, str]) -> None:
    page = opened.go("/")
    button = page.get_by_role("button", name="Compare the two chosen")
    assert button.is_disabled()
    for box in page.locator("input[name=run]").all():
        box.check()
    button.click()
    page.wait_for_selector("#flips")


def test_colours_are_switched_and_kept(opened: Open, names: dict[str, str]) -> None:
    page = opened.go("/")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    for _ in range(2):
        page.locator("[data-theme-switch]").click()
    assert page.evaluate(ground) != light
    dark = page.evaluate(ground)
    page = opened.go(f"/training/{names['training']}")
    assert page.evaluate(ground) == dark
    assert page.locator(".uplot").count() >= 6


def test_a_command_is_copied(browser: Any, url: str, names: dict[str, str]) -> None:
    one = Open(browser, url, permissions=["clipboard-read", "clipboard-write"])
    page = one.go(f"/run/{names['prior']}/episode/3")
    page.locator("[data-copy]").first.click()
    until(page, "document.getElementById('said').textContent === 'Copied.'")
    assert page.evaluate("navigator.clipboard.readText()").endswith("prior/records/000003.jsonl")
    one.context.close()


@pytest.mark.parametrize("what", list(addresses({"prior": "", "expert": "", "training": ""})))
def test_pages_fit_a_phone(browser: Any, url: str, names: dict[str, str], what: str) -> None:
    one = Open(browser, url)
    one.page.set_viewport_size({"width": 390, "height": 800})
    page = one.go(addresses(names)[what])
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("header").bounding_box()["height"] < 220  # a path in it may take another line
    one.context.close()


def test_pages_work_without_scripts(browser: Any, url: str, names: dict[str, str]) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{url}/run/{names['prior']}")
    page.get_by_label("Outcome").select_option("lost")
    page.get_by_role("button", name="Filter").click()
    assert "outcome=lost" in page.url
    page.locator("#episodes tbody a").first.click()
    assert page.locator("details.turn").count() > 3
    context.close()


class Slow:
    """Waits in every turn, so that a run can be watched."""

    def reset(self, spec: Any, task: Any) -> None:
        """Nothing is kept."""

    def act(self, observation: Any) -> str:
        time.sleep(0.02)
        return "look"


def test_a_run_is_followed_while_it_is_played(browser: Any, tmp_path: Path) -> None:
    config = RunConfig(
        "household", "tests.view.test_browser:Slow", episodes=14, options={"limit": 10}, out=tmp_path / "runs" / "slow"
    )
    playing = threading.Thread(target=evaluate, args=(config,))
    playing.start()
    end = time.monotonic() + 60
    while not (tmp_path / "runs" / "slow" / "plan.json").exists() and time.monotonic() < end:
        time.sleep(0.02)
    with background([tmp_path / "runs"]) as url:
        one = Open(browser, url)
        page = one.go("/")
        page.locator("#list a").first.click()
        page.wait_for_selector("html[data-ready]")
        assert "running" in page.locator("#live").inner_text()
        page.evaluate("window.same = true")
        before = page.locator("#episodes tbody tr").count()
        until(page, f"document.querySelectorAll('#episodes tbody tr').length > {before}")
        playing.join()
        until(page, "document.getElementById('live').innerText.includes('complete')")
        assert page.locator("#episodes tbody tr").count() == 14
        assert page.evaluate("window.same") is True
        one.asked.clear()
        page.wait_for_timeout(3_000)
        assert one.asked == []  # it has ended: nobody asks any more
        one.context.close()
        assert one.wrong == []


def test_hostile_words_do_nothing(browser: Any, played: Callable[..., Path], tmp_path: Path) -> None:
    folder = played("hostile", Hostile())
    with background([folder]) as url:
        one = Open(browser, url)
        page = one.go("/")
        page.locator("#list a").first.click()
        page.wait_for_selector("html[data-ready]")
        page.locator("#episodes tbody a").first.click()
        page.wait_for_selector("html[data-ready]")
        page.keyboard.press("e")
        page.wait_for_timeout(300)
        assert page.locator(".unseen").count() > 4
        assert page.locator("main script, main img, main iframe").count() == 0
        assert schemes(page) == {}
        one.context.close()
        assert one.wrong == []


@pytest.mark.parametrize("what", ["runs", "run", "inside", "comparison", "side", "training"])
def test_an_exported_page_is_whole(browser: Any, made: Path, names: dict[str, str], tmp_path: Path, what: str) -> None:
    pages = Pages([made])
    pair = [names["prior"], names["expert"]]
    made_page = {
        "runs": lambda: pages.runs({}),
        "run": lambda: pages.run(names["prior"], {}, rows=1000),
        "inside": lambda: pages.episode(names["prior"], 3, {"trace": "1"}, whole=True),
        "comparison": lambda: pages.compare(pair, {}, wait=60),
        "side": lambda: pages.side(pair, {"a": "5", "b": "5"}),
        "training": lambda: pages.training(names["training"]),
    }[what]()
    file = tmp_path / "page.html"
    file.write_text(exported(made_page), encoding="utf-8")
    pages.shelf.close()
    one = Open(browser, offline=True)
    page = one.go(file.as_uri())
    assert one.asked == [file.as_uri()]
    assert schemes(page) == {}
    assert page.locator("a[href]:not([href^='#'])").count() == 0
    if what == "training":
        assert page.locator(".uplot canvas").count() >= 6
    if what == "inside":
        page.keyboard.press("j")
        assert one.here().startswith("#turn-")
    one.context.close()
    assert one.wrong == []


def test_a_page_can_be_exported_from_itself(opened: Open, names: dict[str, str]) -> None:
    page = opened.go(f"/run/{names['prior']}?outcome=lost")
    with page.expect_download() as saved:
        page.get_by_role("link", name="Export").click()
    text = Path(saved.value.path()).read_text()
    assert saved.value.suggested_filename.endswith(".html")
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "").replace(
        "https://github.com/leeoniya/uPlot", ""
    )
