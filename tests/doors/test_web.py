"""The web door without a browser: pages, forms, turns played once, nothing of the player's or the shop's as markup."""

import html
import json
import re

import pytest

from agentenvs.core.errors import ConfigError
from agentenvs_servers.doors.opening import open_doors
from agentenvs_servers.settings import Settings
from tests.servers.wire import Wire

pytestmark = pytest.mark.anyio

SHOP = {"profile": "native", "products": 1000}
FORM = "application/x-www-form-urlencoded"


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
async def wire():
    made = Wire(["webshop", "household"], Settings(doors="v1,web"))
    open_doors(made.app)
    yield made
    await made.hall.close()
    await made.http.aclose()


async def begin(wire, env="webshop", options=SHOP, task=None):
    play = await wire.play(env, options=options, task=task or {"split": "train", "index": 0})
    return f"/v1/agent/{play.form['agent_key']}/web", play


async def act(wire, path, turn, action, before="", after="", **headers):
    body = {"turn": turn, "before": before, "action": action, "after": after}
    return await wire.http.post(path, data=body, headers=headers)


async def test_a_page_is_a_whole_document_with_the_task(wire):
    path, play = await begin(wire)
    answer = await wire.http.get(path)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["referrer-policy"] == "same-origin"
    text = answer.text
    assert text.lstrip().startswith("<!DOCTYPE html>")
    assert html.escape(play.form["task"]["instruction"], quote=False) in html.unescape(text) or "Task:" in text
    assert "<script" not in text
    assert text.count("<h1>") == 1
    assert re.search(r"<label>.*<input type=\"text\"", text)


async def test_an_episode_by_forms_has_the_record_of_the_same_one_by_text(wire):
    actions = ["search[lamp]", "click[next >]", "click[nothing there]", "click[< prev]"]
    path, by_forms = await begin(wire)
    _, by_text = await begin(wire)
    for turn, action in enumerate(actions, 1):
        answer = await act(wire, path, turn, action)
        assert (answer.status_code, answer.headers["location"]) == (303, path)
        await by_text.step(turn, action)
    records = []
    for play in (by_forms, by_text):
        session = f"/v1/sessions/{play.form['session']}"
        await wire.http.delete(session)
        records.append((await wire.http.get(f"{session}/record")).content)
    assert records[0] == records[1]
    assert records[0].count(b"\n") == len(actions) + 2


async def test_a_form_sent_twice_is_played_once(wire):
    path, _ = await begin(wire)
    for _ in range(3):
        assert (await act(wire, path, 1, "lamp", "search[", "]")).status_code == 303
    assert (await act(wire, path, 1, "something else")).status_code == 303
    assert "Turn 1." in (await wire.http.get(path)).text


async def test_what_is_refused_says_so_on_the_page(wire):
    path, _ = await begin(wire)
    await act(wire, path, 1, "click[nothing there]")
    assert "There is nothing of that name to click on this page." in (await wire.http.get(path)).text


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{ 1111 * 1111 }}"])
async def test_markup_is_shown_as_words(wire, text):
    path, _ = await begin(wire)
    await act(wire, path, 1, text, "search[", "]")
    page = (await wire.http.get(path)).text
    assert text not in page or "{{" in text
    assert "1234321" not in page


@pytest.fixture
def evil(tmp_path, monkeypatch):
    """Markup that a folder of data, which the server is given, has in all its fields."""
    evil = "<script>alert('x')</script>\"><img src=x onerror=alert(1)> {{ 1111 * 1111 }}"
    row = {
        "asin": "B000000001", "name": evil, "full_description": evil, "small_description": [evil], "pricing": "$5",
        "product_category": evil, "category": evil, "query": "lamp",
        "Reviews": [{"title": evil, "body": evil, "score": 3}],
        "customization_options": {evil: [{"value": evil}, {"value": "plain"}]},
    }  # fmt: skip
    note = {"attributes": [evil], "instruction": evil, "instruction_attributes": [evil]}
    (tmp_path / "items_shuffle_1.json").write_text(json.dumps([row]))
    (tmp_path / "items_ins_v2_1.json").write_text(json.dumps({"B000000001": note}))
    monkeypatch.setenv("WEBSHOP_DATA", str(tmp_path))
    return evil


