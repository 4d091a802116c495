"""Whatever the endpoint or the program does, the other side gets an answer it knows, and the next call works."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time

import httpx
import pytest

from agentenvs.harness.proxy import app
from tests.harness.endpoint import words
from tests.harness.proxy.playing import ASKED, DONE, SAID, SPOKEN, USAGE, chunk, events, post, proxied, streams

CHAT = "chat/completions"


def ask(proxy, account, path=CHAT, **more):
    return post(proxy, account, path, {**ASKED[path], **more})


@pytest.mark.parametrize("path", ASKED)
@pytest.mark.parametrize(("status", "kind"), [(400, "invalid_request_error"), (404, "not_found_error")])
def test_a_refusal_of_the_endpoint_is_passed_on_in_the_shape_of_the_api(path, status, kind):
    body = json.dumps({"error": {"message": "the context is too long"}}).encode()
    for stream in (False, True):
        with proxied((status, {}, body)) as (endpoint, proxy, account):
            answer = ask(proxy, account, path, stream=stream)
            assert (answer.status_code, answer.json()["error"]["type"]) == (status, kind)
            assert answer.json()["error"]["message"] == "the context is too long"
            assert len(endpoint.requests) == 1
            assert ask(proxy, account, path).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_a_busy_endpoint_is_asked_again(stream):
    busy = (429, {"Retry-After": "0.01"}, b"{}")
    with proxied(busy, 503) as (endpoint, proxy, account):
        assert ask(proxy, account, stream=stream).status_code == 200
        attempts = account.sidecar()["calls"][0]["attempts"]
    assert [bool(attempt["error"]) for attempt in attempts] == [True, True, False]
    assert len(endpoint.requests) == 3


@pytest.mark.parametrize(("path", "kind"), [("messages", "overloaded_error"), ("responses", "server_error")])
def test_an_endpoint_that_stays_busy_is_told_as_it_is(path, kind):
    with proxied(default=503) as (endpoint, proxy, account):
        answer = ask(proxy, account, path)
        assert (answer.status_code, answer.json()["error"]["type"]) == (503, kind)
        assert len(endpoint.requests) == 3
        assert account.usage()["tokens_in"] == 0
        assert account.metrics() == {"model_calls": 1, "model_errors": 1, "uncounted_calls": 0}


def test_an_endpoint_that_does_not_take_our_key_is_no_affair_of_the_programs():
    with proxied((401, {}, b'{"error": {"message": "bad key sk-r...89"}}')) as (_, proxy, account):
        answer = ask(proxy, account)
    assert answer.status_code == 502
    assert "sk-r" not in answer.text


NONSENSE = [b"", b"{", b"[]", b"{}", b'{"choices": []}', b'{"choices": 3}', b"\xff\xfe", b"[" * 99_999]


@pytest.mark.parametrize("body", NONSENSE, ids=range(len(NONSENSE)))
def test_a_body_without_an_answer_is_502_after_all_retries(body):
    with proxied(default=body) as (endpoint, proxy, account):
        assert ask(proxy, account).status_code == 502
        assert len(endpoint.requests) == 3


BROKEN = {
    "dead": streams(SPOKEN[0], end=False),
    "no end": streams(SPOKEN[0]),
    "no JSON": streams(SPOKEN[0], b"data: {oops\n\n", DONE),
    "no object": streams(SPOKEN[0], b"data: [1]\n\n", DONE),
    "an error": streams(SPOKEN[0], b'data: {"error": {"message": "out of memory"}}\n\n'),
    "endless event": streams(SPOKEN[0], b"data: " + b"x" * (2 << 20)),
    "too deep": streams(SPOKEN[0], b'data: {"choices": ' + b"[" * 5_000 + b"]" * 5_000 + b"}\n\n"),
}


@pytest.mark.parametrize("path", ASKED)
@pytest.mark.parametrize("kind", BROKEN)
def test_a_stream_that_breaks_off_ends_with_an_error_of_the_api(path, kind):
    with proxied(BROKEN[kind]) as (_, proxy, account):
        found = events(ask(proxy, account, path, stream=True).text)
        assert ask(proxy, account, path).status_code == 200
        broken, whole = account.sidecar()["calls"]
    last = found[-1]
    if path == CHAT:
        assert last["error"]["type"] == "server_error"
    elif path == "messages":
        assert (last["type"], last["error"]["type"]) == ("error", "api_error")
    else:
        assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
    assert "[DONE]" not in found
    assert (broken["status"], whole["status"]) == (502, 200)
    assert broken["reply"]["choices"][0]["message"]["content"] == "Hell"


@pytest.mark.parametrize("stream", [streams(), streams(DONE), streams(b": ping\n\n"), b"{}", b"nonsense"])
def test_a_stream_that_never_began_is_an_error_and_no_stream(stream):
    with proxied(stream) as (_, proxy, account):
        assert ask(proxy, account, "messages", stream=True).status_code == 502


def test_an_endpoint_without_streams_is_streamed_all_the_same():
    with proxied(default={**words("Hello."), "usage": USAGE}) as (_, proxy, account):
        found = [event["type"] for event in events(ask(proxy, account, "messages", stream=True).text)]
        chat = events(ask(proxy, account, stream=True).text)
    assert found[0] == "message_start"
    assert found[-1] == "message_stop"
    assert chat[0]["choices"][0]["delta"]["content"] == "Hello."


def test_an_endpoint_that_cannot_tell_the_usage_of_a_stream_is_not_asked_for_it():
    refusal = (400, {}, b'{"error": {"message": "unknown field: stream_options"}}')
    with proxied(refusal, streams(*SPOKEN, DONE)) as (endpoint, proxy, account):
        assert "message_stop" in ask(proxy, account, "messages", stream=True).text
        assert ["stream_options" in request for request in endpoint.requests] == [True, False]
        assert (account.usage()["tokens_in"], account.metrics()["model_errors"]) == (None, 0)


def test_a_stream_cut_anywhere_is_the_same():
    data = b"".join([*SPOKEN, b": ping\r\n\r\n", chunk(None, usage=USAGE), DONE]).replace(b"\n\n", b"\r\n\r\n")
    one_by_one = streams(*(data[place : place + 1] for place in range(len(data))))
    with proxied(one_by_one, streams(data)) as (_, proxy, account):
        assert len({ask(proxy, account, stream=True).text for _ in range(2)}) == 1


def test_an_endpoint_that_hangs_is_let_go_of():
    with proxied(default=lambda handler: time.sleep(20), timeout=0.3, retries=1) as (_, proxy, account):
        started = time.monotonic()
        assert ask(proxy, account).status_code == 504
        assert time.monotonic() - started < 10

    def drips(handler):
        streams(SPOKEN[0], end=False)(handler)
        time.sleep(20)

    with proxied(drips, timeout=0.5) as (_, proxy, account):
        assert "did not end in 0.5 s" in ask(proxy, account, "messages", stream=True).text


SENSELESS = [
    (b"", 400),
    (b"{", 400),
    (b"[]", 400),
    (b"{}", 400),
    (b'{"messages": []}', 400),
    (b'{"messages": "Hi."}', 400),
    (b'{"messages": [{"role": "user", "content": "x"}], "temperature": NaN}', 400),
    (b"[" * 100_000, 400),
    (b'{"messages": ' + b"[" * 5_000 + b"]" * 5_000 + b"}", 400),
    (b"x" * (app.MAX_BODY_BYTES + 1), 413),
]


@pytest.mark.parametrize(("body", "status"), SENSELESS, ids=range(len(SENSELESS)))
@pytest.mark.parametrize("path", ASKED)
def test_requests_that_make_no_sense_are_refused_and_cost_nothing(path, body, status):
    with proxied() as (endpoint, proxy, account):
        answer = post(proxy, account, path, body)
        assert answer.status_code == status
        assert answer.json()["error"]["message"]
        assert endpoint.requests == []
        assert account.metrics()["model_calls"] == 0
        assert ask(proxy, account, path).status_code == 200


def test_lone_surrogates_pass():
    with proxied() as (_, proxy, account):
        body = b'{"messages": [{"role": "user", "content": "\\ud800"}]}'
        assert post(proxy, account, CHAT, body).status_code == 200
        json.dumps(account.sidecar(), ensure_ascii=False).encode("utf-8", "replace")


def leave(proxy, account, stream):
    """Ask, and go away once the endpoint is at it."""
    host, port = proxy.told(account)["ANTHROPIC_BASE_URL"].removeprefix("http://").split(":")
    body = json.dumps({**SAID, "stream": stream}).encode()
    head = f"POST /v1/{CHAT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {account.key}\r\nContent-Length: {len(body)}"
    with socket.create_connection((host, int(port))) as sock:
        sock.sendall(head.encode() + b"\r\n\r\n" + body)
        if stream:
            got = b""
            while b"Hell" not in got:
                got += sock.recv(4096)
        else:
            time.sleep(0.3)


@pytest.mark.parametrize("stream", [False, True])
def test_a_caller_that_goes_away_harms_nothing(stream):
    gone = threading.Event()

    def watches(handler):
        if stream:
            streams(SPOKEN[0], end=False)(handler)
        handler.connection.settimeout(10)
        with contextlib.suppress(ConnectionError):
            assert handler.connection.recv(1) == b""
        gone.set()

    with proxied(watches) as (_, proxy, account):
        leave(proxy, account, stream)
        assert gone.wait(10)  # the endpoint was let go of
        account.settle(5)
        assert ask(proxy, account).status_code == 200
        left, whole = account.sidecar()["calls"]
        assert (left["status"], left["fault"], whole["status"]) == (499, "the caller left", 200)
        assert account.metrics() == {"model_calls": 2, "model_errors": 1, "uncounted_calls": 1}
        assert account.usage()["tokens_in"] == 20


def test_who_leaves_while_a_busy_endpoint_is_waited_for_was_let_down_by_it():
    with proxied((429, {"Retry-After": "20"}, b"{}")) as (_, proxy, account):
        with contextlib.suppress(httpx.TimeoutException):
            post(proxy, account, CHAT, ASKED[CHAT], timeout=2)
        account.settle(5)
        assert account.away() == "{}"


def test_the_calls_of_an_episode_that_ends_are_ended():
    begun = threading.Event()

    def hangs(handler):
        begun.set()
        time.sleep(5)

    with proxied(hangs) as (_, proxy, account):
        found = []
        asking = threading.Thread(target=lambda: found.append(ask(proxy, account, "messages")))
        asking.start()
        assert begun.wait(10)
        proxy.close(account)
        asking.join(3)
        assert (found[0].status_code, found[0].json()["error"]["type"]) == (401, "authentication_error")
        assert account.sidecar()["calls"][0]["status"] == 499
