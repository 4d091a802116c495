"""The client against an endpoint that behaves badly: it survives, or says in one sentence what is wrong."""

from __future__ import annotations

import gzip
import json
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from agentenvs.core.actions import Malformed, ToolCall
from agentenvs.core.errors import ConfigError, ServiceError
from agentenvs.core.task import TaskRef
from agentenvs.harness import chat
from agentenvs.harness.openai import OpenAIPolicy, OpenAISettings
from agentenvs.harness.rollout import play
from tests.harness.endpoint import calls, serve, without_proxies, words
from tests.harness.toys import Counter

KEY = "sk-made-up-0123456789"
GOOD = calls(("add", {"by": 3}))


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    without_proxies(monkeypatch)


def asked(*answers: Any, default: Any = 500, **given: Any) -> tuple[Any, dict[str, Any], int]:
    """Return the first action, the sidecar, and how many requests there were."""
    with serve(*answers, default=default) as endpoint:
        base = {"model": "m", "base_url": endpoint.url, "backoff": 0.0, "timeout": 5.0, "retries": 2}
        policy = OpenAIPolicy(Counter.spec, OpenAISettings(**{**base, **given}))
        env = Counter()
        observation = env.reset()
        policy.reset(env.spec, env.task())
        try:
            return policy.act(observation), policy.sidecar(), len(endpoint.requests)
        finally:
            policy.close()


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_a_passing_failure_is_asked_again(status: int) -> None:
    action, sidecar, requests = asked(status, status, GOOD)
    assert action == ToolCall("add", {"by": 3})
    assert requests == 3
    attempts = sidecar["calls"][0]["attempts"]
    assert [attempt["error"] for attempt in attempts] == [f"status {status}: told so"] * 2 + [None]


def test_an_endpoint_that_stays_away_is_a_service_error() -> None:
    with pytest.raises(ServiceError, match=r"(?s)stays away.*3 attempts failed.*status 500: told so.*--base-url"):
        asked()


def test_nobody_at_home_is_a_service_error() -> None:
    with serve() as endpoint:
        url = endpoint.url
    with pytest.raises(ServiceError, match="ConnectError"):
        asked(base_url=url, retries=1)


def test_an_endpoint_that_stays_away_abandons_the_episode() -> None:
    with serve(calls(("add", {})), default=503) as endpoint:
        policy = OpenAIPolicy(Counter.spec, OpenAISettings(model="m", base_url=endpoint.url, backoff=0.0, retries=1))
        episode = play(Counter(), policy, TaskRef("train", 0))
        policy.close()
    assert (episode.summary.ending, episode.summary.turns, episode.summary.success) == ("abandoned", 1, False)
    assert "stays away" in (episode.summary.error or "")
    assert episode.sidecar["policy"]["calls"][1]["error"]["code"] == "AE109"


@pytest.mark.parametrize(
    ("status", "fix"),
    [(400, "--history last:K"), (401, "environment variable"), (404, "--model and --base-url"), (307, "--base-url")],
)
def test_a_refusal_is_not_asked_again(status: int, fix: str) -> None:
    with pytest.raises(ServiceError, match=f"(?s)refuses the request: status {status}.*{fix}"):
        asked(status)


def test_a_refusal_says_what_the_endpoint_said() -> None:
    with pytest.raises(ServiceError, match="told so"):
        asked(422)


@pytest.mark.parametrize("wait", ["0.2", "0.2 ", "2126-11-30T06:35:10+00:00"])
def test_retry_after_in_seconds_is_honoured(wait: str) -> None:
    _, sidecar, _ = asked((429, {"Retry-After": wait}, b""), GOOD, max_wait=0.3)
    waited = sidecar["calls"][0]["attempts"][0]["waited"]
    assert waited == (0.2 if wait.startswith("0.2") else 0.0)


def test_retry_after_as_a_date_is_honoured_up_to_the_longest_wait() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    _, sidecar, _ = asked((503, {"Retry-After": later}, b""), GOOD, max_wait=0.1)
    assert sidecar["calls"][0]["attempts"][0]["waited"] == 0.1


@pytest.mark.parametrize("wait", ["-5", "nan", "inf", "soon", "99999999999999999999"])
def test_a_senseless_retry_after_does_no_harm(wait: str) -> None:
    started = time.monotonic()
    action, _, _ = asked((429, {"Retry-After": wait}, b""), GOOD, max_wait=0.1)
    assert action == ToolCall("add", {"by": 3})
    assert time.monotonic() - started < 4


def test_waits_grow_and_are_bounded() -> None:
    _, sidecar, _ = asked(500, 500, 500, 500, GOOD, retries=4, backoff=0.02, max_wait=0.1)
    waits = [attempt["waited"] for attempt in sidecar["calls"][0]["attempts"][:-1]]
    for number, wait in enumerate(waits):
        assert min(0.1, 0.015 * 2**number) - 0.001 <= wait <= min(0.1, 0.025 * 2**number) + 0.001


def _hang(handler: BaseHTTPRequestHandler) -> None:
    time.sleep(1.5)


def _trickle(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    for _ in range(40):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.1)


def _hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": ')
    handler.close_connection = True


