"""The official clients of OpenAI and Anthropic play through the proxy unmodified."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.adapters.peers import peer_python
from tests.harness.proxy.playing import chunk, proxied, streams

SCRIPT = Path(__file__).parent / "peers" / "clients.py"

pytestmark = pytest.mark.peer


def run(proxy, account, *parts):
    python = peer_python("AGENTENVS_PEER_CLIENTS", "openai and anthropic")
    env = {**os.environ, **proxy.told(account)}
    done = subprocess.run([python, str(SCRIPT), *parts], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_calls_and_words_streamed_and_not():
    with proxied() as (endpoint, proxy, account):
        found = run(proxy, account, "chat", "responses", "messages")
    place = {"place": "fridge 1"}
    assert found["chat call"][:2] == ["go_to", place]
    assert found["chat words"] == "Hello."
    assert found["chat stream call"] == ["I go.", '{"place": "fridge 1"}']
    assert found["chat stream words"][:2] == ["Hell", "o."]
    assert found["responses call"] == ["I go.", "go_to", place, 24]
    assert found["responses words"] == found["responses goes on"] == "Hello."
    kinds, text, arguments = found["responses stream"]
    assert (text, json.loads(arguments)) == ("I go.", place)
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    assert found["messages call"] == ["I go.", "go_to", place, "tool_use", [15, 5, 4]]
    assert found["messages words"] == "Hello."
    assert found["messages stream"] == [["I go."], place, "tool_use", 4]
    assert found["models"] == ["the-model", "the-model"]
    assert {request["model"] for request in endpoint.requests} == {"the-model"}
    counted = account.usage()
    assert (counted["tokens_in"], counted["tokens_out"]) == (20 * 11, 4 * 11)


def test_refusals_are_the_errors_that_each_client_knows():
    with proxied(max_calls=1) as (_, proxy, account):
        account.begin()
        found = run(proxy, account, "refusals")
    assert found["spent openai"] == ["RateLimitError", 429, True]
    assert found["spent responses"] == ["RateLimitError", 429, True]
    assert found["spent anthropic"] == ["PaymentRequiredError", 402, True]
    assert found["key openai"] == ["AuthenticationError", 401, False]
    assert found["key anthropic"] == ["AuthenticationError", 401, False]


def test_a_stream_whose_endpoint_dies_is_an_error_and_no_short_answer():
    half = streams(chunk({"role": "assistant", "content": "Hell"}), end=False)
    with proxied(default=half, retries=0) as (_, proxy, account):
        found = run(proxy, account, "broken")
    assert found["broken chat"] is True
    assert found["broken responses"] == "response.failed"
    assert found["broken messages"] is True
    assert account.metrics()["model_errors"] == 3
