"""The server's document against the server: schemathesis asks every operation what its schemas allow, and what not.

All its checks run. Cases that are meant to be sound are pointed at a session that is open, so that more than refusals
is seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case, GenerationMode

from agentenvs_servers import run
from agentenvs_servers.app import make_app
from agentenvs_servers.settings import Settings
from tests.servers.wire import key

EXAMPLES = 25

schema = schemathesis.openapi.from_dict(make_app(["household"]).app.openapi())  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with run.background(["household"], Settings(max_sessions=100_000)) as found:
        yield found


def _open(url: str) -> dict[str, Any]:
    """Return a session that is open."""
    body = {"env": "household", "key": key(), "trace": True, "task": {"split": "builtin"}}
    answer = httpx.post(f"{url}/v1/sessions", json=body)
    assert answer.status_code == 201
    return answer.json()


def _aim_create(body: dict[str, Any]) -> None:
    """Ask for what there is, within limits that no schema tells."""
    body["env"], body["key"] = "household", key()
    for field in ("task", "tasks", "options", "ttl"):
        body.pop(field, None)
    _aim_count(body)


def _aim_count(body: dict[str, Any]) -> None:
    if body.get("count") is not None:
        body["count"] = int(min(body["count"], 3))


def _aim_step(body: dict[str, Any], session: dict[str, Any]) -> None:
    """Play the first turn. A schema takes 1.0 for an integer, which the server does not."""
    names = {"session": session["session"], "episode": session["episode"], "turn": 1}
    body.update({name: value for name, value in names.items() if name in body})


def _aim(case: Case, url: str) -> None:
    path, body, session = case.operation.path, case.body, _open(url)
    values = {"env": "household", "session": session["session"]}
    case.path_parameters.update({name: values[name] for name in values if f"{{{name}}}" in path})
    if path.startswith("/v1/agent"):
        case.headers["Authorization"] = f"Bearer {session['agent_key']}"
    if path == "/v1/sessions":
        _aim_create(body)
    elif path.endswith("/reset"):
        body.update(ends=session["episode"], task="same")
    elif path.endswith("/fork"):
        _aim_count(body)
    elif path.endswith("/record"):
        case.query.pop("episode", None)
        assert httpx.delete(f"{url}/v1/sessions/{session['session']}").status_code == 200
    for item in body["items"] if path == "/v1/steps" else [body] if path.endswith("/step") else []:
        _aim_step(item, session)


@pytest.fixture
def answered() -> Iterator[set[int]]:
    """Collects the statuses of an operation's answers: some must be a success, and others a refusal."""
    found: set[int] = set()
    yield found
    assert min(found) < 300
    assert max(found) > 400


@schema.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_every_operation_does_as_documented(case: Case, url: str, answered: set[int]) -> None:
    if case.meta is not None and case.meta.generation.mode is GenerationMode.POSITIVE:
        _aim(case, url)
    answered.add(case.call_and_validate(base_url=url).status_code)