async def test_markup_of_a_shops_files_is_shown_as_words(evil, wire):
    options = {"profile": "native", "attributes_page": True}
    path, _ = await begin(wire, options=options, task={"split": "synthetic", "index": 0})
    shown = set()
    actions = [
        "search[script]",
        "click[b000000001]",
        f"click[{evil.lower().replace('/', ' | ')}]",
        "click[description]",
    ]
    for sub in ("features", "reviews", "attributes"):
        actions += ["click[< prev]", f"click[{sub}]"]
    for turn, action in enumerate(actions, 1):
        assert (await act(wire, path, turn, action)).status_code == 303
        page = (await wire.http.get(path)).text
        assert f"Turn {turn}." in page
        assert "<script" not in page
        assert "<img" not in page
        assert "1234321" not in page
        shown |= {word for word in ("alert(1)", "&lt;script&gt;", 'aria-pressed="true"') if word in page}
    assert len(shown) == 3


async def test_any_environment_has_a_page(wire):
    path, _ = await begin(wire, "household", {}, {"split": "builtin", "index": 0})
    page = (await wire.http.get(path)).text
    assert "Household" in page
    assert 'value="look"' in page
    await act(wire, path, 1, "look")
    assert "Turn 1." in (await wire.http.get(path)).text


async def test_the_end_is_told_and_nothing_goes_on(wire):
    path, play = await begin(wire, options={"products": 1000, "limit": 2})
    await act(wire, path, 1, "search[lamp]")
    await act(wire, path, 2, "search[chair]")
    page = (await wire.http.get(path)).text
    assert "The episode has ended. Reward: 0.0." in page
    assert 'name="action" required' not in page
    assert (await act(wire, path, 3, "search[shoe]")).status_code == 303
    assert (await wire.http.get(f"/v1/sessions/{play.form['session']}")).json()["turn"] == 2


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"turn=1&action=x", "text/plain", 415),
        (b"turn=x&action=y", FORM, 422),
        (b"turn=0&action=y", FORM, 422),
        (b"action=y", FORM, 422),
        (b"", FORM, 422),
        (b"turn=1&action=\xff", FORM, 422),
        (b"&".join(b"a%d=1" % at for at in range(99)), FORM, 422),
    ],
)
async def test_what_is_no_form_of_a_page(wire, body, kind, status):
    path, _ = await begin(wire)
    answer = await wire.http.post(path, content=body, headers={"content-type": kind})
    assert answer.status_code == status
    assert "Turn 0." in (await wire.http.get(path)).text


async def test_strangers_are_refused(wire):
    path, _ = await begin(wire)
    assert (await wire.http.get("/v1/agent/nobody/web")).status_code == 401
    assert (await act(wire, path, 1, "search[x]", origin="http://elsewhere")).status_code == 403
    assert "Turn 0." in (await wire.http.get(path)).text


async def test_a_session_that_is_over_has_a_page_for_people(wire):
    path, play = await begin(wire)
    await wire.http.delete(f"/v1/sessions/{play.form['session']}")
    for answer in (
        await wire.http.get(path, headers={"accept": "text/html"}),
        await act(wire, path, 1, "search[x]", accept="text/html,*/*;q=0.8"),
    ):
        assert answer.status_code == 410
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert "This episode is over" in answer.text
    assert (await wire.http.get(path)).json()["code"] == "closed"
    answer = await wire.http.get("/v1/agent/nobody/web", headers={"accept": "text/html"})
    assert (answer.status_code, "This page needs a key" in answer.text) == (401, True)


def test_the_door_needs_the_native_one():
    with pytest.raises(ConfigError, match="the web door needs"):
        Settings(doors="web")
