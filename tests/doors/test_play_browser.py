"""The playground in a real browser: with and without scripts, by the keyboard alone, back and forth, seen by axe."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import httpx
import pytest

from agentenvs_servers.run import background
from agentenvs_servers.settings import Settings
from tests.axe import schemes
from tests.doors.hand import by_program, winning

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install playwright)")
CHROMIUM = os.environ.get("AGENTENVS_TEST_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")

PICTURE = Path(__file__).parents[2] / "docs/images/playground.png"
MOST_PICTURE_BYTES = 150_000

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the PATH (apt-get install chromium)"),
]


@pytest.fixture(scope="module")
def url():
    settings = Settings(doors="v1,web,play")
    with background(["household", "webshop", "ledger", "clerk"], settings, {"products": 1000}) as address:
        yield address


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as api:
        made = api.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield made
        made.close()


@pytest.fixture
def page(browser):
    """A page that complains of scripts that fail and of everything its policy forbids."""
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    made, errors = context.new_page(), []
    made.on("pageerror", lambda error: errors.append(str(error)))
    made.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    yield made
    context.close()
    assert errors == []


def begin(page, url, env, split, index):
    page.goto(f"{url}/play/worlds/{env}")
    page.get_by_label("split", exact=True).select_option(split)
    page.get_by_label("index").fill(str(index))
    page.get_by_role("button", name="Play it").click()
    page.wait_for_url("**/play/sessions/**")


def at_turn(page, number):
    page.get_by_text(f"turn {number}", exact=False).first.wait_for()
    page.wait_for_function(f"document.querySelector('header.top .note').textContent.endsWith('turn {number}')")


def record(page, url):
    session = page.url.split("?")[0].rsplit("/", 1)[1]
    return httpx.get(f"{url}/v1/sessions/{session}/record").raise_for_status().content


def test_an_episode_is_won_without_scripts(url, browser):
    actions, known = winning("household", "builtin", 2)
    page = browser.new_context(java_script_enabled=False).new_page()
    begin(page, url, "household", "builtin", 2)
    for action in actions:
        page.get_by_text("What can be done now").click()
        page.locator("details").get_by_role("button", name=action, exact=True).click()
    assert page.get_by_role("heading", name="Won").is_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the record").click()
    assert download.value.path().read_bytes() == known == record(page, url)
    assert download.value.suggested_filename.endswith(".jsonl")


def test_the_shop_is_played_by_its_tools(url, page):
    begin(page, url, "webshop", "dev", 1)
    page.locator("summary", has_text="Search the shop").click()
    page.get_by_label("query").fill("lamp")
    page.get_by_role("form", name="search").get_by_role("button", name="Call it").click()
    at_turn(page, 1)
    call = {"tool": "search", "arguments": {"query": "lamp"}}
    known = by_program("webshop", "dev", 1, [call], products=1000)
    page.get_by_text("Give up", exact=True).click()
    page.get_by_role("button", name="Give up this episode").click()
    page.get_by_role("heading", name="Lost").wait_for()
    assert record(page, url) == known


def test_by_the_keyboard_alone(url, page):
    begin(page, url, "household", "builtin", 0)
    for number, action in enumerate(("look", "inventory", "dance"), 1):
        page.keyboard.type(action)  # the field has the focus
        page.keyboard.press("Enter")
        at_turn(page, number)
    for key, words in (("ArrowUp", "dance"), ("ArrowUp", "inventory"), ("ArrowDown", "dance"), ("ArrowDown", "")):
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.value") == words
    page.keyboard.type("half")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.value") == "half"
    seen = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.textContent.trim().split(' ')[0]"))
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none" or page.evaluate("document.activeElement === document.body")
    assert {"Do", "What", "go_to", "Give", "Take"} <= seen
    page.get_by_role("button", name="Take the last turn back").focus()
    page.keyboard.press("Enter")
    at_turn(page, 2)


def test_the_back_button_plays_nothing(url, page):
    begin(page, url, "household", "builtin", 0)
    for number, action in enumerate(("look", "inventory"), 1):
        page.get_by_label("An action in words").fill(action)
        page.get_by_role("button", name="Do it").click()
        at_turn(page, number)
    page.go_back()
    page.wait_for_load_state()
    page.reload()
    page.go_forward()
    page.reload()
    at_turn(page, 2)
    assert record_of_so_far(page, url) == 2


def record_of_so_far(page, url):
    session = page.url.split("?")[0].rsplit("/", 1)[1]
    return httpx.get(f"{url}/v1/sessions/{session}").json()["turn"]


def test_a_double_click_plays_once(url, page, browser):
    for scripted in (True, False):
        one = page if scripted else browser.new_context(java_script_enabled=False).new_page()
        begin(one, url, "household", "builtin", 0)
        one.get_by_label("An action in words").fill("look")
        one.get_by_role("button", name="Do it").dblclick()
        at_turn(page, 1) if scripted else one.get_by_text("> look").wait_for()
        assert record_of_so_far(one, url) == 1


def test_two_tabs(url, page):
    begin(page, url, "household", "builtin", 0)
    other = page.context.new_page()
    other.goto(page.url)
    for tab, action in ((page, "look"), (other, "inventory")):
        tab.get_by_label("An action in words").fill(action)
        tab.get_by_role("button", name="Do it").click()
        at_turn(tab, 1)
    assert "what it sent was not played" in other.get_by_role("status").inner_text()
    assert "look" in other.locator("#now").inner_text()


def test_several_calls_and_words(url, page):
    begin(page, url, "ledger", "train", 0)
    tool = page.locator("details", has=page.locator("summary code", has_text="balance"))
    tool.locator("summary").click()
    tool.get_by_label("account").fill("1000")
    tool.get_by_role("button", name="Add to this turn").click()
    assert page.locator("#calls").inner_text().startswith("Calls of this turn 1 of 8")
    page.locator("details[open]").get_by_label("account").fill("2000")
    page.get_by_role("button", name="Play all, this last").click()
    at_turn(page, 1)
    assert page.locator("#now").get_by_text("balance", exact=True).count() == 2
    begin(page, url, "clerk", "train", 0)
    page.keyboard.type("What is the order")
    page.keyboard.press("Enter")
    page.keyboard.type("number?")
    page.keyboard.press("Control+Enter")
    at_turn(page, 1)
    assert "The other speaker" in page.locator("#now").inner_text()


def test_the_programs_are_copied(url, page):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    begin(page, url, "household", "builtin", 0)
    page.get_by_role("link", name="As Python or curl").click()
    page.get_by_role("button", name="Copy").first.click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()").startswith("import agentenvs")


def pages_of(page, url):
    """Yield a name after bringing up each page of the playground."""
    page.goto(url)
    yield "worlds"
    page.goto(f"{url}/play/worlds/household")
    page.locator("summary", has_text="Options").click()
    yield "world"
    page.goto(f"{url}/play/sessions/nothing")
    yield "problem"
    begin(page, url, "ledger", "train", 0)
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    yield "tools"
    page.locator("form", has=page.get_by_label("Action", exact=True)).get_by_role("textbox").fill("{oops")
    page.get_by_role("button", name="Play it", exact=True).click()
    page.get_by_role("alert").wait_for()
    yield "slip"
    page.get_by_role("link", name="As Python or curl").click()
    yield "code"
    begin(page, url, "household", "builtin", 0)
    for number, action in enumerate(winning("household", "builtin", 0)[0], 1):
        page.get_by_label("An action in words").fill(action)
        page.get_by_role("button", name="Do it").click()
        at_turn(page, number)
        if number == 1:
            yield "episode"
    yield "won"


def test_all_can_read_and_use_it_on_a_telephone_too(url, browser):
    page = browser.new_page()
    wrong, wide = {}, {}
    for name in pages_of(page, url):
        if lines := schemes(page):
            wrong[name] = lines
        page.set_viewport_size({"width": 360, "height": 700})
        if (width := page.evaluate("document.documentElement.scrollWidth")) > 360:
            wide[name] = width
        page.set_viewport_size({"width": 1200, "height": 800})
    assert (wrong, wide) == ({}, {})


def test_a_server_that_asks_for_a_token_is_entered_and_left(browser):
    token = "a-token-of-enough-length"
    with background(["household"], Settings(tokens=(token,))) as url:
        page = browser.new_page()
        page.goto(f"{url}/play/worlds/household")
        assert schemes(page) == {}
        page.keyboard.type("a-wrong-token-of-enough-length")
        page.keyboard.press("Enter")
        page.get_by_text("That is no token of this server").wait_for()
        assert schemes(page) == {}
        page.keyboard.type(token)
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Play it").click()
        page.get_by_label("An action in words").fill("look")
        page.get_by_role("button", name="Do it").click()
        at_turn(page, 1)
        assert page.evaluate("document.cookie") == ""
        place = page.url
        page.get_by_role("link", name="All worlds").click()
        page.get_by_role("button", name="Leave").click()
        page.goto(place)
        assert page.get_by_label("Token").is_visible()
        page.context.close()


def test_the_picture_of_the_docs(url, page, tmp_path):
    """Made anew with AGENTENVS_TEST_PICTURES=1."""
    page.set_viewport_size({"width": 1100, "height": 760})
    begin(page, url, "household", "dev", 3)
    actions, _ = winning("household", "dev", 3)
    for number, action in enumerate([actions[0], "open the window", *actions[1:3]], 1):
        page.get_by_label("An action in words").fill(action)
        page.get_by_role("button", name="Do it").click()
        at_turn(page, number)
    file = PICTURE if os.environ.get("AGENTENVS_TEST_PICTURES") else tmp_path / "playground.png"
    file.parent.mkdir(exist_ok=True)
    page.screenshot(path=file)
    assert 10_000 < file.stat().st_size < MOST_PICTURE_BYTES
    assert 10_000 < PICTURE.stat().st_size < MOST_PICTURE_BYTES
