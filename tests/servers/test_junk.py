"""Whatever a client sends, the answer is a clear problem or a turn: never a failure, never silence."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentenvs_servers import bodies, wire
from agentenvs_servers.problems import ProblemError
from tests.servers.wire import problem

pytestmark = pytest.mark.anyio

DEEP = 100_000

NO_JSON = {
    "nothing": b"",
    "blanks": b" \n",
    "half": b'{"env": "room", "key": "k"',
    "two": b'{"env": "room", "key": "k"} {}',
    "comma": b'{"env": "room", "key": "k",}',
    "quotes": b"{'env': 'room', 'key': 'k'}",
    "comment": b'{"env": "room", /* */ "key": "k"}',
    "NaN": b'{"env": "room", "key": "k", "ttl": NaN}',
    "Infinity": b'{"env": "room", "key": "k", "ttl": -Infinity}',
    "1e999": b'{"env": "room", "key": "k", "ttl": 1e999}',
    "-1e999": b'{"env": "room", "key": "k", "ttl": -123456789012345678e999}',
    "digits": b'{"env": "room", "key": "k", "ttl": %s}' % (b"9" * 5_000),
    "leading zero": b'{"env": "room", "key": "k", "ttl": 01}',
    "hex": b'{"env": "room", "key": "k", "ttl": 0x10}',
    "bytes": b'{"env": "room", "key": "\xff\xfe"}',
    "surrogate bytes": b'{"env": "room", "key": "\xed\xa0\x80"}',
    "latin-1": '{"env": "room", "key": "ä"}'.encode("latin-1"),
    "utf-16": '{"env": "room", "key": "k"}'.encode("utf-16"),
    "mark": b'\xef\xbb\xbf{"env": "room", "key": "k"}',
    "zero byte": b'{"env": "room", "key": "k\x00"}',
    "control": b'{"env": "room", "key": "a\nb"}',
    "deep list": b"[" * DEEP + b"]" * DEEP,
    "deep list, open": b"[" * DEEP,
    "deep object": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "form": b"env=room&key=k",
    "gzip": b"\x1f\x8b\x08\x00",
}

INVALID: dict[str, Any] = {
    "list": [],
    "text": "room",
    "nothing": None,
    "number": 7,
    "no key": {"env": "room"},
    "empty key": {"env": "room", "key": ""},
    "zero in a key": {"env": "room", "key": "a\0b"},
    "long key": {"env": "room", "key": "k" * 201},
    "number key": {"env": "room", "key": 1},
    "half a pair": {"env": "room", "key": "\ud800"},
    "extra": {"env": "room", "key": "k", "Task": {}},
    "seed false": {"env": "room", "key": "k", "task": {"split": "train", "seed": False}},
    "seed text": {"env": "room", "key": "k", "task": {"split": "train", "seed": "1"}},
    "seed float": {"env": "room", "key": "k", "task": {"split": "train", "seed": 1.0}},
    "index true": {"env": "room", "key": "k", "task": {"index": True}},
    "index and seed": {"env": "room", "key": "k", "task": {"split": "train", "index": 1, "seed": 1}},
    "task list": {"env": "room", "key": "k", "task": [1]},
    "tasks empty": {"env": "room", "key": "k", "tasks": []},
    "task and tasks": {"env": "room", "key": "k", "tasks": [{}], "task": {}},
    "count and tasks": {"env": "room", "key": "k", "tasks": [{}], "count": 1},
    "count 0": {"env": "room", "key": "k", "count": 0},
    "count true": {"env": "room", "key": "k", "count": True},
    "count huge": {"env": "room", "key": "k", "count": 2**60},
    "count longer": {"env": "room", "key": "k", "count": 2**100},
    "ttl 0": {"env": "room", "key": "k", "ttl": 0},
    "ttl -1": {"env": "room", "key": "k", "ttl": -1},
    "ttl huge": {"env": "room", "key": "k", "ttl": 2**100},
    "ttl float": {"env": "room", "key": "k", "ttl": 10.5},
    "trace 1": {"env": "room", "key": "k", "trace": 1},
    "trace yes": {"env": "room", "key": "k", "trace": "yes"},
    "options list": {"env": "room", "key": "k", "options": []},
    "options nested": {"env": "room", "key": "k", "options": {"limit": {}}},
    "player text": {"env": "room", "key": "k", "player": "me"},
    "library": {"env": "room", "key": "k", "player": {"library": "abc"}},
    "library line": {"env": "room", "key": "k", "player": {"library": "a" * 64 + "\n"}},
}

REFUSED: dict[str, tuple[str, Any]] = {
    "split": ("task_unknown", {"task": {"split": "none"}}),
    "split empty": ("task_unknown", {"task": {"split": ""}}),
    "index -1": ("task_unknown", {"task": {"split": "few", "index": -1}}),
    "index huge": ("task_unknown", {"task": {"split": "few", "index": 2**100}}),
    "seed of few": ("task_unknown", {"task": {"split": "few", "seed": 0}}),
    "sealed": ("sealed_closed", {"task": {"split": "vault", "index": 0}}),
    "sealed in a list": ("sealed_rule", {"tasks": [{}, {"split": "vault"}]}),
    "option": ("option_refused", {"options": {"none": 1}}),
    "option type": ("option_refused", {"options": {"limit": True}}),
    "option float": ("option_refused", {"options": {"limit": 5.0}}),
    "option least": ("option_refused", {"options": {"limit": -1}}),
    "option of the machine": ("option_refused", {"options": {"folder": "/"}}),
    "option of the machine, empty": ("option_refused", {"options": {"folder": None}}),
}


@pytest.mark.parametrize("body", NO_JSON.values(), ids=NO_JSON)
async def test_what_is_no_json_is_refused(wire, body):
    problem(await wire.raw("/v1/sessions", body), "bad_json")
    play = await wire.play()
    for path in (f"{play.path}/step", f"{play.path}/reset"):
        problem(await wire.raw(path, body), "bad_json")
    problem(await wire.raw("/v1/agent/step", body, authorization=f"Bearer {play.agent_key}"), "bad_json")
    assert (await play.step(1, "look")).status_code == 200


@pytest.mark.parametrize("body", INVALID.values(), ids=INVALID)
async def test_what_makes_no_sense_is_refused(wire, body):
    problem(await wire.raw("/v1/sessions", json.dumps(body).encode()), "invalid_request")
    assert wire.hall.counts["open"] == 0


@pytest.mark.parametrize(("code", "body"), REFUSED.values(), ids=REFUSED)
async def test_what_cannot_be_is_refused(wire, code, body):
    problem(await wire.make(**body), code)
    assert set(wire.hall.counts.values()) == {0}


@pytest.mark.parametrize("turn", [True, False, 1.0, "1", None, 0, -1, 2**53 + 1, 2**60, 2**100, [1], {}])
async def test_a_turn_is_a_whole_number_from_1(wire, turn):
    play = await wire.play()
    for answer in (await play.step(turn, "look"), await play.agent_step(turn, "look")):
        problem(answer, "invalid_request")
    problem(await play.step(2**53, "look"), "turn_ahead")


async def test_a_step_has_its_fields_and_no_others(wire):
    play = await wire.play()
    whole = {"episode": play.episode, "turn": 1, "action": "look"}
    for name in whole:
        body = {key: value for key, value in whole.items() if key != name}
        assert problem(await wire.post(f"{play.path}/step", body), "invalid_request")["detail"].startswith(name)
    for more in ({"Trace": True}, {"trace": 1}, {"trace": None}, {"seed": 1}):
        problem(await wire.post(f"{play.path}/step", {**whole, **more}), "invalid_request")
    for more in ({"episode": play.episode}, {"trace": True}):
        body = {"turn": 1, "action": "look", **more}
        problem(await wire.post("/v1/agent/step", body, play.agent_key), "invalid_request")


ACTIONS = [
    *("null", "true", "7", "-0.0", "1e300", "[]", "{}", '""', '"\\u0000"', '"\\ud83d"', '"\\udc00\\ud800"', "9" * 300),
    '"' + "x" * 70_000 + '"',
    '{"tool": "look", "arguments": {"a": "\\ud800", "\\udfff": [1e308]}}',
    '{"tool": 1}',
    '{"calls": []}',
    '{"malformed": "look", "why": "said so"}',
    "[" * 240 + "]" * 240,
    "[" * 600 + "]" * 600,
    '{"a":' * 600 + "1" + "}" * 600,
]


@pytest.mark.parametrize("action", ACTIONS, ids=range(len(ACTIONS)))
async def test_any_json_is_a_turn(wire, action):
    play = await wire.play(trace=True)
    body = f'{{"episode": "{play.episode}", "turn": 1, "action": {action}}}'.encode()
    first = await wire.raw(f"{play.path}/step", body)
    assert first.status_code == 200
    assert first.json()["info"]["invalid"] is (not action.startswith('{"tool": "look"'))
    assert (await wire.raw(f"{play.path}/step", body)).content == first.content
    assert (await wire.get(f"{play.path}/trace")).status_code == 200
    await play.close()
    await play.record()


@pytest.mark.parametrize("depth", [*range(960, 1060, 3), 5_000])
async def test_deep_nesting_is_a_turn_or_no_json(wire, depth):
    play = await wire.play()
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
        action = opening * depth + b"1" + closing * depth
        body = b'{"episode": "%b", "turn": 1, "action": %b}' % (play.episode.encode(), action)
        answer = await wire.raw(f"{play.path}/step", body)
        if answer.status_code == 200:
            play = await wire.play()
        else:
            problem(answer, "bad_json")


async def test_of_two_fields_of_one_name_the_last_counts(wire):
    answer = await wire.raw("/v1/sessions", b'{"env": "nowhere", "env": "room", "key": "a", "key": "\\u006b"}')
    assert answer.status_code == 201
    assert (await wire.raw("/v1/sessions", b'{"key": "k", "env": "room"}')).content == answer.content


async def _parts(body: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


@pytest.mark.parametrize("size", [1, 7, 40, 10_000])
async def test_a_body_in_parts_is_the_same_body(serve, size):
    wire = serve(max_body_bytes=150)
    whole = await wire.make(key="mine")
    body = json.dumps({"env": "room", "key": "mine"}).encode()
    json_type = {"content-type": "application/json"}
    answer = await wire.http.post("/v1/sessions", content=_parts(body, size), headers=json_type)
    assert answer.content == whole.content
    long = await wire.http.post("/v1/sessions", content=_parts(body + b" " * 150, size), headers=json_type)
    problem(long, "body_too_large")


@pytest.mark.parametrize("length", ["151", "9" * 30, "9" * 5_000])
async def test_a_declared_length_is_believed_where_it_is_too_large(serve, length):
    answer = await serve(max_body_bytes=150).raw("/v1/sessions", b"{}", **{"content-length": length})
    assert problem(answer, "body_too_large")["detail"] == "the limit is 150 bytes"


async def test_the_limits_are_the_last_that_fit(serve):
    wire = serve(max_action_bytes=12)
    play = await wire.play()
    assert (await play.step(1, "x" * 10)).status_code == 200
    problem(await play.step(2, "x" * 11), "action_too_large")
    problem(await play.agent_step(2, {"tool": "look"}), "action_too_large")
    assert (await play.step(2, "look")).status_code == 200


TYPES = {
    "application/json": 201,
    "APPLICATION/JSON ; charset=utf-8": 201,
    "application/merge+json": 201,
    "": 415,
    "text/json": 415,
    "application/jsonl": 415,
    "application/x-www-form-urlencoded": 415,
    "multipart/form-data; boundary=application/json": 415,
    "\xe4/\xe4": 415,
}


@pytest.mark.parametrize(("kind", "status"), TYPES.items())
async def test_a_body_must_be_declared(wire, kind, status):
    headers = [(b"content-type", kind.encode("latin-1"))]
    answer = await wire.http.post("/v1/sessions", content=b'{"env": "room", "key": "k"}', headers=headers)
    assert answer.status_code == status
    if status == 415:
        problem(answer, "media_type")


@pytest.mark.parametrize(
    "name", ["%", "%zz", "%ff%fe", "%00", "%0a%0d", "..", "%2e%2e%2f", "%F0%9F%98%80", "a b", "'\"<>", "x" * 60_000]
)
async def test_odd_names_of_sessions_are_unknown(wire, name):
    for answer in (await wire.get(f"/v1/sessions/{name}"), await wire.post(f"/v1/sessions/{name}/step", {})):
        assert answer.json()["code"] in ("session_unknown", "route_unknown", "method_unknown")
    assert (await wire.get(f"/v1/envs/{name}")).json()["code"] in ("env_unknown", "route_unknown")


@pytest.mark.parametrize(
    "query", ["from=x", "from=-1", "from=1e3", "from=", "from=" + "9" * 5_000, f"from={2**53 + 1}"]
)
async def test_a_query_is_checked(wire, query):
    play = await wire.play(trace=True)
    problem(await wire.get(f"{play.path}/trace?{query}"), "invalid_request")
    problem(await wire.get(f"{play.path}/record?episode={'x' * 201}"), "invalid_request")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(value=JSON)
def test_a_body_is_read_as_the_standard_library_reads_it(value):
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        try:
            body = text.encode()
        except UnicodeEncodeError:
            continue
        read = bodies.loads(body)
        assert (read, repr(read)) == (json.loads(text), repr(json.loads(text)))


@settings(max_examples=150, deadline=None)
@given(body=st.binary(max_size=40))
def test_bytes_are_a_message_or_a_problem(body):
    for model in (wire.CreateBody, wire.ResetBody, wire.StepBody, wire.AgentStepBody):
        with pytest.raises(ProblemError) as caught:
            bodies.parse(model, body)
        assert caught.value.code in ("bad_json", "invalid_request")
