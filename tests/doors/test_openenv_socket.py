"""OpenEnv's socket: an episode is begun by a reset, played in order, resumed by name, and never made up."""

from __future__ import annotations

import json
import time

import pytest
from websockets.exceptions import ConnectionClosedOK, InvalidStatus

from agentenvs.adapters.openenv import OpenEnvEngine, action_schema
from agentenvs_servers.run import background
from agentenvs_servers.settings import Settings
from tests.doors.line import Server


def test_a_step_before_a_reset_is_an_error_and_no_episode(server):
    with server.socket("/room/ws") as socket:
        assert socket.refused("step", {"text": "look"}) == ("SESSION_ERROR", "not_begun")
        assert socket.state() == {"episode_id": None, "step_count": 0}
        assert socket.step(type="list_tools")["observation"]["tools"][0]["name"] == "look"
        assert socket.refused("step", {"text": "look"}) == ("SESSION_ERROR", "not_begun")


def test_an_episode(server):
    with server.socket("/room/ws") as socket:
        first = socket.reset(split="few", index=2, episode_id="mine")
        assert (first["reward"], first["done"], first["observation"]["text"]) == (None, False, "A room.")
        assert first["metadata"]["task"]["ref"] == {"split": "few", "index": 2}
        played = socket.step(text="look")
        assert (played["observation"]["text"], played["reward"], played["done"]) == ("You look.", 0.0, False)
        state = socket.state()
        assert (state["episode_id"], state["step_count"], state["index"]) == ("mine", 1, 2)
        assert socket.step(text="win")["reward"] == 1.0
        assert socket.refused("step", {"text": "look"}) == ("SESSION_ERROR", "episode_ended")
        assert socket.reset()["metadata"]["turn"] == 0
        assert socket.state()["step_count"] == 0


@pytest.mark.parametrize("junk", [{}, {"text": 7}, {"foo": 1}, {"type": "call_tool"}, {"tool": "fly", "arguments": 3}])
def test_nonsense_costs_a_turn_and_is_no_error(server, junk):
    with server.socket("/room/ws") as socket:
        socket.reset(seed=1)
        played = socket.step(**junk)
        assert played["observation"]["invalid"]
        assert socket.state()["step_count"] == 1


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("no json", "INVALID_JSON"),
        ("[1]", "VALIDATION_ERROR"),
        ('{"type": "reset", "data": 3}', "VALIDATION_ERROR"),
        ('{"type": "reset", "more": 3}', "VALIDATION_ERROR"),
        ('{"type": "reset", "data": {"seed": false}}', "VALIDATION_ERROR"),
        ('{"type": "reset", "data": {"split": "none"}}', "VALIDATION_ERROR"),
        ('{"type": "reset", "data": {"split": "%s"}}' % ("x" * 300), "VALIDATION_ERROR"),
        ('{"type": "reset", "data": {"split": "few", "index": 9}}', "VALIDATION_ERROR"),
        ('{"type": "reset", "data": {"limit": "often"}}', "VALIDATION_ERROR"),
        ('{"type": "reset", "data": {"limit": []}}', "VALIDATION_ERROR"),
        ('{"type": "reset", "data": {"split": "vault"}}', "VALIDATION_ERROR"),
        ('{"type": "reset", "data": {"episode_id": "%s"}}' % ("x" * 256), "VALIDATION_ERROR"),
        ('{"type": "dance"}', "UNKNOWN_TYPE"),
    ],
)
def test_what_makes_no_sense_is_an_error_frame(server, frame, code):
    with server.socket("/room/ws") as socket:
        socket.raw.send(frame)
        said = json.loads(socket.raw.recv(timeout=20))
        assert (said["type"], said["data"]["code"]) == ("error", code)
        assert socket.state()["episode_id"] is None


def test_a_failing_environment_is_told_and_can_be_reset(server):
    with server.socket("/room/ws") as socket:
        socket.reset()
        assert socket.refused("step", {"text": "raise"}) == ("EXECUTION_ERROR", "environment_failed")
        socket.reset()
        assert socket.step(text="look")["observation"]["text"] == "You look."


def test_a_seed_fixes_the_episode(server):
    def opening(**data):
        with server.socket("/household/ws") as socket:
            return socket.reset(**data)["observation"], socket.step(text="inventory")["observation"]

    assert opening(seed=5) == opening(seed=5) == opening(split="train", index=5)
    assert opening(seed=5) != opening(seed=6)
    assert opening(split="dev", seed=203) == opening(split="dev", index=3)


def test_a_reset_without_a_seed_tells_what_it_drew(server):
    with server.socket() as socket:
        drawn = [socket.reset()["metadata"]["task"]["ref"]["index"] for _ in range(3)]
        assert len(set(drawn)) == 3
        assert socket.reset(seed=drawn[0])["metadata"]["task"]["ref"]["index"] == drawn[0]


