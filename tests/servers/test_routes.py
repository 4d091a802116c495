"""Every route answers what its document says, and both ways into the server answer the same bytes."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate as validate_document

from agentenvs.core import registry
from agentenvs.core.spec import EnvSpec
from agentenvs_servers import wire as forms
from agentenvs_servers.problems import CATALOGUE
from tests.servers.wire import Play, Wire, problem

pytestmark = pytest.mark.anyio

ROUTES = {
    ("get", "/health"),
    ("get", "/ready"),
    ("get", "/metrics"),
    ("get", "/v1/envs"),
    ("get", "/v1/envs/{env}"),
    ("post", "/v1/sessions"),
    ("get", "/v1/sessions/{session}"),
    ("delete", "/v1/sessions/{session}"),
    ("post", "/v1/sessions/{session}/reset"),
    ("post", "/v1/sessions/{session}/step"),
    ("post", "/v1/sessions/{session}/fork"),
    ("get", "/v1/sessions/{session}/trace"),
    ("get", "/v1/sessions/{session}/record"),
    ("post", "/v1/sessions/{session}/ping"),
    ("post", "/v1/steps"),
    ("get", "/v1/agent"),
    ("get", "/v1/tickets"),
    ("post", "/v1/tickets/next"),
    ("post", "/v1/tickets/end"),
    ("get", "/v1/tickets/record"),
    ("post", "/v1/agent/step"),
}


async def _document(wire: Wire) -> dict[str, Any]:
    answer = await wire.get("/openapi.json")
    assert answer.status_code == 200
    return answer.json()


async def test_the_document_is_sound_and_has_every_route(wire):
    document = await _document(wire)
    validate_document(document)
    assert {(method, path) for path, methods in document["paths"].items() for method in methods} == ROUTES
    assert set(document["components"]["schemas"]) >= {name for name in forms.__all__ if name != "Wire"}
    assert (await wire.get("/docs")).status_code == 200


async def test_the_document_names_every_problem_but_those_of_no_route(wire):
    document = await _document(wire)
    named: set[str] = set()
    for methods in document["paths"].values():
        for method in methods.values():
            assert method["summary"]
            assert method["description"]
            for status, answer in method["responses"].items():
                codes = answer["description"].split(", ") if status >= "4" else []
                assert {CATALOGUE[code].status for code in codes} <= {int(status)}
                named.update(codes)
    assert set(CATALOGUE) - named == {
        "bad_http",
        "head_too_large",
        "host_foreign",
        "library_unknown",
        "not_begun",
        "origin_foreign",
        "route_unknown",
        "method_unknown",
        "too_many_connections",
    }


def _operation(path: str) -> str:
    shown = re.sub(r"(?<=/v1/sessions/)[^/]+", "{session}", path)
    return re.sub(r"(?<=/v1/envs/).+", "{env}", shown)


def _fits(document: dict[str, Any], answer: httpx.Response) -> None:
    """Check an answer against the document, as a client that trusts it would."""
    operation = document["paths"][_operation(answer.request.url.path)][answer.request.method.lower()]
    content = operation["responses"][str(answer.status_code)]["content"][answer.headers["content-type"]]
    if content["schema"] == {"type": "string"}:
        return
    schema = {**content["schema"], "components": document["components"]}
    assert [error.message for error in Draft202012Validator(schema).iter_errors(answer.json())] == []


@pytest.mark.parametrize("env", ["room", "household", "ledger", "clerk", "slow_tool"])
async def test_every_route_answers_as_documented(serve, env):
    wire = serve(env)
    document = await _document(wire)
    play = await wire.play(env, trace=True)
    spec = registry.spec(env)
    answers = [
        await wire.get("/health"),
        await wire.get("/ready"),
        await wire.get("/metrics"),
        await wire.get("/v1/envs"),
        await wire.get(f"/v1/envs/{env}"),
        await wire.get(f"/v1/envs/{spec.id}"),
        await wire.make(env, count=2),
        await wire.make(env, task={"split": "train", "seed": 2**70}),
        await play.agent(),
        await play.step(1, "look"),
        await play.step(1, "look", trace=True),
        await play.agent_step(2, {"tool": "look", "arguments": {"big": 2**70}}),
        await wire.get(f"{play.path}/trace"),
        await play.status(),
        await play.agent(),
        await wire.post(f"{play.path}/ping", None),
        await play.reset("same"),
        await play.status(),
        await wire.get(f"{play.path}/record?episode={play.episode}"),
        await play.step(9, "look"),
        await play.close(),
    ]
    for answer in answers:
        _fits(document, answer)
    assert {answer.status_code for answer in answers} == {200, 201, 409}


async def test_an_environment_is_described_as_it_is_here(serve):
    wire = serve("household", options={"limit": 7})
    told = (await wire.get("/v1/envs/household")).json()
    spec = registry.spec("household")
    assert [told[name] for name in ("id", "slug", "release", "digest")] == [
        spec.id,
        spec.slug,
        spec.release,
        spec.digest,
    ]
    assert EnvSpec.from_json(told["spec"]).digest == spec.digest
    assert (told["spec"]["entry_point"], told["spec"]["players"]) == ("", {})
    assert (told["options"]["limit"], told["budgets"]["steps"], "data" in told["options"]) == (7, 7, False)
    assert told["card"]["env"] == spec.id
    assert (await wire.get("/v1/envs")).json()["envs"][0]["digest"] == spec.digest
    play = await wire.play("household")
    assert play.form["task"]["options"]["limit"] == 7
    assert (await wire.play("household", options={"limit": 3})).form["observation"]["budgets"] == {"steps": 3}


async def test_a_seed_of_more_than_64_bits_comes_back_whole(wire):
    seed = 2**70 + 1
    play = await wire.play(task={"split": "train", "seed": seed})
    assert play.form["task"]["ref"]["index"] == seed
    group = (await wire.make(task={"split": "train", "seed": seed}, count=2)).json()["sessions"]
    assert [form["task"]["ref"]["index"] for form in group] == [seed, seed]
    assert (await play.status()).json()["task"]["ref"]["index"] == seed
    assert (await play.agent()).json()["task"]["ref"]["index"] == seed
    await play.step(1, "win")
    assert (await play.record()).ref.index == seed


async def test_copies_of_a_task_are_equal_and_apart(serve):
    wire = serve("household")
    forms = (await wire.make("household", task={"split": "train", "seed": 5}, count=4)).json()["sessions"]
    assert len({form["observation"]["blocks"][0]["text"] for form in forms}) == 1
    plays = [Play(wire, form) for form in forms]
    await plays[0].step(1, "look")
    assert [(await play.status()).json()["turn"] for play in plays] == [1, 0, 0, 0]


async def test_methods_and_addresses_that_are_not_there(wire):
    play = await wire.play()
    allowed = {
        "/health": "GET, HEAD",
        "/v1/sessions": "POST",
        play.path: "DELETE, GET, HEAD",
        f"{play.path}/step": "POST",
        f"{play.path}/reset": "POST",
        "/v1/agent": "GET, HEAD",
        "/v1/agent/step": "POST",
    }
    for path, methods in allowed.items():
        for method in ("PUT", "PATCH", "OPTIONS", "TRACE", "BREW"):
            answer = await wire.http.request(method, path)
            problem(answer, "method_unknown")
            assert answer.headers["allow"] == methods
        if "GET" not in methods:
            assert (await wire.http.head(path)).status_code == 405
    for path in (
        "/",
        "//",
        "/v1",
        "/v1/",
        "/v1//sessions",
        "/v1/sessions/",
        "/v1/sessions//step",
        "/v1/agent/",
        "/V1/envs",
    ):
        problem(await wire.http.post(path), "route_unknown")
    for path in (f"{play.path}/", f"{play.path}/step/", f"{play.path}/x/step", f"{play.path}%2Fstep/x", "/health/"):
        problem(await wire.get(path), "route_unknown")


JUNK = [
    b"",
    b"{}",
    b"[]",
    b"{",
    b'{"episode":"x","turn":1,"action":"a"}',
    b'{"turn":1,"action":"a"}',
    b'{"turn":1.0,"action":"a"}',
    b"\xff",
    b" " * 200,
]


@pytest.mark.parametrize("body", [*JUNK, None], ids=range(len(JUNK) + 1))
async def test_both_ways_into_a_step_answer_the_same_bytes(serve, body):
    wire = serve(max_body_bytes=150, tokens=("a-token-of-many-characters",))
    token = {"authorization": "Bearer a-token-of-many-characters"}
    made = await wire.http.post("/v1/sessions", json={"env": "room", "key": "k"}, headers=token)
    play = Play(wire, made.json())
    sent = body or b'{"episode":"%b","turn":1,"action":"look"}' % play.episode.encode()
    slow = httpx.AsyncClient(transport=httpx.ASGITransport(wire.app.app), base_url="http://server")
    asked = 0
    for path in (f"{play.path}/step", "/v1/agent/step", "/v1/sessions/none/step", f"/v1/sessions/{'x' * 500}/step"):
        for credentials in ({}, token, {"authorization": f"Bearer {play.agent_key}"}, {"authorization": "Basic x"}):
            for kind in ({"content-type": "application/json"}, {}, {"content-type": "text/plain"}):
                two = [
                    await client.post(path, content=sent, headers={**credentials, **kind})
                    for client in (wire.http, slow)
                ]
                assert two[0].content == two[1].content
                assert two[0].status_code == two[1].status_code
                headers = [{**answer.headers, "x-request-id": ""} for answer in two]
                assert headers[0] == headers[1]
                asked += 1
    assert asked == 48
    await slow.aclose()
