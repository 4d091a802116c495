"""Each episode has a key, an account and budgets of its own, and the endpoint's key stays with the proxy."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import httpx
import pytest

from agentenvs.core.errors import ConfigError
from agentenvs.harness import planfile
from agentenvs.harness.model_settings import OpenAISettings
from agentenvs.harness.proxy.settings import ProxySettings
from tests.harness.endpoint import of_body, words
from tests.harness.proxy.playing import ASKED, DONE, SAID, SPOKEN, USAGE, chunk, events, post, proxied, streams

REAL = "sk-real-0123456789"


@pytest.mark.parametrize("path", ASKED)
@pytest.mark.parametrize("key", ["", "Bearer", "Bearer sk-agentenvs-000003-guessed", "Basic abc", "Bearer \xe9"])
def test_a_key_of_no_episode_is_401_in_the_shape_of_the_api(path, key):
    with proxied() as (endpoint, proxy, account):
        answer = post(proxy, account, path, ASKED[path], headers={"Authorization": key.encode("latin-1")})
        assert answer.status_code == 401
        assert answer.headers["x-should-retry"] == "false"
        assert endpoint.requests == []
    error = answer.json()["error"]
    assert error["type"] == "authentication_error"
    assert answer.json().get("type") == ("error" if path == "messages" else None)


def test_the_key_of_an_episode_that_is_over_is_401():
    with proxied() as (endpoint, proxy, account):
        assert post(proxy, account, "messages", ASKED["messages"]).status_code == 200
        proxy.close(account)
        assert post(proxy, account, "messages", ASKED["messages"]).status_code == 401
        assert len(endpoint.requests) == 1


def test_the_real_key_goes_to_the_endpoint_alone(monkeypatch):
    monkeypatch.setenv("REAL_KEY", REAL)
    said = streams(chunk({"content": f"it is {REAL}"}), chunk({}, "stop", usage=USAGE), DONE)
    answers = [words(f"it is {REAL}"), (400, {}, json.dumps({"error": {"message": f"{REAL}?"}}).encode()), said]
    with proxied(*answers, api_key_env="REAL_KEY") as (endpoint, proxy, account):
        told = [post(proxy, account, "chat/completions", ASKED["chat/completions"]).text for _ in answers[:2]]
        told.append(post(proxy, account, "chat/completions", {**SAID, "stream": True}).text)
        assert all("[key]" in text and REAL not in text for text in told)
        assert {headers["authorization"] for headers in endpoint.headers} == {f"Bearer {REAL}"}
        assert REAL not in json.dumps([account.sidecar(), proxy.told(account)])


def test_episodes_side_by_side_never_mix():
    echo = of_body(lambda body: words(body["messages"][0]["content"]))
    with proxied(default=echo) as (_, proxy, _), ThreadPoolExecutor(16) as pool:
        accounts = [proxy.open(number) for number in range(4)]

        def ask(turn):
            account = accounts[turn % 4]
            body = {"messages": [{"role": "user", "content": f"{account.number}/{turn}"}]}
            answer = post(proxy, account, "chat/completions", body).json()
            return answer["choices"][0]["message"]["content"] == f"{account.number}/{turn}"

        assert all(pool.map(ask, range(48)))
        for account in accounts:
            calls = account.sidecar()["calls"]
            said = [call["reply"]["choices"][0]["message"]["content"] for call in calls]
            assert sorted(call["call"] for call in calls) == list(range(1, 13))
            assert {text.split("/")[0] for text in said} == {str(account.number)}
            assert account.usage()["tokens_in"] == 120


@pytest.mark.parametrize(
    ("budget", "words_of_it"),
    [
        ({"max_calls": 2}, "2 of 2 model calls"),
        ({"tokens": 30}, "30 of 30 tokens"),
        (
            {"dollars": Decimal("0.00003"), "price_in": Decimal(1), "price_out": Decimal(1)},
            "0.00003 of 0.00003 dollars",
        ),
    ],
)
def test_a_spent_budget_is_refused_before_the_endpoint_is_asked(budget, words_of_it):
    with proxied(default=words("Hello."), **budget) as (endpoint, proxy, account):
        statuses = [post(proxy, account, "chat/completions", ASKED["chat/completions"]).status_code for _ in range(3)]
        assert statuses == [200, 200, 429]
        spent = post(proxy, account, "chat/completions", ASKED["chat/completions"])
        assert (spent.json()["error"]["type"], spent.json()["error"]["code"]) == (
            "insufficient_quota",
            "episode_budget_spent",
        )
        assert words_of_it in spent.json()["error"]["message"]
        other = post(proxy, account, "messages", ASKED["messages"])
        assert (other.status_code, other.json()["error"]["type"]) == (402, "billing_error")
        assert len(endpoint.requests) == 2
        assert post(proxy, proxy.open(9), "chat/completions", ASKED["chat/completions"]).status_code == 200


def test_calls_side_by_side_do_not_slip_past_a_budget_of_calls():
    with proxied(default=words("Hello."), max_calls=3) as (endpoint, proxy, account), ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(post, proxy, account, "chat/completions", ASKED["chat/completions"]) for _ in range(12)]
        assert sorted(one.result().status_code for one in asked) == [200] * 3 + [429] * 9
        assert len(endpoint.requests) == 3


def test_a_budget_of_tokens_holds_where_nobody_counts():
    silent = words("x" * 400, usage=None)
    with proxied(default=silent, tokens=200) as (_, proxy, account):
        statuses = [post(proxy, account, "chat/completions", ASKED["chat/completions"]).status_code for _ in range(4)]
        assert statuses == [200, 200, 429, 429]
        assert account.usage()["tokens_in"] is None


def test_more_calls_than_may_run_at_a_time_wait():
    gate, most, now, lock = threading.Event(), [], [0], threading.Lock()

    def slow(handler):
        with lock:
            now[0] += 1
            most.append(now[0])
        gate.wait(0.2)
        with lock:
            now[0] -= 1
        handler._send(200, {"Content-Type": "application/json"}, json.dumps(words("Hello.")).encode())

    with proxied(default=slow, parallel=2) as (_, proxy, account), ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(post, proxy, account, "chat/completions", ASKED["chat/completions"]) for _ in range(6)]
        assert {one.result().status_code for one in asked} == {200}
    assert max(most) == 2


def test_what_is_kept_says_everything_once():
    turns = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
    more = [*turns, {"role": "user", "content": "three"}]
    with proxied() as (_, proxy, account):
        post(proxy, account, "chat/completions", {"model": "mine", "messages": turns, "temperature": 0.5})
        post(proxy, account, "chat/completions", {"messages": more, "stream": True})
        first, second = account.sidecar()["calls"]
    assert first["prompt"]["messages"] == turns
    assert (second["prompt"]["as_call"], second["prompt"]["first"]) == (1, 2)
    assert second["prompt"]["messages"] == more[2:]
    assert first["request"]["temperature"] == 0.5
    assert (first["asked_for"], first["request"]["model"]) == ("mine", "the-model")
    assert second["reply"]["choices"][0]["message"] == {"role": "assistant", "content": "Hello."}
    assert (second["streamed"], second["chunks"], second["tokens_in"], second["tokens_cached"]) == (True, 4, 20, 5)


def test_token_ids_and_log_probabilities_are_kept_streamed_or_not():
    def token(word):
        return {"token": word, "logprob": -0.5, "top_logprobs": []}

    whole = {**words("ab"), "prompt_token_ids": [7, 8]}
    whole["choices"][0].update(token_ids=[1, 2], logprobs={"content": [token("a"), token("b")]})

    def part(word, number, **more):
        choice = {"index": 0, "delta": {"content": word}, "token_ids": [number], "logprobs": {"content": [token(word)]}}
        return chunk(None, choices=[choice], **more)

    stream = streams(part("a", 1, prompt_token_ids=[7, 8]), part("b", 2), chunk({}, "stop"), DONE)
    with proxied(whole, stream, extra={"logprobs": True, "return_token_ids": True}) as (endpoint, proxy, account):
        post(proxy, account, "messages", ASKED["messages"])
        post(proxy, account, "messages", {**ASKED["messages"], "stream": True})
        kept = [call["tokens"] for call in account.sidecar()["calls"]]
    assert kept == [{"prompt_ids": [7, 8], "ids": [1, 2], "logprobs": [token("a"), token("b")]}] * 2
    assert all(request["logprobs"] and request["return_token_ids"] for request in endpoint.requests)


def test_what_is_kept_is_bounded(monkeypatch):
    monkeypatch.setattr("agentenvs.harness.proxy.ledger.KEPT_BYTES", 2_000)
    monkeypatch.setattr("agentenvs.harness.proxy.ledger.MAX_LINES", 5)
    body = {"messages": [{"role": "user", "content": "x" * 1_500}]}
    with proxied(default=words("y" * 1_000)) as (_, proxy, account):
        for _ in range(8):
            assert post(proxy, account, "chat/completions", body).status_code == 200
        kept = account.sidecar()
    assert (kept["model_calls"], len(kept["calls"])) == (8, 5)
    assert len(json.dumps(kept)) < 9_000
    assert kept["calls"][0]["reply"]["left_out"] > 1_000


def test_what_the_run_sets_goes_before_what_the_program_says():
    given = {"temperature": 0.0, "seed": 5, "max_tokens": 100, "extra": {"top_k": 1}}
    with proxied(**given) as (endpoint, proxy, account):
        post(proxy, account, "chat/completions", {**SAID, "temperature": 2, "max_completion_tokens": 7, "top_k": 50})
        post(proxy, account, "responses", {"input": "Hi.", "max_output_tokens": 4_000})
        post(proxy, account, "chat/completions", SAID)
    first, second, third = endpoint.requests
    assert (first["temperature"], first["seed"], first["top_k"]) == (0.0, 5, 1)
    assert first["max_completion_tokens"] == 7
    assert "max_tokens" not in first
    assert second["max_tokens"] == third["max_tokens"] == 100


@pytest.mark.parametrize("asks", [True, False])
def test_the_usage_of_a_chat_stream_is_shown_to_those_who_ask(asks):
    body = {**SAID, "stream": True, **({"stream_options": {"include_usage": True}} if asks else {})}
    with proxied(default=streams(*SPOKEN, chunk(None, usage=USAGE), DONE)) as (endpoint, proxy, account):
        found = events(post(proxy, account, "chat/completions", body).text)
        assert account.usage()["tokens_in"] == 20
    assert endpoint.requests[0]["stream_options"] == {"include_usage": True}
    assert [bool(event != "[DONE]" and event.get("usage")) for event in found] == [False] * 3 + [True] * asks + [False]


def test_the_models_are_one():
    with proxied() as (_, proxy, account):
        url = proxy.told(account)["OPENAI_BASE_URL"]
        with httpx.Client(trust_env=False, headers={"x-api-key": account.key}) as http:
            assert [model["id"] for model in http.get(f"{url}/models").json()["data"]] == ["the-model"]
            assert http.get(f"{url}/models/the-model").json()["id"] == "the-model"
            assert http.get(f"{url}/models/other").status_code == 404
            assert http.get(f"{url}/embeddings").status_code == 404
            assert http.get(f"{url}/messages").status_code == 405


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"tokens": "many"}, "number"),
        ({"tokens": 0}, "tokens 0"),
        ({"dollars": "1"}, "prices"),
        ({"dollars": "nan"}, "dollars"),
        ({"apis": "responses"}, "must speak chat"),
        ({"apis": "chat,telepathy"}, "telepathy"),
    ],
)
def test_settings_that_make_no_sense_are_refused(given, word):
    model = OpenAISettings(model="m", base_url="http://127.0.0.1:1/v1")
    with pytest.raises(ConfigError, match=word):
        ProxySettings.parse(model, **given)


def test_a_run_that_goes_on_has_the_same_settings():
    model = OpenAISettings(model="m", base_url="http://127.0.0.1:1/v1", price_in=Decimal(1), price_out=Decimal(2))
    settings = ProxySettings.parse(model, tokens="7", dollars="0.5", apis="chat,messages")
    assert planfile.settings_of(json.loads(json.dumps(planfile.spelled(settings)))) == settings
