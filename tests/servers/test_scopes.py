"""Three names, and what the holder of each may do; tokens; and that no secret stands where it must not."""

from __future__ import annotations

import hmac
import json
import logging
from typing import Any

import pytest

from agentenvs.core.errors import ConfigError
from agentenvs_servers import auth
from agentenvs_servers.keyring import Keyring
from agentenvs_servers.settings import Settings
from tests.servers.rooms import SECRET
from tests.servers.wire import Play, problem

pytestmark = pytest.mark.anyio

TOKEN = "a-token-of-many-characters"
OTHER = "another-token-of-as-many"


async def test_an_agent_key_plays_its_episode(wire):
    play = await wire.play()
    seen = (await play.agent()).json()
    assert (seen["episode"], seen["turn"], seen["ended"], seen["last"]) == (play.episode, 0, False, None)
    assert (seen["observation"], seen["task"]) == (play.form["observation"], play.form["task"])
    assert ([tool["name"] for tool in seen["tools"]], seen["accepts"], seen["max_calls"]) == (
        ["look"],
        ["text", "tool"],
        1,
    )
    last = (await play.agent_step(1, "win")).json()
    seen = (await play.agent()).json()
    assert (seen["turn"], seen["ended"], seen["last"], seen["observation"]) == (1, True, last, last["observation"])
    assert SECRET not in json.dumps(seen)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("DELETE", ""),
        ("POST", "/reset"),
        ("POST", "/step"),
        ("GET", "/trace"),
        ("GET", "/record"),
        ("POST", "/ping"),
    ],
)
async def test_an_agent_key_controls_nothing(wire, method, path):
    play = await wire.play(trace=True)
    headers = {"authorization": f"Bearer {play.agent_key}"}
    problem(await wire.http.request(method, play.path + path, headers=headers), "wrong_scope")
    problem(await wire.http.request(method, f"/v1/sessions/{play.agent_key}{path}"), "wrong_scope")
    problem(await wire.http.request(method, f"/v1/sessions/{play.agent_key}{path}", headers=headers), "wrong_scope")
    assert (await play.status()).json()["open"] is True


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/envs"), ("GET", "/v1/envs/room"), ("POST", "/v1/sessions")])
async def test_an_agent_key_is_no_token(wire, method, path):
    headers = {"authorization": f"Bearer {(await wire.play()).agent_key}"}
    problem(await wire.http.request(method, path, headers=headers), "wrong_scope")


async def test_a_session_is_no_agent_key(wire):
    play = await wire.play()
    for name in (play.form["session"], play.episode, "", "x" * 60, None):
        answer = await wire.get("/v1/agent", name)
        problem(answer, "unauthorized")
        assert answer.headers["www-authenticate"] == "Bearer"
    for header in ("Bearer", "Bearer ", f"Basic {play.agent_key}", play.agent_key):
        problem(await wire.http.get("/v1/agent", headers={"authorization": header}), "unauthorized")
    answer = await wire.http.get("/v1/agent", headers={"authorization": f"bearer   {play.agent_key} "})
    assert answer.status_code == 200


async def test_an_old_agent_key_learns_nothing_of_the_next_episode(wire):
    play = await wire.play()
    follower = await play.restart()
    for answer in (await play.agent(), await play.agent_step(1, "look")):
        problem(answer, "closed")
        assert follower.episode not in answer.text
    assert (await follower.status()).json()["turn"] == 0
    await follower.close()
    for answer in (await play.agent(), await play.agent_step(1, "look")):
        problem(answer, "closed")
        assert follower.episode not in answer.text
    problem(await wire.get("/v1/agent", follower.agent_key), "closed")


