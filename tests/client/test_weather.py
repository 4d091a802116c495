"""Bad lines, bad servers, and secrets: what a client does when something goes wrong."""

from __future__ import annotations

import json
import traceback
from collections import Counter
from typing import Any

import pytest

from agentenvs.client import ClientSettings, RemoteEnv, in_process
from agentenvs.client.endpoint import Endpoint, address_class
from agentenvs.core import registry
from agentenvs.core.errors import ConfigError, EpisodeEnded, ServiceError
from agentenvs.core.record import Recorded
from agentenvs.core.task import TaskRef
from agentenvs_servers.app import make_app
from agentenvs_servers.settings import Settings
from tests.client.servers import Relay, relaying, serving

QUICK = ClientSettings(backoff=0.001, timeout=5, retries=3, patience=0)
TOKEN = "a-token-of-the-server-0123"


def _remote(relay: Relay, env: str = "household", settings: ClientSettings = QUICK, **more: Any) -> RemoteEnv:
    return RemoteEnv(env, relay.url, settings=settings, **more)


@pytest.mark.parametrize("kind", ["lost", "cut", "deaf", "busy", "gateway"])
def test_whatever_is_lost_is_asked_again_and_happens_once(relay: Relay, kind: str) -> None:
    """Every third request fails, some after they were carried out; the record shows that none was carried out twice."""
    relay.fault = lambda number, method, path: kind if number % 3 == 0 else None
    recorded = Recorded(registry.make("household"))
    with _remote(relay) as there:
        for index in (0, 1):
            ref = TaskRef("dev", index)
            assert there.reset(ref) == recorded.reset(ref)
            for action in ("look", "inventory", "nonsense", "look", "go to fridge 1"):
                assert there.step(action) == recorded.step(action)
            there.finish("truncated")
            recorded.finish("truncated")
            assert there.record() == recorded.to_bytes()
    assert Counter(method for method, _ in relay.requests)["POST"] > 12


def test_a_session_of_a_lost_create_is_not_made_twice(url: str) -> None:
    with serving("stairs", settings=Settings(max_sessions=1)) as small, relaying(small) as relay:
        relay.fault = lambda number, method, path: "lost" if number in (2, 3, 4) else None
        with _remote(relay, "stairs") as there:
            there.reset(TaskRef("few", 0))
            assert there.step("up").terminated


def test_a_slow_reply_is_asked_for_again(relay: Relay) -> None:
    slow = iter([True])
    relay.fault = lambda number, method, path: "slow" if path.endswith("/step") and next(slow, False) else None
    with _remote(relay, "stairs", ClientSettings(backoff=0.001, timeout=0.5, retries=2)) as there:
        there.reset(TaskRef("few", 1))
        assert there.step("up").observation.text == "Step 1."
        assert there.step("up").terminated


def test_patience_ends_and_the_turn_can_be_played_again(relay: Relay) -> None:
    with _remote(relay, "stairs") as there:
        there.reset(TaskRef("few", 1))
        relay.fault = lambda number, method, path: "lost"
        before = len(relay.requests)
        with pytest.raises(ServiceError, match=r"the server at 127\.0\.0\.1:\d+ stays away") as raised:
            there.step("up")
        assert "4 attempt(s) failed, the last with: RemoteProtocolError" in raised.value.why
        assert len(relay.requests) - before == 4
        assert there.turn == 0
        relay.fault = lambda number, method, path: None
        assert there.step("up").observation.text == "Step 1."
        assert there.step("up").terminated
        assert there.record().count(b'"kind":"turn"') == 2


def test_a_full_server_is_asked_again_until_patience_ends() -> None:
    with serving("stairs", settings=Settings(max_sessions=1)) as url:
        settings = ClientSettings(backoff=0.001, retries=2, max_wait=0.01, patience=0)
        with RemoteEnv("stairs", url) as one, RemoteEnv("stairs", url, settings=settings) as two:
            one.reset()
            with pytest.raises(ServiceError, match="stays away") as raised:
                two.reset()
            assert "3 attempt(s) failed, the last with: status 503" in raised.value.why
            one.close()
            two.reset(TaskRef("few", 0))
            assert two.step("up").terminated


