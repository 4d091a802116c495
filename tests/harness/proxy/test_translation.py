"""What the responses and the messages API say, as chat completions, and back."""

from __future__ import annotations

import json

import pytest

from agentenvs.harness.proxy.forms import Gathered, Refused
from agentenvs.harness.proxy.messages import Messages
from agentenvs.harness.proxy.responses import Responses
from tests.harness.endpoint import calls, words
from tests.harness.proxy.playing import SAID, USAGE, events, post, proxied, streams


def nothing(name):
    raise Refused(400, "unknown")


def of_messages(**body):
    return Messages().to_chat({"max_tokens": 9, **SAID, **body}, nothing)


def of_responses(**body):
    return Responses().to_chat({"input": "Hi.", **body}, nothing)


def test_the_turns_of_a_message():
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}}
    result = {"type": "tool_result", "tool_use_id": "a", "is_error": True, "content": [{"type": "text", "text": "no"}]}
    use = {"type": "tool_use", "id": "a", "name": "go", "input": {"x": 1}}
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    turns = [
        {"role": "user", "content": [{"type": "text", "text": "look"}, picture]},
        {"role": "assistant", "content": [thought, {"type": "text", "text": "ok"}, use]},
        {"role": "user", "content": [{"type": "text", "text": "and"}, result]},
    ]
    made = of_messages(system=[{"type": "text", "text": "Play."}], messages=turns)["messages"]
    assert [turn["role"] for turn in made] == ["system", "user", "assistant", "tool", "user"]
    assert made[1]["content"][1] == {"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ=="}}
    assert made[2]["content"] == "ok"
    assert made[2]["tool_calls"][0]["function"] == {"name": "go", "arguments": '{"x": 1}'}
    assert made[3] == {"role": "tool", "tool_call_id": "a", "content": "Error: no"}


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"type": "auto"}, {"tool_choice": "auto"}),
        ({"type": "any", "disable_parallel_tool_use": True}, {"tool_choice": "required", "parallel_tool_calls": False}),
        ({"type": "tool", "name": "go"}, {"tool_choice": {"type": "function", "function": {"name": "go"}}}),
        ({"type": "none"}, {"tool_choice": "none"}),
    ],
)
def test_the_choice_of_tools_in_a_message(choice, said):
    made = of_messages(tools=[{"name": "go", "input_schema": {"type": "object"}}], tool_choice=choice)
    assert {name: made[name] for name in said} == said


def test_the_items_of_a_response():
    items = [
        {"role": "developer", "content": "Be brief."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]},
        {"type": "reasoning", "id": "r", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "b"}]},
        {"type": "function_call", "call_id": "1", "name": "go", "arguments": "{}"},
        {"type": "function_call", "call_id": "2", "name": "go", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "one"},
        {"type": "function_call_output", "call_id": "2", "output": [{"type": "input_text", "text": "two"}]},
    ]
    made = of_responses(instructions="Play.", input=items, max_output_tokens=7, reasoning={"effort": "low"})
    assert [turn["role"] for turn in made["messages"]] == ["system", "system", "user", "assistant", "tool", "tool"]
    assert [call["id"] for call in made["messages"][3]["tool_calls"]] == ["1", "2"]
    assert made["messages"][5]["content"] == "two"
    assert (made["max_tokens"], made["reasoning_effort"]) == (7, "low")


def test_a_schema_for_the_answer_of_a_response():
    form = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}
    made = of_responses(text={"format": form})["response_format"]
    assert made == {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True}}


@pytest.mark.parametrize(
    "body",
    [
        {"input": []},
        {"input": [{"type": "item_reference", "id": "x"}]},
        {"input": [{"role": "user", "content": [{"type": "input_file"}]}]},
        {"input": ["no object"], "previous_response_id": None},
        {"tools": [{"type": "web_search"}]},
        {"tools": [{"type": "function", "name": "f"}], "tool_choice": {"type": "file_search"}},
        {"background": True},
        {"previous_response_id": "resp_unknown"},
    ],
)
def test_responses_that_cannot_be_translated_are_refused(body):
    with pytest.raises(Refused):
        of_responses(**body)


@pytest.mark.parametrize(
    "body",
    [
        {"max_tokens": None},
        {"max_tokens": 0},
        {"messages": [{"role": "robot", "content": "x"}]},
        {"messages": [{"role": "user", "content": [{"type": "document"}]}]},
        {"messages": ["x"]},
        {"tools": [{"type": "bash_20250124", "name": "bash"}]},
    ],
)
def test_messages_that_cannot_be_translated_are_refused(body):
    with pytest.raises(Refused):
        of_messages(**body)


@pytest.mark.parametrize(
    ("finish", "stop"), [("length", "max_tokens"), ("stop", "end_turn"), ("content_filter", "refusal")]
)
def test_why_a_reply_ended(finish, stop):
    reply = words("x", finish=finish)
    assert Messages().reply(reply, {})["stop_reason"] == stop
    assert Responses().reply(reply, {})["status"] == ("completed" if finish == "stop" else "incomplete")


