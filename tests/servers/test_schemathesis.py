"""The server's document against the server: schemathesis asks every operation what its schemas allow, and what not.

All its checks run. Cases that are meant to be sound are pointed at a session that is open, so that more than refusals
is seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case, GenerationMode

from agentenvs.core.sealed import sealed_secret_id
from agentenvs_servers import run
from agentenvs_servers.app import make_app
from agentenvs_servers.journal import tickets
from agentenvs_servers.journal.opening import visit
from agentenvs_servers.journal.tickets import Terms
from agentenvs_servers.settings import Settings
from tests.servers.wire import key

EXAMPLES = 25

schema = schemathesis.openapi.from_dict(make_app(["household"]).app.openapi())  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("journal") / "journal.db"


@pytest.fixture(scope="module")
def url(journal: Path) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTENVS_SEALED_SECRET", "5" * 64)
        with run.background(["household"], Settings(max_sessions=100_000), journal=str(journal)) as found:
            yield found


@pytest.fixture
def ticket(journal: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Return what issues tickets, each to another contestant."""
    monkeypatch.setenv("AGENTENVS_SEALED_SECRET", "5" * 64)  # every test begins without

    def issue() -> str:
        terms = Terms("b", key(), "agentenvs/Household-v0", "sealed", sealed_secret_id(), time.time() + 3600.0)
        opened = visit(str(journal), writes=True)
        with opened.engine.begin() as connection:
            made, _ = tickets.issue(connection, terms, lambda _: (0, 1), time.time())
        opened.engine.dispose()
        return made

    return issue


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


def _aim_ticket(case: Case, url: str, ticket: str) -> None:
    """Come with a ticket, and name an episode of it."""
    path, headers = case.operation.path, {"Authorization": f"Bearer {ticket}"}
    case.headers.update(headers)
    if path in ("/v1/tickets/end", "/v1/tickets/record"):
        episode = httpx.post(f"{url}/v1/tickets/next", headers=headers).json()["episode"]
        if path == "/v1/tickets/end":
            case.body["episode"] = episode
        else:
            httpx.post(f"{url}/v1/tickets/end", headers=headers, json={"episode": episode})
            case.query["episode"] = episode


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
def test_every_operation_does_as_documented(
    case: Case, url: str, answered: set[int], ticket: Callable[[], str]
) -> None:
    if case.meta is not None and case.meta.generation.mode is GenerationMode.POSITIVE:
        if case.operation.path.startswith("/v1/tickets"):
            _aim_ticket(case, url, ticket())
        else:
            _aim(case, url)
    answered.add(case.call_and_validate(base_url=url).status_code)