def test_options_and_what_means_nothing_here(server):
    with server.socket() as socket:
        first = socket.reset(seed=1, admissible=True, prompt="hello", limit=None)
        assert first["metadata"]["ignored"] == ["prompt"]
        assert "look" in first["observation"]["admissible"]
        assert socket.reset(seed=1)["observation"]["admissible"] is None


def test_a_tool_is_called_in_their_form_and_in_ours(server):
    with server.socket("/ledger/ws") as socket:
        socket.reset(seed=1)
        theirs = socket.step(type="call_tool", tool_name="balance", arguments={"account": "1000"})["observation"]
        assert (theirs["tool_name"], theirs["result"]["data"], theirs["error"]) == ("balance", {"cents": 0}, None)
        ours = socket.step(tool="balance", arguments={"account": "1000"})["observation"]
        assert ours["data"] == theirs["data"] == [{"tool": "balance", "data": {"cents": 0}}]


def test_a_world_of_messages(server):
    with server.socket("/clerk/ws") as socket:
        socket.reset(seed=1)
        order = socket.step(text="What is the order number?")["observation"]["text"].split()[-1].rstrip(".")
        socket.step(type="call_tool", tool_name="refund", arguments={"order": order})
        ended = socket.step(text="done", end=True)
        assert (ended["reward"], ended["done"]) == (1.0, True)


def test_a_broken_line_can_be_resumed_and_a_goodbye_ends(serve):
    server = serve("room", doors="openenv")
    with server.socket() as socket:
        socket.reset(split="few", index=1)
        socket.step(text="look")
        name = socket.state()["session_id"]
        socket.raw.socket.shutdown(2)
    with server.socket(f"/ws?session_id={name}") as again, server.socket(f"/s/{name}/ws") as too:
        assert again.step(text="look")["metadata"]["turn"] == 2
        assert too.step(text="look")["metadata"]["turn"] == 3
        assert too.refused("reset", {"limit": 1}) == ("VALIDATION_ERROR", "option_refused")
    with server.socket(f"/s/{name}/ws") as again:
        assert again.state()["step_count"] == 3
        with server.socket() as own:
            own.reset()
            gone = own.state()["session_id"]
            own.raw.send('{"type": "close"}')
            with pytest.raises(ConnectionClosedOK):
                own.raw.recv(timeout=20)
    with server.socket(f"/s/{gone}/ws") as lost:
        assert json.loads(lost.raw.recv(timeout=20))["data"]["problem"] == "closed"


def test_a_session_outlives_its_server(tmp_path):
    file = str(tmp_path / "kept.db")
    with background(["room"], Settings(doors="openenv"), journal=file) as url, Server(url).socket() as socket:
        socket.reset(split="few", index=1)
        socket.step(text="look")
        name = socket.state()["session_id"]
        socket.raw.socket.shutdown(2)
    with (
        background(["room"], Settings(doors="openenv"), journal=file) as url,
        Server(url).socket(f"/s/{name}/ws") as on,
    ):
        assert on.step(text="win")["metadata"]["turn"] == 2
        assert on.state()["done"]


def test_a_full_server_says_so_and_the_socket_stays(serve):
    server = serve("room", doors="openenv", max_sessions=1)
    with server.socket() as first, server.socket() as second:
        first.reset()
        assert second.refused("reset") == ("CAPACITY_REACHED", "at_capacity")
        first.raw.send('{"type": "close"}')
        for _ in range(100):
            if second.ask("reset")["type"] == "observation":
                return
            time.sleep(0.05)
        pytest.fail("no slot became free")


def test_an_open_socket_keeps_its_session(serve):
    server = serve("room", doors="v1,openenv", idle_ttl=1)
    made = server.make("room", ttl=1)
    with server.socket() as socket, server.socket(f"/s/{made['session']}/ws") as resumed:
        socket.reset(split="few", index=0)
        time.sleep(2.5)
        assert socket.step(text="look")["metadata"]["turn"] == 1
        assert resumed.step(text="look")["metadata"]["turn"] == 1


def test_who_has_no_token_stays_outside(serve):
    token = "a-token-of-enough-length"
    server = serve("room", doors="openenv", tokens=(token,))
    with pytest.raises(InvalidStatus, match="401"), server.socket():
        pass
    with pytest.raises(InvalidStatus, match="403"), server.socket(Origin="http://elsewhere.example"):
        pass
    for header in ({"Authorization": f"Bearer {token}"}, {"X-API-Key": token}):
        with server.socket(**header) as socket:
            assert socket.reset()["done"] is False


def test_our_own_wrapper_plays_it(server):
    schema = action_schema(f"{server.url}/room")
    assert schema["required"] == ["text"]
    engine = OpenEnvEngine(f"{server.url}/room")
    try:
        engine.reset(1)
        assert engine.step({"text": "win"}).reward == 1.0
    finally:
        engine.close()
