"""The official clients of OpenAI and Anthropic, as they are: what they make of the proxy's answers."""

# ruff: noqa: T201 - the test reads what is printed

import json
import sys

import anthropic
import openai

TOOL = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
USER = {"role": "user", "content": "Go to the fridge."}
found: dict[str, object] = {}
ours, theirs = openai.OpenAI(), anthropic.Anthropic()


def chat() -> None:
    tools = [{"type": "function", "function": {"name": "go_to", "description": "Go.", "parameters": TOOL}}]
    made = ours.chat.completions.create(model="any", messages=[USER], tools=tools)
    call = made.choices[0].message.tool_calls[0]
    found["chat call"] = [call.function.name, json.loads(call.function.arguments), made.usage.total_tokens]
    answer = {"role": "tool", "tool_call_id": call.id, "content": "You are there."}
    turns = [USER, made.choices[0].message, answer]
    found["chat words"] = (
        ours.chat.completions.create(model="any", messages=turns, tools=tools).choices[0].message.content
    )
    with ours.chat.completions.stream(model="any", messages=[USER], tools=tools) as stream:
        whole = stream.get_final_completion().choices[0].message
    found["chat stream call"] = [whole.content, whole.tool_calls[0].function.arguments]
    parts = ours.chat.completions.create(model="any", messages=[USER], stream=True)
    found["chat stream words"] = [part.choices[0].delta.content for part in parts if part.choices]


def responses() -> None:
    tools = [{"type": "function", "name": "go_to", "description": "Go.", "parameters": TOOL, "strict": False}]
    made = ours.responses.create(model="any", instructions="Play.", input="Go to the fridge.", tools=tools)
    call = next(item for item in made.output if item.type == "function_call")
    found["responses call"] = [made.output_text, call.name, json.loads(call.arguments), made.usage.total_tokens]
    answer = {"type": "function_call_output", "call_id": call.call_id, "output": "You are there."}
    turns = [{"role": "user", "content": "Go."}, *made.output, answer]
    found["responses words"] = ours.responses.create(model="any", input=turns, tools=tools).output_text
    goes_on = ours.responses.create(model="any", input=[answer], tools=tools, previous_response_id=made.id)
    found["responses goes on"] = goes_on.output_text
    with ours.responses.stream(model="any", input="Go.", tools=tools) as stream:
        kinds = [event.type for event in stream]
        whole = stream.get_final_response()
    found["responses stream"] = [kinds, whole.output_text, whole.output[-1].arguments]


def messages() -> None:
    tools = [{"name": "go_to", "description": "Go.", "input_schema": TOOL}]
    given = {"model": "any", "max_tokens": 100, "tools": tools, "system": "Play."}
    made = theirs.messages.create(messages=[USER], **given)
    call = next(block for block in made.content if block.type == "tool_use")
    usage = [made.usage.input_tokens, made.usage.cache_read_input_tokens, made.usage.output_tokens]
    found["messages call"] = [made.content[0].text, call.name, call.input, made.stop_reason, usage]
    answer = {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "There."}]}
    turns = [USER, {"role": "assistant", "content": made.content}, {"role": "user", "content": [answer]}]
    found["messages words"] = theirs.messages.create(messages=turns, **given).content[0].text
    with theirs.messages.stream(messages=[USER], **given) as stream:
        text = list(stream.text_stream)
        whole = stream.get_final_message()
    found["messages stream"] = [text, whole.content[-1].input, whole.stop_reason, whole.usage.output_tokens]


def refusals() -> None:
    """Ask until the budget is spent, and with a key that is none."""
    for name, ask in {
        "spent openai": lambda: ours.chat.completions.create(model="any", messages=[USER]),
        "spent responses": lambda: ours.responses.create(model="any", input="Go."),
        "spent anthropic": lambda: theirs.messages.create(model="any", max_tokens=5, messages=[USER]),
        "key openai": lambda: openai.OpenAI(api_key="sk-wrong").chat.completions.create(model="any", messages=[USER]),
        "key anthropic": lambda: anthropic.Anthropic(api_key="wrong").messages.create(
            model="any", max_tokens=5, messages=[USER]
        ),
    }.items():
        try:
            ask()
        except (openai.APIStatusError, anthropic.APIStatusError) as error:
            found[name] = [type(error).__name__, error.status_code, "budget of this episode" in str(error)]


def broken() -> None:
    """Read streams whose endpoint dies."""
    try:
        list(ours.chat.completions.create(model="any", messages=[USER], stream=True))
    except openai.APIError as error:
        found["broken chat"] = "broke off" in str(error) or "ended before" in str(error)
    kinds = [event.type for event in ours.responses.create(model="any", input="Go.", stream=True)]
    found["broken responses"] = kinds[-1]
    try:
        with theirs.messages.stream(model="any", max_tokens=50, messages=[USER]) as stream:
            list(stream)
    except anthropic.APIError as error:
        found["broken messages"] = "broke off" in str(error) or "ended before" in str(error)


for name in sys.argv[1:]:
    {"chat": chat, "responses": responses, "messages": messages, "refusals": refusals, "broken": broken}[name]()
found["models"] = [ours.models.list().data[0].id, theirs.models.list().data[0].id]
print(json.dumps(found))
