"""The web door in a real browser, scripts switched off: an episode by clicks has the record of the same one by text."""

import os
import shutil

import httpx
import pytest

from agentenvs_servers.run import background
from agentenvs_servers.settings import Settings

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install playwright)")
CHROMIUM = os.environ.get("AGENTENVS_TEST_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the PATH (apt-get install chromium)"),
]


@pytest.fixture(scope="module")
def url():
    with background(["webshop"], Settings(doors="v1,web")) as address:
        yield address


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as api:
        made = api.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield made
        made.close()


def begin(url, profile):
    body = {
        "env": "webshop",
        "key": f"browser-{profile}-{os.urandom(6).hex()}",
        "options": {"profile": profile, "products": 1000},
        "task": {"split": "train", "index": 2},
    }
    return httpx.post(f"{url}/v1/sessions", json=body).raise_for_status().json()


def record(url, form):
    session = f"{url}/v1/sessions/{form['session']}"
    return httpx.get(f"{session}/record").raise_for_status().content


@pytest.mark.parametrize("profile", ["compat", "native"])
def test_an_episode_by_clicks_equals_the_same_one_by_text(url, browser, profile):
    clicked = begin(url, profile)
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(f"{url}/v1/agent/{clicked['agent_key']}/web")
    assert page.locator("#task").inner_text() == clicked["task"]["instruction"]
    actions = ["search[table lamp]"]
    page.get_by_label("Search the shop").fill("table lamp")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("button", name="Next >").click()
    actions.append("click[next >]")
    product = page.locator("ol li button").first
    actions.append(f"click[{product.inner_text().lower()}]")
    product.click()
    value = page.locator("fieldset").first.locator("button:not([disabled])").first
    name = value.inner_text()
    actions.append(f"click[{name}]")
    value.click()
    assert page.locator("button[aria-pressed=true]").inner_text() == name
    page.get_by_role("button", name="Features").click()
    assert page.locator("main p").count() > 3
    page.get_by_role("button", name="< Prev").click()
    page.get_by_role("button", name="Buy Now").click()
    actions += ["click[features]", "click[< prev]", "click[buy now]"]
    assert page.locator("#ended").inner_text().startswith("The episode has ended. Reward: ")

    told = begin(url, profile)
    for turn, action in enumerate(actions, 1):
        step = {"episode": told["episode"], "turn": turn, "action": action}
        last = httpx.post(f"{url}/v1/sessions/{told['session']}/step", json=step).raise_for_status().json()
    assert last["terminated"]
    assert record(url, clicked) == record(url, told)


def test_an_old_page_plays_nothing(url, browser):
    form = begin(url, "native")
    context = browser.new_context(java_script_enabled=False)
    pages = [context.new_page(), context.new_page()]
    for page in pages:
        page.goto(f"{url}/v1/agent/{form['agent_key']}/web")
    for page, words in zip(pages, ("shoes", "lamp"), strict=True):
        page.get_by_label("Search the shop").fill(words)
        page.get_by_role("button", name="Search").click()
        assert "Results" in page.title()
    assert pages[0].locator("ol").inner_text() == pages[1].locator("ol").inner_text()
    assert httpx.get(f"{url}/v1/sessions/{form['session']}").json()["turn"] == 1