def test_broken_arguments_stay_to_be_seen():
    reply = calls(("go", '{"place": '))
    assert Messages().reply(reply, {})["content"][0]["input"] == {"invalid_json": '{"place": '}
    assert Responses().reply(reply, {})["output"][0]["arguments"] == '{"place": '


def test_what_was_thought_is_told_by_those_that_have_a_place_for_it():
    reply = words("yes")
    reply["choices"][0]["message"]["reasoning_content"] = "hm"
    assert [item["type"] for item in Responses().reply(reply, {})["output"]] == ["reasoning", "message"]
    assert [block["text"] for block in Messages().reply(reply, {})["content"]] == ["yes"]


@pytest.mark.parametrize("index", [True, False])
def test_calls_are_put_together_with_and_without_numbers(index):
    gathered = Gathered()
    for number, name in ((0, "a"), (1, "b")):
        place = {"index": number} if index else {}
        for part in ({"id": name, "function": {"name": name, "arguments": "{"}}, {"function": {"arguments": "}"}}):
            gathered.add({"choices": [{"delta": {"tool_calls": [{**place, **part}]}}]})
    made = gathered.reply()["choices"][0]["message"]["tool_calls"]
    assert [(call["id"], call["function"]["arguments"]) for call in made] == [("a", "{}"), ("b", "{}")]


MESSAGE = {"id": "m", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "Hi."}]}
THEIRS = {
    "responses": {"id": "r", "status": "completed", "output": [], "usage": {"input_tokens": 7, "output_tokens": 2}},
    "messages": {**MESSAGE, "usage": {"input_tokens": 4, "cache_read_input_tokens": 3, "output_tokens": 2}},
}


def event(name, **data):
    return f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode()


STREAMS = {
    "responses": [event("response.created", response={}), event("response.completed", response=THEIRS["responses"])],
    "messages": [
        event("message_start", message={**MESSAGE, "content": [], "usage": {"input_tokens": 4, "output_tokens": 0}}),
        event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        event("content_block_delta", index=0, delta={"type": "text_delta", "text": "Hi."}),
        event(
            "message_delta", delta={"stop_reason": "end_turn"}, usage={"cache_read_input_tokens": 3, "output_tokens": 2}
        ),
        event("message_stop"),
    ],
}


@pytest.mark.parametrize("api", THEIRS)
def test_an_endpoint_that_has_an_api_itself_is_asked_by_it(api, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-real-0123456789")
    body = {"responses": {"input": "Hi.", "store": True}, "messages": {"max_tokens": 9, **SAID, "thinking": {}}}[api]
    answers = [THEIRS[api], streams(*STREAMS[api]), streams(*STREAMS[api][:-1])]
    with proxied(*answers, apis=("chat", api), max_tokens=5, seed=1) as (endpoint, proxy, account):
        assert post(proxy, account, api, body).json() == THEIRS[api]
        passed = events(post(proxy, account, api, {**body, "stream": True}).text)
        assert [item["type"] for item in passed] == [part.decode().split("\n")[0][7:] for part in STREAMS[api]]
        broken = events(post(proxy, account, api, {**body, "stream": True}).text)
        assert broken[-1]["type"] in ("error", "response.failed")
        kept = account.sidecar()["calls"]
    assert [(call["tokens_in"], call["tokens_out"]) for call in kept[:2]] == [(7, 2), (7, 2)]
    asked, headers = endpoint.requests[0], endpoint.headers[0]
    assert asked["model"] == "the-model"
    assert asked.get("max_output_tokens", asked.get("max_tokens")) == 5
    assert "seed" not in asked
    assert headers["authorization"] == "Bearer sk-real-0123456789"
    assert headers.get("x-api-key") == ("sk-real-0123456789" if api == "messages" else None)


def test_a_response_goes_on_from_an_earlier_one_of_its_episode_alone():
    with proxied(default={**words("Hello."), "usage": USAGE}) as (endpoint, proxy, account):
        first = post(proxy, account, "responses", {"input": "one", "instructions": "Play."}).json()["id"]
        more = {"input": "two", "previous_response_id": first}
        second = events(post(proxy, account, "responses", {**more, "stream": True}).text)[-1]["response"]["id"]
        assert post(proxy, account, "responses", {**more, "previous_response_id": second}).status_code == 200
        assert post(proxy, proxy.open(8), "responses", more).status_code == 400
    said = [turn["content"] for turn in endpoint.requests[-1]["messages"]]
    assert said == ["one", "Hello.", "two", "Hello.", "two"]


@pytest.mark.parametrize("stream", [True, False])
def test_calls_get_ids_that_the_conversation_does_not_have_yet(stream):
    known = {"type": "function_call", "call_id": "call_0", "name": "go", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "call_0", "output": "there"}
    items = [{"role": "user", "content": "Go."}, known, result]
    nameless = calls(("go", {}), ("go", {}))
    nameless["choices"][0]["message"]["tool_calls"][1]["id"] = ""
    with proxied(default=nameless) as (_, proxy, account):
        answer = post(proxy, account, "responses", {"input": items, "stream": stream})
        made = events(answer.text)[-1]["response"] if stream else answer.json()
    ids = [item["call_id"] for item in made["output"]]
    assert len({"call_0", "", *ids}) == 4
