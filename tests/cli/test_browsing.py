"""``play --browser``: a server for one episode, its page handed to a browser, its outcome told."""

import itertools
import json
import re
import webbrowser

import httpx
import pytest

from agentenvs.cli import browsing
from agentenvs.core.record import read_records

SHOP = ("webshop", "-o", "products=1000", "-o", "limit=1")


@pytest.fixture
def clicks(monkeypatch):
    """A browser that plays one action and has shown the pages it saw."""
    pages = []

    def visit(address):
        pages.append(httpx.get(address).text)
        form = {"turn": 1, "before": "search[", "action": "lamp", "after": "]"}
        pages.append(httpx.post(address, data=form, follow_redirects=True).text)
        return True

    monkeypatch.setattr(webbrowser, "open", visit)
    return pages


def test_an_episode_is_played_in_the_browser(cli, clicks, tmp_path):
    record = tmp_path / "mine.jsonl"
    ran = cli("play", *SHOP, "--browser", "--record", str(record))
    assert ran.code == 0, ran.err
    assert "/web" in ran.err
    assert "truncated after 1 turns; reward 0; lost" in ran.out
    assert "Search the shop" in clicks[0]
    assert "The episode has ended." in clicks[1]
    (kept,) = read_records(record)
    assert kept.turns[0]["action"] == "search[lamp]"


@pytest.fixture
def forms(monkeypatch):
    """A browser that plays one action by the form of its page, and another tab that gives up."""
    pages = []

    def visit(address):
        pages.append(httpx.get(address).text)
        episode = re.search(r'name="episode" value="([^"]+)"', pages[0])[1]
        for path, form in (("", {"episode": episode, "turn": 1, "do": "text", "text": "look"}), ("/end", {"x": ""})):
            pages.append(httpx.post(address + path, data=form, follow_redirects=True).text)
        return True

    monkeypatch.setattr(webbrowser, "open", visit)
    return pages


def test_a_world_without_pages_is_played_by_forms(cli, forms, tmp_path):
    record = tmp_path / "mine.jsonl"
    ran = cli("play", "household", "--split", "builtin", "--browser", "--record", str(record))
    assert ran.code == 0, ran.err
    assert "/play/sessions/" in ran.err
    assert "abandoned after 1 turns; reward 0; lost" in ran.out
    assert "An action in words" in forms[0]
    assert "You are in the middle of a room." in forms[1]
    (kept,) = read_records(record)
    assert kept.turns[0]["action"] == "look"


@pytest.mark.parametrize(("endings", "interrupted"), [([None, None], True), ([None, "terminated"], False)])
def test_the_page_stays_for_a_person_until_ctrl_c(monkeypatch, endings, interrupted):
    answers, waits = iter(endings), itertools.count(1)

    def asked(request):
        return httpx.Response(200, json={"ending": next(answers)})

    def sleep(seconds):
        if next(waits) == len(endings):
            raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", sleep)
    with httpx.Client(transport=httpx.MockTransport(asked), base_url="http://server") as http:
        assert browsing._waited(http, "/s", stays=True) is interrupted


def test_the_outcome_as_json(cli, clicks):
    ran = cli("play", *SHOP, "--browser", "--json")
    assert json.loads(ran.out)["ending"] == "truncated"


def test_a_browser_plays_on_no_other_server(cli):
    ran = cli("play", "webshop", "--browser", "--url", "http://127.0.0.1:9")
    assert ran.code != 0
    assert "--browser starts a server of its own" in ran.err


def test_what_the_server_refuses_is_told(cli, clicks):
    ran = cli("play", *SHOP, "--browser", "--split", "nowhere")
    assert ran.code != 0
    assert "the episode cannot be played" in ran.err
