"""The policy against a real endpoint: what it sends, what it makes of replies, what it keeps."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from agentenvs.core.actions import Calls, End, Malformed, Message, ToolCall, to_json
from agentenvs.core.environment import Environment
from agentenvs.core.errors import ConfigError
from agentenvs.core.task import TaskRef
from agentenvs.harness.openai import OpenAIPolicy, OpenAISettings, env_options, factory
from agentenvs.harness.rollout import Episode, play
from tests.harness.endpoint import Endpoint, calls, serve, without_proxies, words
from tests.harness.toys import Counter, Desk


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    without_proxies(monkeypatch)


def settings(endpoint: Endpoint, **given: Any) -> OpenAISettings:
    return OpenAISettings(**{"model": "m", "base_url": endpoint.url, "backoff": 0.0, "timeout": 5.0, **given})


def played(env: Environment, endpoint: Endpoint, **given: Any) -> tuple[Episode, OpenAIPolicy]:
    policy = factory(env.spec, settings(endpoint, **given))
    try:
        return play(env, policy, TaskRef("train", 0)), policy
    finally:
        policy.close()


def first_action(env: Environment, *answers: Any, **given: Any) -> tuple[Any, OpenAIPolicy]:
    with serve(*answers) as endpoint:
        policy = factory(env.spec, settings(endpoint, **given))
        observation = env.reset()
        policy.reset(env.spec, env.task())
        try:
            return policy.act(observation), policy
        finally:
            policy.close()


def test_tool_calls_win_an_episode() -> None:
    with serve(calls(("add", {"by": 1}), text="one"), calls(("add", {"by": 1}), ("add", {"by": 1}))) as endpoint:
        episode, policy = played(Counter(), endpoint)
    assert episode.summary.success
    assert episode.summary.turns == 2
    assert policy.usage == {"tokens_in": 20, "tokens_out": 10, "tokens_cached": None, "cost_microusd": None}
    first, second = endpoint.requests
    assert [tool["function"]["name"] for tool in first["tools"]] == ["add"]
    assert [message["role"] for message in first["messages"]] == ["system", "user"]
    assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant", "tool"]
    said, result = second["messages"][2:]
    assert said["tool_calls"][0]["id"] == result["tool_call_id"]
    assert result["content"] == "The count is 1.\n\n[steps left: 7]"


def test_each_call_of_a_turn_gets_its_result() -> None:
    made = calls(("add", {"by": 1}), ("add", {"by": 1}))
    with serve(made, made) as endpoint:
        played(Counter(), endpoint)
    results = [message for message in endpoint.requests[1]["messages"] if message["role"] == "tool"]
    assert [result["content"].split("\n")[0] for result in results] == ["The count is 1.", "The count is 2."]


def test_too_many_calls_are_for_the_environment_to_refuse() -> None:
    with serve(calls(*[("add", {})] * 3), default=words("x")) as endpoint:
        episode, _ = played(Counter(), endpoint)
    turn = episode.sidecar["turns"][0]
    assert len(turn["action"]["calls"]) == 3
    assert turn["observation"] == "Invalid action: at most 2 tool calls a turn, not 3."
    results = [message["content"] for message in endpoint.requests[1]["messages"] if message["role"] == "tool"]
    assert results[0].startswith("Invalid action")
    assert len(results) == 3


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (calls(("add", '{"by": ')), "the arguments of add are no JSON"),
        (calls(("add", "[1]")), "the arguments of add are no JSON object"),
        (calls(("add", '{"by": NaN}')), "nested too deeply, too long, or no JSON"),
        (calls(("add", {}), ("add", "{")), "the arguments of add are no JSON"),
        (calls(("", {})), "a tool call names no tool"),
        (calls(("add", '{"by":' * 5000)), "the arguments of add are no JSON"),
        (words("I would add."), "the reply holds no tool call"),
        (words(None), "the reply is empty"),
        (words("", finish="length"), "the reply is empty (it was cut off by its length limit)"),
        ({"choices": [{"message": {"role": "assistant", "tool_calls": [7]}}]}, "a tool call names no tool"),
        ({"choices": [{"message": {"content": [{"type": "text", "text": "hm"}]}}]}, "the reply holds no tool call"),
    ],
)
def test_a_strange_reply_is_a_malformed_turn(answer: Any, why: str) -> None:
    action, policy = first_action(Counter(), answer)
    assert isinstance(action, Malformed)
    assert why in action.why
    assert policy.metrics()["format_failures"] == 1
    assert Counter().reset() is not None
    json.dumps(policy.sidecar())


def test_a_broken_call_is_repeated_to_the_model_as_words() -> None:
    with serve(calls(("add", "{")), default=calls(("add", {"by": 3}))) as endpoint:
        episode, _ = played(Counter(), endpoint)
    assert episode.summary.success
    said, answer = endpoint.requests[1]["messages"][2:]
    assert said == {"role": "assistant", "content": "[tool call add({)]"}
    assert answer["role"] == "user"


@pytest.mark.parametrize("given", ["", "null", "{}", "  "])
def test_absent_arguments_are_none(given: str) -> None:
    action, _ = first_action(Counter(), calls(("add", given)))
    assert action == ToolCall("add", {})


def test_arguments_may_come_as_an_object() -> None:
    made = calls(("add", {}))
    made["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = {"by": 2}
    action, _ = first_action(Counter(), made)
    assert action == ToolCall("add", {"by": 2})


def test_a_dialogue_has_messages_tools_and_an_end() -> None:
    answers = (calls(("hours", {})), words("At nine."), calls(("end_episode", {"reason": "done"})))
    with serve(*answers) as endpoint:
        episode, _ = played(Desk(), endpoint)
    assert episode.summary.success
    assert [tool["function"]["name"] for tool in endpoint.requests[0]["tools"]] == ["hours", "end_episode"]
    assert endpoint.requests[1]["messages"][-1]["content"].startswith('{"open":9}')


def test_words_beside_a_call_are_a_message_where_messages_are_taken() -> None:
    action, _ = first_action(Desk(), calls(("hours", {}), text="Wait."))
    assert action == Calls((ToolCall("hours", {}),), "Wait.")
    action, _ = first_action(Counter(), calls(("add", {}), text="Wait."))
    assert action == ToolCall("add", {})


@pytest.mark.parametrize(
    ("env", "text", "action"),
    [
        (Counter, "I add.\nAction: add", "add"),
        (Counter, 'Action: {"tool": "add", "arguments": {"by": 2}}', ToolCall("add", {"by": 2})),
        (Counter, 'Action: [{"tool": "add"}, {"tool": "add"}]', Calls((ToolCall("add", {}), ToolCall("add", {})))),
        (Counter, "Action: {add", "{add"),
        (Desk, 'Action: {"message": "At nine."}', Message("At nine.")),
        (Desk, 'Action: {"end": "done"}', End("done")),
    ],
)
def test_text_mode_takes_one_strict_line(env: type[Environment], text: str, action: Any) -> None:
    assert first_action(env(), words(text), tools="text")[0] == action


def test_text_mode_offers_no_tools_and_names_them_in_words() -> None:
    with serve(default=words("Action: add")) as endpoint:
        episode, _ = played(Counter(admissible=True), endpoint, tools="text")
    assert episode.summary.success
    request = endpoint.requests[0]
    assert "tools" not in request
    assert "add: Adds to the count." in request["messages"][0]["content"]
    assert "Admissible actions:\n- add\n- help" in request["messages"][1]["content"]


@pytest.mark.parametrize("text", ["add", "Action: add\nthanks", "Action: {nothing}"])
def test_text_that_is_no_action_changes_nothing(text: str) -> None:
    with serve(default=words(text)) as endpoint:
        episode, _ = played(Counter(), endpoint, tools="text")
    assert (episode.summary.ending, episode.summary.invalid, episode.summary.success) == ("truncated", 8, False)


def test_words_that_are_no_json_are_malformed_where_text_is_not_taken() -> None:
    action, _ = first_action(Desk(), words("Action: hello"), tools="text")
    assert to_json(action) == {"malformed": "hello", "why": "the action is no JSON"}


def test_history_is_cut_whole_and_the_cut_is_recorded() -> None:
    with serve(default=words("no call")) as endpoint:
        episode, _ = played(Counter(), endpoint, history="last:2")
    last = endpoint.requests[-1]["messages"]
    assert [message["role"] for message in last] == ["system", "user", *["assistant", "user"] * 2]
    assert last[1]["content"].endswith("[5 earlier turns are left out here]")
    lines = episode.sidecar["policy"]["calls"]
    assert [line["dropped_calls"] for line in lines] == [None] * 3 + [[1, n] for n in range(1, 6)]
    digests = [line["dropped_digest"] for line in lines]
    assert digests[:3] == [None] * 3
    assert len(set(digests[3:])) == 5


def test_a_cut_never_parts_a_call_from_its_result() -> None:
    with serve(default=calls(("nothing", {}))) as endpoint:
        played(Counter(), endpoint, history="last:1")
    assert [message["role"] for message in endpoint.requests[-1]["messages"]] == ["system", "user", "assistant", "tool"]


def test_full_history_keeps_everything_as_it_was() -> None:
    with serve(default=words("no call")) as endpoint:
        played(Counter(), endpoint)
    before, after = (request["messages"] for request in endpoint.requests[-2:])
    assert after[: len(before)] == before


def test_huge_replies_are_cut_for_later_prompts_but_not_lost() -> None:
    with serve(words("x" * 100_000), default=calls(("add", {"by": 3}))) as endpoint:
        episode, _ = played(Counter(), endpoint)
    assert episode.summary.success
    assert len(endpoint.requests[1]["messages"][2]["content"]) < 33_000
    assert len(episode.sidecar["policy"]["calls"][0]["raw"]) > 60_000


def test_what_is_set_is_sent_and_the_rest_is_not() -> None:
    with serve(default=calls(("add", {"by": 3}))) as endpoint:
        played(Counter(), endpoint)
        played(Counter(), endpoint, temperature=0.5, top_p=0.9, max_tokens=7, seed=3, extra={"reasoning_effort": "low"})
    plain, full = endpoint.requests
    assert sorted(plain) == ["messages", "model", "tools"]
    assert {name: full[name] for name in ("temperature", "top_p", "max_tokens", "seed", "reasoning_effort")} == {
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 7,
        "seed": 3,
        "reasoning_effort": "low",
    }


def test_tokens_and_cost_are_counted() -> None:
    answer = calls(("add", {"by": 1}), usage=(1000, 100))
    answer["usage"]["prompt_tokens_details"] = {"cached_tokens": 600}
    with serve(default=answer) as endpoint:
        _, policy = played(
            Counter(), endpoint, price_in=Decimal("2"), price_out=Decimal("8"), price_cached=Decimal("0.5")
        )
    assert policy.usage == {"tokens_in": 3000, "tokens_out": 300, "tokens_cached": 1800, "cost_microusd": 5700}


def test_a_missing_count_makes_the_total_unknown() -> None:
    with serve(calls(("add", {})), default=calls(("add", {"by": 2}), usage=None)) as endpoint:
        _, policy = played(Counter(), endpoint, price_in=Decimal(1), price_out=Decimal(1))
    assert policy.usage["tokens_in"] is None
    assert policy.usage["cost_microusd"] is None


def test_the_manifest_entry_tells_the_model_apart() -> None:
    with serve() as endpoint:
        policy = OpenAIPolicy(Counter.spec, settings(endpoint, seed=4, extra={"reasoning_effort": "low"}))
        policy.close()
        policy.close()
    entry = policy.model_entry
    assert (entry.provider, entry.id, entry.seed, entry.reasoning_effort) == ("127.0.0.1", "m", 4, "low")
    assert entry.base_url_class == "loopback"
    assert entry.sampling == '{"reasoning_effort":"low","seed":4}'


def test_the_digest_tells_apart_what_the_model_is_told() -> None:
    with serve() as endpoint:
        made = [
            factory(Counter.spec, settings(endpoint, **given))
            for given in ({}, {"tools": "text"}, {"history": "last:3"}, {"max_calls": 9})
        ]
        for policy in made:
            policy.close()
    assert len({policy.protocol_digest for policy in made}) == 4


def test_an_episode_forgets_the_last_one() -> None:
    with serve(default=calls(("add", {"by": 3}))) as endpoint:
        env, policy = Counter(), factory(Counter.spec, settings(endpoint))
        for _ in range(2):
            play(env, policy, TaskRef("train", 0))
        policy.close()
    assert endpoint.requests[0] == endpoint.requests[1]
    assert policy.metrics()["model_calls"] == 1


def test_a_bound_on_calls_truncates_without_an_error() -> None:
    with serve(default=words("no call")) as endpoint:
        episode, _ = played(Counter(), endpoint, max_calls=3)
    assert (episode.summary.ending, episode.summary.turns, episode.summary.error) == ("truncated", 3, None)


def test_settings_are_needed() -> None:
    with pytest.raises(ConfigError, match="the openai policy needs a model"):
        factory(Counter.spec, None)


def test_native_sets_no_option() -> None:
    assert env_options(Counter.spec, OpenAISettings(model="m")) == {}