@pytest.mark.parametrize(
    ("weather", "error"), [(_hang, "ReadTimeout"), (_trickle, "ReadTimeout"), (_hang_up, "Remote")]
)
def test_a_bad_connection_is_tried_again(weather: Any, error: str) -> None:
    action, sidecar, _ = asked(weather, GOOD, timeout=0.5)
    assert action == ToolCall("add", {"by": 3})
    assert error in sidecar["calls"][0]["attempts"][0]["error"]


NONSENSE = [
    b"<html>Welcome</html>",
    b"",
    b"\xff\xfe",
    b"[" * 100_000,
    b"7" * 10_000,
    b"null",
    {"choices": []},
    {"choices": None},
    {"choices": [None]},
    {"choices": [{"message": None}]},
    {"choices": [{"text": "old api"}]},
    {"error": {"message": "overloaded", "code": 500}},
    [1, 2],
]


@pytest.mark.parametrize("body", NONSENSE)
def test_a_body_without_a_message_is_asked_again_and_then_a_turn(body: Any) -> None:
    action, sidecar, requests = asked(default=body)
    assert isinstance(action, Malformed)
    assert action.why.startswith(("the body is no JSON", "the body has no message"))
    assert requests == 3
    assert sidecar["failures"] == {"no_message": 1}
    assert asked(body, GOOD)[0] == ToolCall("add", {"by": 3})


def test_nonsense_time_after_time_is_a_service_error() -> None:
    with serve(default=b"<html></html>") as endpoint:
        policy = OpenAIPolicy(Counter.spec, OpenAISettings(model="m", base_url=endpoint.url, backoff=0.0, retries=0))
        episode = play(Counter(), policy, TaskRef("train", 0))
        policy.close()
    assert (episode.summary.ending, episode.summary.turns) == ("abandoned", 2)
    assert "is no chat endpoint" in (episode.summary.error or "")


def test_an_endless_reply_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "MAX_REPLY_BYTES", 10_000)
    action, sidecar, requests = asked(words("x" * 50_000), words("x" * 50_000))
    assert isinstance(action, Malformed)
    assert "more than 10000 bytes" in action.why
    assert requests == 1
    assert len(sidecar["calls"][0]["raw"]) <= 10_000


def test_a_zipped_reply_is_read() -> None:
    body = gzip.compress(json.dumps(GOOD).encode())
    action, _, _ = asked((200, {"Content-Encoding": "gzip"}, body))
    assert action == ToolCall("add", {"by": 3})


@pytest.mark.parametrize(
    "extra",
    [
        {"usage": {"prompt_tokens": float("nan"), "completion_tokens": -1}},
        {"usage": [1]},
        {"usage": {"prompt_tokens": True, "prompt_tokens_details": 3}},
        {"x": float("inf"), "y": 1e400},
        {"note": "\ud800"},
    ],
)
def test_odd_fields_beside_the_message_do_no_harm(extra: dict[str, Any]) -> None:
    action, sidecar, _ = asked({**GOOD, **extra})
    assert action == ToolCall("add", {"by": 3})
    json.dumps(sidecar, allow_nan=False, ensure_ascii=False).encode()


# ---- the key -------------------------------------------------------------------------------------------------------


def test_the_key_is_sent_and_stands_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    caplog.set_level("DEBUG")
    escaped = json.dumps(words(f"Your key is {KEY}.")).replace("sk-", "\\u0073k-").encode()
    with serve((429, {}, f"slow down, {KEY}".encode()), escaped, default=words(f"{KEY} {KEY}")) as endpoint:
        settings = OpenAISettings(model="m", base_url=endpoint.url, backoff=0.0)
        policy = OpenAIPolicy(Counter.spec, settings)
        episode = play(Counter(), policy, TaskRef("train", 0))
        policy.close()
    assert endpoint.headers[0]["authorization"] == f"Bearer {KEY}"
    kept = [json.dumps(episode.sidecar), episode.record.decode(), repr(episode.summary), repr(settings), caplog.text]
    assert not any(KEY in text for text in kept)
    assert "[key]" in kept[0]


def test_the_key_of_another_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "abc")
    with serve(default=GOOD) as endpoint:
        for name in ("MY_KEY", "NOT_SET"):
            policy = OpenAIPolicy(Counter.spec, OpenAISettings(model="m", base_url=endpoint.url, api_key_env=name))
            play(Counter(), policy, TaskRef("train", 0))
            policy.close()
    assert endpoint.headers[0]["authorization"] == "Bearer abc"
    assert "authorization" not in endpoint.headers[1]


@pytest.mark.parametrize("status", [401, 403, 500])
def test_no_error_shows_the_key(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    body = json.dumps({"error": {"message": f"bad key {KEY}"}}).encode()
    with pytest.raises(ServiceError) as caught:
        asked(default=(status, {}, body))
    assert KEY not in str(caught.value)
    assert KEY not in repr(caught.getrepr(style="long"))


def test_a_key_no_header_can_carry_is_refused_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n{KEY}")
    with pytest.raises(ConfigError, match=r"\$OPENAI_API_KEY holds no key") as caught:
        asked(GOOD)
    assert KEY not in str(caught.value)