def test_a_refusal_is_not_asked_again(relay: Relay) -> None:
    with _remote(relay, "stairs") as there:
        there.reset(TaskRef("few", 2))
        with _remote(relay, "stairs") as other:  # a second client that got hold of the session
            other._session.__dict__.update(there._session.__dict__)
            other.step("up")
            before = len(relay.requests)
            with pytest.raises(ServiceError, match=r"refuses: .* \(turn_conflict\)") as raised:
                there.step("down")
            assert len(relay.requests) == before + 1
            assert raised.value.problem == "turn_conflict"
            assert raised.value.fix
            other._session._place = None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"turn": 2}, "ValueError: the answer is to another episode or turn"),
        ({"episode": "e"}, "ValueError: the answer is to another episode or turn"),
        ({"reward": None}, "TypeError: float() argument"),
        ({"terminated": 1}, "TypeError: a int where true or false was expected"),
        ({"observation": {"blocks": 3}}, "TypeError: 'int' object is not iterable"),
        ({"info": {}}, "KeyError: 'invalid'"),
    ],
)
def test_an_answer_to_something_else_is_never_handed_on(relay: Relay, change: Any, why: str) -> None:
    with _remote(relay, "stairs") as there:
        there.reset(TaskRef("few", 2))
        right = {
            "episode": there.episode,
            "turn": 1,
            "observation": {"blocks": [], "budgets": {}},
            "reward": 0.0,
            "terminated": False,
            "truncated": False,
            "info": {"invalid": False},
        }
        relay.fault = lambda number, method, path: (
            (200, {}, json.dumps({**right, **change}).encode()) if path.endswith("/step") else None
        )
        with pytest.raises(ServiceError, match="answers nonsense") as raised:
            there.step("up")
        assert why in raised.value.why
        assert there.turn == 0


@pytest.mark.parametrize("body", [b"[]", b"<html>", b"", b"{", b"3"])
def test_what_is_no_json_object_is_nonsense(relay: Relay, body: bytes) -> None:
    relay.fault = lambda number, method, path: (200, {}, body)
    with pytest.raises(ServiceError, match="answers nonsense"):
        _remote(relay)


@pytest.mark.parametrize(("status", "body"), [(404, b"<html>"), (403, b'{"detail": "no"}'), (500, b"[]"), (302, b"")])
def test_another_kind_of_server_is_told_apart(relay: Relay, status: int, body: bytes) -> None:
    relay.fault = lambda number, method, path: (status, {}, body)
    with pytest.raises(ServiceError, match=r"what answers at .* is no agentenvs server") as raised:
        _remote(relay)
    assert raised.value.why == f"it answers with status {status} and no problem of this protocol"
    assert raised.value.fix == "check the URL: it ends where /v1 begins"
    assert len(relay.requests) == 1


def test_a_url_that_goes_on_too_long(url: str) -> None:
    with pytest.raises(ServiceError, match=r"refuses: no such route \(route_unknown\)") as raised:
        RemoteEnv("household", f"{url}/some/where/else")
    assert raised.value.fix == "check the URL: it ends where /v1 begins"


def test_a_spec_that_is_not_what_its_digest_says(relay: Relay, url: str) -> None:
    import httpx

    form = httpx.get(f"{url}/v1/envs/stairs").json()
    relay.fault = lambda number, method, path: (200, {}, json.dumps({**form, "digest": "0" * 64}).encode())
    with pytest.raises(ServiceError, match="answers nonsense") as raised:
        _remote(relay, "stairs")
    assert "server and client are of different releases" in raised.value.why


