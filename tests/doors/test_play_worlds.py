"""The playground where worlds live elsewhere: in a process, a file, with another worker; and as code."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from html import unescape

import httpx
import pytest

from agentenvs_servers.app import make_app
from agentenvs_servers.doors.opening import open_doors
from agentenvs_servers.journal.opening import open_journal
from agentenvs_servers.keeping import Journal
from agentenvs_servers.run import background
from agentenvs_servers.settings import Settings
from tests.doors.hand import Hand, by_program, winning
from tests.servers.wire import Wire


@pytest.fixture
def anyio_backend():
    return "asyncio"


def worker(file, number, *, shared, settings=None):
    journal = Journal(open_journal(str(file), fresh_epoch=not number), f"{number:08x}", shared=shared)
    app = make_app(["household", "clerk"], settings or Settings(), journal=journal)
    open_doors(app)
    return app.handlers.hall, httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server")


@pytest.mark.anyio
async def test_two_workers_show_and_play_one_episode(tmp_path):
    actions, record = winning("household", "builtin", 0)
    (hall, http), (other_hall, other_http) = [worker(tmp_path / "j.db", number, shared=True) for number in range(2)]
    hand = Hand(http)
    page = await hand.begin("household", "builtin", 0)
    for number, action in enumerate(actions[:-1], 1):
        hand.http = (other_http, http)[number % 2]
        await hand.go(page.path)
        page = await hand.say(action)
        assert f"turn {number}" in page.words
        assert "not kept here" not in page.words
    await hand.say("nonsense")
    hand.http = http
    await hand.go(page.path)
    page = await hand.press("Take the last turn back")
    await hand.say(actions[-1])
    assert await hand.record() == record
    hand.http = other_http
    await hand.go(page.path)
    assert await hand.record() == record
    for one in (hall, other_hall):
        await one.close()


@pytest.mark.anyio
async def test_an_episode_goes_on_with_the_next_server_and_is_seen_whole(tmp_path):
    hall, http = worker(tmp_path / "j.db", 0, shared=False)
    hand = Hand(http)
    await hand.begin("clerk", "train", 3)
    page = await hand.press("Say it", {"message": "Hello"})
    words = re.search("Customer: (.*)", page.words.split("The other speaker")[1])[0]
    await hall.close()
    hall, hand.http = worker(tmp_path / "j.db", 1, shared=False)
    page = await hand.go(page.path)
    assert page.words.count(words) >= 2  # now, and in the list of turns: the effect was fed back
    assert "Customer: Hello, I want my money back." in page.words
    await hand.press("Give up this episode")
    assert words in hand.page.words
    await hall.close()


@pytest.mark.anyio
async def test_a_world_in_a_process():
    wire = Wire(["slow_tool"], Settings())
    open_doors(wire.app)
    hand = Hand(wire.http)
    await hand.begin("slow_tool", "train", 0)
    page = await hand.call("add", count="2")
    assert "turn 1" in page.words
    page = await hand.press("Give up this episode")
    assert "not kept here" not in page.words
    assert await hand.record() == by_program("slow_tool", "train", 0, [{"tool": "add", "arguments": {"count": 2}}])
    await wire.hall.close()


@pytest.mark.anyio
async def test_a_world_of_ones_own_is_won_by_its_buttons(cli_init):
    wire = Wire([cli_init], Settings())
    open_doors(wire.app)
    hand = Hand(wire.http)
    page = await hand.go("/play")
    await hand.go(next(link for name, link in page.links.items() if link.startswith("/play/worlds/")))
    page = await hand.press("Play it", {"split": "train", "index": "4"})
    actions, record = winning(cli_init, "train", 4)
    for number in actions:
        page = await hand.press(number)
    assert "Won · reward 1" in page.words
    assert await hand.record() == record
    await wire.hall.close()


@pytest.fixture
def cli_init(tmp_path, monkeypatch, as_before):
    """The world that ``agentenvs init --minimal`` writes."""
    monkeypatch.chdir(tmp_path)
    subprocess.run([sys.executable, "-m", "agentenvs.cli", "init", "won_by_hand", "--minimal"], check=True)
    return "./won_by_hand.py"


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
def test_the_programs_of_an_episode_play_it_again(tmp_path):
    token = "a-token-of-enough-length"
    with background(["household"], Settings(tokens=(token,))) as url, httpx.Client(base_url=url) as http:
        http.headers["authorization"] = f"Bearer {token}"
        actions = [
            "look",
            'say "it\'s" $HOME `ls` \\',
            {"tool": "look", "arguments": {}},
            17,
            {"odd": None, "flag": True},
        ]
        made = {"env": "household", "key": "one", "task": {"split": "builtin", "index": 3}, "options": {"limit": 9}}
        form = http.post("/v1/sessions", json=made).json()
        for turn, action in enumerate(actions, 1):
            step = {"episode": form["episode"], "turn": turn, "action": action}
            http.post(f"/v1/sessions/{form['session']}/step", json=step).raise_for_status()
        page = http.get(f"/play/sessions/{form['session']}/code").text
        found = {
            name: unescape(re.search(rf'id="{name}" tabindex.*?>(.*?)</pre>', page, re.DOTALL)[1])
            for name in ("python", "curl")
        }
        surroundings = {"AGENTENVS_TOKEN": token, "PATH": os.environ["PATH"], "PYTHONPATH": ":".join(sys.path)}
        for name, command in (("python", [sys.executable, "-c"]), ("curl", ["sh", "-ec"])):
            ran = subprocess.run(
                [*command, found[name]], cwd=tmp_path, env=surroundings, capture_output=True, text=True, timeout=120
            )
            assert ran.returncode == 0, ran.stderr
            assert token not in found[name]
            assert form["session"] not in found[name]
            assert "You are in the middle of a room." in ran.stdout
        assert (tmp_path / "record.jsonl").read_bytes() == by_program("household", "builtin", 3, actions, limit=9)
        assert json.loads(http.get("/v1/envs").text)
