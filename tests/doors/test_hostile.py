"""What no client should send to the doors of other protocols: every answer is a refusal or a turn, and nobody else
notices. Ids of other people's episodes, deep and huge JSON, names in any script, calls after the end, cut lines."""

from __future__ import annotations

import json
import socket
import uuid
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
MCP_VERSION = {"mcp-protocol-version": "2025-06-18"}
DEEP = b"[" * 100_000 + b"]" * 100_000
NAMES = (
    "",
    "ключ",
    "鍵" * 2_000,
    "a\u0000b",
    "\u202ego_to",
    "../state",
    "__class__",
    "state\n",
    "\ud800",
    "x" * 100_000,
)
ARGUMENTS: tuple[Any, ...] = (
    None,
    [],
    "words",
    {"": None},
    {"text": 10**400},
    {"text": "\udfff"},
    {"receptacle": ["fridge 1"] * 10_000},
    {"ключ": {"a": {"b": [1, 2.5, None, True]}}},
    {"text": "x" * 1_000_000},
)


def call(name: Any, arguments: Any, number: Any = 1) -> bytes:
    """Return a call of a tool as bytes; lone surrogates are written as models write them, escaped."""
    params = {"name": name, "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()


def turn_of(server: Any, form: dict[str, Any]) -> int:
    """Return the turn of an episode, as its agent sees it."""
    key = {"authorization": f"Bearer {form['agent_key']}"}
    return int(httpx.get(f"{server.url}/v1/agent", headers=key, timeout=20).json()["turn"])


class Mcp:
    """An MCP client that says whatever it is told to."""

    def __init__(self, server: Any, form: dict[str, Any]) -> None:
        self.url = f"{server.url}/v1/agent/{form['agent_key']}/mcp"

    def post(self, body: bytes, **headers: str) -> httpx.Response:
        return httpx.post(self.url, content=body, headers={**ACCEPT, **MCP_VERSION, **headers}, timeout=30)

    def turn(self) -> int:
        """Return the number of the turn, which must be tellable whatever was sent before."""
        result = self.post(call("state", {})).json()["result"]
        return int(result["_meta"]["agentenvs/turn"]["turn"])


@pytest.fixture(params=["household", "clerk"])
def mcp(request, server):
    pytest.importorskip("mcp", reason="the official MCP SDK is not installed: pip install 'agentenvs[mcp]'")
    beside = Mcp(server, server.make(request.param, seed=2))
    yield Mcp(server, server.make(request.param, seed=1))
    assert beside.turn() == 0, "the episode beside it was not touched"


def test_a_name_that_is_none_is_a_turn_or_refused(mcp):
    for most, name in enumerate(NAMES, 1):
        answer = mcp.post(call(name, {}))
        assert answer.status_code in (200, 400, 413), answer.text[:300]
        if answer.status_code == 200:
            form = answer.json()
            assert "error" in form or form["result"]["isError"]
        assert mcp.turn() <= most


@pytest.mark.parametrize("name", ["look", "step", "refund"])
def test_arguments_that_are_none_are_a_turn_or_refused(mcp, name):
    for most, arguments in enumerate(ARGUMENTS, 1):
        answer = mcp.post(call(name, arguments))
        assert answer.status_code in (200, 400, 413), answer.text[:300]
        assert mcp.turn() <= most


BODIES = (
    DEEP,
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"look","arguments":' + DEEP + b"}}",
    b'{"jsonrpc":"2.0","id":1e400,"method":"tools/list"}',
    b'{"jsonrpc":"2.0","id":' + b"9" * 5_000 + b',"method":"tools/list"}',
    b'{"jsonrpc":"2.0","id":NaN,"method":"tools/list"}',
    b'{"jsonrpc":"1.0","id":1,"method":"tools/list"}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/nothing"}',
    b'{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///etc/passwd"}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
    b"[" + call("look", {}) + b"," + call("look", {}) + b"]",
    b'"' + "ключ".encode("utf-16") + b'"',
    b"\xff\xfe\x00",
    b"null",
)


def test_a_body_that_is_no_message_is_refused(mcp):
    for body in BODIES:
        answer = mcp.post(body)
        assert answer.status_code < 500, answer.text[:300]
        assert b"Traceback" not in answer.content
    assert mcp.turn() == 0


def test_a_key_opens_one_episode_whatever_else_is_sent(server, mcp):
    other = server.make("household", seed=3)
    for key in (other["episode"], other["session"], "..", "%2e%2e", other["agent_key"][:-1], "ключ"):
        answer = httpx.post(f"{server.url}/v1/agent/{key}/mcp", content=call("look", {}), headers=ACCEPT, timeout=20)
        assert answer.status_code in (401, 404), (key, answer.text[:200])
    ids = {"mcp-session-id": other["session"], "x-session-id": other["session"], "cookie": f"s={other['session']}"}
    assert mcp.post(call("state", {"episode": other["episode"]}), **ids).status_code in (200, 404)
    assert Mcp(server, other).turn() == 0


def test_calls_after_the_end_are_errors_and_change_nothing(server):
    pytest.importorskip("mcp", reason="the official MCP SDK is not installed: pip install 'agentenvs[mcp]'")
    mcp = Mcp(server, server.make("clerk", seed=1))
    assert mcp.post(call("close", {"reason": "x"})).json()["result"]["_meta"]["agentenvs/turn"]["terminated"]
    for name in ("step", "refund", "close", "fly"):
        result = mcp.post(call(name, {"text": "again"})).json()["result"]
        assert result["isError"]
    assert mcp.turn() == 1


def cut(url: str, path: str, body: bytes, *, sent: int) -> None:
    """Send the head of a request and a part of its body, and hang up."""
    place = urlsplit(url)
    assert place.hostname
    assert place.port
    with socket.create_connection((place.hostname, place.port), timeout=10) as line:
        head = f"POST {path} HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Length: {len(body)}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in {**ACCEPT, **MCP_VERSION}.items())
        line.sendall(head.encode() + b"\r\n" + body[:sent])


def test_lines_that_are_cut_leave_the_episode_playable(server, mcp):
    body, path = call("look", {}), urlsplit(mcp.url).path
    for sent in (0, 1, len(body) // 2, len(body)):
        for _ in range(5):
            cut(server.url, path, body, sent=sent)
    played = mcp.turn()
    assert played <= 5, "what arrived whole may have been played, nothing else"
    assert mcp.post(call("look", {})).status_code == 200
    assert mcp.turn() == played + 1


# ---- the Open Reward Standard --------------------------------------------------------------------------------------


class Ors:
    """A client of the Open Reward Standard that says whatever it is told to."""

    def __init__(self, server: Any, env: str, index: int) -> None:
        self.http = httpx.Client(base_url=server.url, timeout=30, headers={"x-session-id": str(uuid.uuid4())})
        made = self.http.post("/create", json={"env_name": env, "split": "train", "index": index})
        assert made.status_code == 200, made.text

    def call(self, body: bytes) -> httpx.Response:
        return self.http.post("/call", content=body, headers={"content-type": "application/json"})

    def turn(self) -> int:
        """Play a turn and return the number of the one before."""
        said = self.call(b'{"name": "look", "input": {}}').text
        return int(json.loads(said.rpartition("data: ")[2])["output"]["metadata"]["turn"]) - 1


@pytest.fixture
def ors(server):
    beside, made = Ors(server, "household", 2), Ors(server, "household", 1)
    yield made
    assert beside.turn() == 0, "the episode beside it was not touched"
    beside.http.close()
    made.http.close()


def test_ors_names(ors):
    for name in NAMES:
        answer = ors.call(json.dumps({"name": name, "input": {}}).encode())
        assert answer.status_code in (200, 413, 422), answer.text[:300]
    assert ors.turn() <= len(NAMES)


def test_ors_arguments(ors):
    for arguments in ARGUMENTS:
        answer = ors.call(json.dumps({"name": "go_to", "input": arguments}).encode())
        assert answer.status_code in (200, 400, 413, 422), answer.text[:300]
    assert ors.turn() <= len(ARGUMENTS)


def test_ors_bodies(ors):
    for body in (DEEP, b'{"name":"look","input":' + DEEP + b"}", b"null", b"[]", b"\xff", b""):
        assert ors.call(body).status_code in (400, 413, 422)
    assert ors.turn() == 0


def test_ors_calls_by_names_that_are_not_theirs(server, ors):
    other = server.make("household", seed=3)
    names = ("", ".", "1", "ep-0.1", "ep-0.-1", "ep-0.1e9", f"ep-0.{'9' * 19}", "ключ.1", f"{other['episode']}.1")
    for name in names:
        answer = ors.call(json.dumps({"name": "look", "input": {}, "task_id": name}).encode())
        assert answer.status_code == 200
        assert "event: error" in answer.text
    assert turn_of(server, other) == 0
    assert ors.turn() == 0


def test_ors_sessions_of_others_cannot_be_guessed(server, ors):
    other = server.make("household", seed=3)
    for sid in (other["session"], other["episode"], "x" * 10_000, "ors-1", "', 1)--"):
        headers = {"x-session-id": sid}
        for path in ("/ping", "/call"):
            body = {"name": "look", "input": {}}
            answer = httpx.post(f"{server.url}{path}", json=body, headers=headers, timeout=20)
            assert answer.status_code in (404, 422), (sid, path, answer.text)
        assert httpx.get(f"{server.url}/prompt", headers=headers, timeout=20).status_code in (404, 422)


def test_ors_lines_that_are_cut(server, ors):
    body = b'{"name": "look", "input": {}}'
    for sent in (0, 10, len(body)):
        cut(server.url, "/call", body, sent=sent)  # without a session: refused
    assert ors.turn() == 0


# ---- OpenEnv -------------------------------------------------------------------------------------------------------


def test_openenv_names_and_arguments(server):
    calls = [{"tool_name": name, "arguments": {}} for name in NAMES]
    calls += [{"tool_name": "go_to", "arguments": arguments} for arguments in ARGUMENTS]
    with server.socket() as line:
        line.reset(split="train", index=1)
        for most, made in enumerate(calls, 1):
            said = line.ask("step", {"type": "call_tool", **made})
            assert said["type"] in ("observation", "error")
            assert line.state()["step_count"] <= most
        assert line.step(text="look")["observation"]["text"]


FRAMES = (
    DEEP.decode(),
    '{"type":"step","data":' + DEEP.decode() + "}",
    '{"type":"step","data":{"text":NaN}}',
    '{"type":"' + "x" * 100_000 + '"}',
    '{"type":"\\ud800","data":{}}',
    '{"type":"reset","data":{"split":"' + "ключ" * 1_000 + '"}}',
    '{"type":"reset","data":{"seed":' + "9" * 5_000 + "}}",
    '{"type":"mcp","data":{"jsonrpc":"2.0","id":' + "9" * 40 + ',"method":"tools/list"}}',
    '{"type":"mcp","data":{"jsonrpc":"2.0","id":"\\udfff","method":"tools/list"}}',
    '{"type":"mcp","data":{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\\udfff"}}}',
    "null",
    "",
)


def test_openenv_frames(server):
    with server.socket() as line:
        line.reset(split="train", index=1)
        for frame in FRAMES:
            line.raw.send(frame)
            said = json.loads(line.raw.recv(timeout=20))
            assert said["type"] in ("error", "mcp", "observation")
            assert "Traceback" not in json.dumps(said)
        assert line.step(text="look")["observation"]["text"]


def test_openenv_frames_of_tools_alone(server):
    with server.socket("/mcp") as line:
        for frame in (*FRAMES, "[]", '{"jsonrpc":"2.0","id":1.5,"method":"openenv/session/close","params":{}}'):
            line.raw.send(frame)
            assert json.loads(line.raw.recv(timeout=20))["error"]["code"] < 0
        assert "result" in line.ask("x", method="tools/list", jsonrpc="2.0", id=1)


def test_openenv_sessions_of_others_cannot_be_guessed(server):
    other = server.make("household", seed=3)
    for name in (other["episode"], other["agent_key"], "x" * 5_000, "%00", "ключ"):
        with server.socket(f"/ws?session_id={name}") as line:
            assert json.loads(line.raw.recv(timeout=20))["type"] == "error"
            with pytest.raises(ConnectionClosed):
                line.raw.recv(timeout=20)
        answer = server.rpc("tools/call", session_id=name, name="look", arguments={})
        assert "error" in answer
    assert turn_of(server, other) == 0


def test_openenv_calls_after_the_end(server):
    with server.socket("/clerk/ws") as line:
        line.reset(seed=1)
        assert line.step(text="bye", end=True)["done"]
        for data in ({"text": "again"}, {"type": "call_tool", "tool_name": "refund", "arguments": {}}):
            assert line.refused("step", data)[0] == "SESSION_ERROR"
        assert line.state()["step_count"] == 1
        assert not line.reset(seed=2)["done"]


def test_openenv_lines_that_are_cut(server):
    for _ in range(5):
        with server.socket() as line:
            line.reset(split="train", index=1)
            line.raw.send('{"type":"step","data":{"text":"look"}}')
            line.raw.socket.shutdown(socket.SHUT_RDWR)
    with server.socket() as line:
        assert line.reset(split="train", index=1)["observation"]["text"]