def test_nobody_answers() -> None:
    with pytest.raises(ServiceError, match="stays away") as raised:
        RemoteEnv("household", "http://127.0.0.1:9", settings=ClientSettings(retries=1, backoff=0.001))
    assert "ConnectError" in raised.value.why


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_session_that_has_expired() -> None:
    clock = _Clock()
    transport = in_process(make_app(["stairs"], clock=clock))
    with RemoteEnv("stairs", transport=transport, settings=ClientSettings(ttl=10)) as there:
        there.reset(TaskRef("few", 2))
        there.step("up")
        clock.now = 8.0
        assert there.ping().idle == 10.0
        clock.now = 17.0
        there.step("up")
        clock.now = 28.0
        with pytest.raises(EpisodeEnded, match="expired"):
            there.step("up")
        assert (there.ending, there.verdict.success) == ("abandoned", False)
        assert there.record().count(b'"kind":"turn"') == 2
        with pytest.raises(EpisodeEnded):
            there.step("up")
        there.reset(TaskRef("few", 0))  # in a new session
        assert there.step("up").terminated


def test_a_session_that_has_had_its_episodes() -> None:
    transport = in_process(make_app(["stairs"], Settings(max_episodes=2, max_sessions=1)))
    with RemoteEnv("stairs", transport=transport) as there:
        for _ in range(5):
            there.reset(TaskRef("few", 0))
            assert there.step("up").terminated


# ---- secrets ---------------------------------------------------------------------------------------------------------


def test_a_token_is_sent_and_told_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    transport = in_process(make_app(["stairs"], Settings(tokens=(TOKEN,))))
    with RemoteEnv("stairs", transport=transport, token=TOKEN) as there:
        there.reset(TaskRef("few", 0))
        assert there.step("up").terminated
        assert TOKEN not in repr(there) + repr(there._endpoint) + repr(there._line)
    monkeypatch.setenv("AGENTENVS_TOKEN", TOKEN)
    RemoteEnv("stairs", transport=transport).close()
    monkeypatch.setenv("AGENTENVS_TOKEN", "another-secret-token-987")
    with pytest.raises(ServiceError, match=r"refuses: .* \(unauthorized\)") as raised:
        RemoteEnv("stairs", transport=transport)
    assert raised.value.fix.startswith("give token=, or set AGENTENVS_TOKEN")
    assert "another-secret" not in "".join(traceback.format_exception(raised.value))


def test_no_secret_of_the_session_stands_in_an_error(relay: Relay) -> None:
    with _remote(relay, "stairs") as there:
        there.reset()
        secrets = [there._session._place._path.rsplit("/", 1)[1], there.agent_key]
        relay.fault = lambda number, method, path: "deaf"
        with pytest.raises(ServiceError) as raised:
            there.step("up")
        said = "".join(traceback.format_exception(raised.value)) + repr(there)
        assert not [secret for secret in secrets if secret in said]


@pytest.mark.parametrize("token", ["two words", "naïve", "new\nline"])
def test_a_token_that_cannot_be_sent(token: str) -> None:
    with pytest.raises(ConfigError, match="the token cannot be sent") as raised:
        Endpoint("http://x", token)
    assert token not in str(raised.value)


@pytest.mark.parametrize("url", ["", "x", "ftp://x", "http://", "http://x:port", "file:///etc/passwd"])
def test_a_url_that_is_none(url: str) -> None:
    with pytest.raises(ConfigError, match="the URL of the server is none"):
        Endpoint(url)


@pytest.mark.parametrize("url", ["http://me:secret@x", "http://x?token=secret", "http://x#secret"])
def test_a_url_with_a_secret_in_it(url: str) -> None:
    with pytest.raises(ConfigError, match="has a user, a query or a fragment") as raised:
        Endpoint(url)
    assert "secret" not in str(raised.value)


def test_proxies_of_the_shell_are_not_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert Endpoint("http://example.com").proxy() == "http://127.0.0.1:1"
    assert [Endpoint(f"http://{host}:8").proxy() for host in ("localhost", "127.0.0.1", "[::1]")] == [None] * 3


@pytest.mark.parametrize(
    ("host", "kind"),
    [("localhost", "loopback"), ("::1", "loopback"), ("10.1.1.1", "private"), ("gpu7", "private"), ("a.org", "public")],
)
def test_kinds_of_addresses(host: str, kind: str) -> None:
    assert address_class(host) == kind