async def test_a_server_with_tokens_asks_for_one(serve):
    wire = serve(tokens=(TOKEN, OTHER))
    for wrong in (None, TOKEN[:-1], TOKEN + "x", "x", TOKEN.upper()):
        for path in ("/v1/envs", "/v1/envs/room", "/v1/sessions/x"):
            answer = await wire.get(path, wrong)
            problem(answer, "unauthorized")
            assert answer.headers["www-authenticate"] == "Bearer"
    for token in (TOKEN, OTHER):
        answer = await wire.post("/v1/sessions", {"env": "room", "key": "mine"}, token)
        assert answer.status_code == 201
        play = Play(wire, answer.json())
        problem(await play.step(1, "look"), "unauthorized")
        assert (await wire.get(play.path, token)).status_code == 200
        assert (await play.agent_step(1, "look")).status_code == 200
    assert (await wire.get("/health")).json() == {"status": "healthy"}


async def test_the_session_of_one_token_is_no_secret_to_another_that_knows_its_name(serve):
    wire = serve(tokens=(TOKEN, OTHER))
    play = Play(wire, (await wire.post("/v1/sessions", {"env": "room", "key": "mine"}, TOKEN)).json())
    assert (await wire.get(play.path, OTHER)).status_code == 200


def test_every_token_is_compared_in_constant_time(monkeypatch):
    compared: list[Any] = []

    def compare(one: Any, two: Any) -> bool:
        compared.append((one, two))
        return one == two

    monkeypatch.setattr(hmac, "compare_digest", compare)
    keyring = Keyring((TOKEN, OTHER))
    assert [keyring.find(token) is not None for token in (TOKEN, OTHER, "x")] == [True, True, False]
    assert len(compared) == 3
    assert {len(item) for pair in compared for item in pair} == {32}


@pytest.mark.parametrize(
    "token", ["short", "has a blank in it, and is long", "ä" * 20, "line\nline-line-line-line", ""]
)
def test_weak_tokens_are_refused(token):
    with pytest.raises(ConfigError, match="too weak") as caught:
        Settings(tokens=(token,))
    assert "secrets.token_urlsafe" in caught.value.fix


@pytest.mark.parametrize("name", ["max_sessions", "idle_ttl", "body_seconds", "retained_bytes"])
def test_limits_are_above_nothing(name):
    with pytest.raises(ConfigError, match=f"the setting {name} is 0"):
        Settings(**{name: 0})


def test_settings_show_no_token():
    assert TOKEN not in repr(Settings(tokens=(TOKEN,)))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "[2001:db8::1]", "example.org", ""])
def test_beyond_this_machine_a_token_is_needed(host):
    with pytest.raises(ConfigError, match="needs a token") as caught:
        auth.refuse_open_doors(host, Settings(), insecure=False)
    assert "--insecure" in caught.value.fix
    auth.refuse_open_doors(host, Settings(), insecure=True)
    auth.refuse_open_doors(host, Settings(tokens=(TOKEN,)), insecure=False)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost"])
def test_on_this_machine_none_is(host):
    auth.refuse_open_doors(host, Settings(), insecure=False)


async def test_no_secret_stands_in_a_log_or_header(serve, caplog):
    caplog.set_level(logging.DEBUG)
    wire = serve("room", tokens=(TOKEN,))
    answers = [await wire.post("/v1/sessions", {"env": "room", "key": "mine", "ttl": 5}, TOKEN)]
    play = Play(wire, answers[0].json())
    for action in ("look", "raise"):
        answers += [await play.agent_step(len(answers), action)]
    answers += [await wire.post(f"{play.path}/reset", {"key": "k", "ends": play.episode}, TOKEN)]
    follower = Play(wire, {**play.form, **answers[-1].json()})
    answers += [await play.agent(), await follower.agent(), await wire.get(play.path, TOKEN)]
    answers += [await wire.get(play.path, "wrong-token-of-many-characters"), await wire.get(f"{play.path}/none", TOKEN)]
    wire.clock.now += 6
    answers += [await wire.get(play.path, TOKEN)]
    said = [str(record.__dict__) for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))]
    said += [json.dumps(dict(answer.headers)) for answer in answers]
    assert any("RuntimeError at rooms.py" in line for line in said)
    for secret in (SECRET, TOKEN, play.form["session"], play.agent_key, follower.agent_key):
        assert [line for line in said if secret in line] == []
    assert [answer.text for answer in answers if SECRET in answer.text or TOKEN in answer.text] == []
