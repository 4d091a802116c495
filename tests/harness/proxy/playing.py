"""An endpoint that streams, a proxy before it, and requests to that."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from agentenvs.harness.model_settings import OpenAISettings
from agentenvs.harness.proxy.ledger import Account
from agentenvs.harness.proxy.server import ModelProxy
from agentenvs.harness.proxy.settings import ProxySettings
from tests.harness.endpoint import Endpoint, calls, of_body, serve, words

TOOL = {
    "name": "go_to",
    "description": "Go.",
    "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
}
CALL = ("go_to", {"place": "fridge 1"})


def parts(handler: Any, *sent: bytes, end: bool = True) -> None:
    """Send a stream of events piece by piece; without ``end`` the connection breaks."""
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    for part in sent:
        handler.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        handler.wfile.flush()
    if end:
        handler.wfile.write(b"0\r\n\r\n")
    else:
        handler.close_connection = True


def chunk(delta: dict[str, Any] | None, finish: str | None = None, **more: Any) -> bytes:
    """Return a chunk of a chat stream; one without choices where there is no delta."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    form = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "served", "choices": choices}
    return f"data: {json.dumps({**form, **more})}\n\n".encode()


USAGE = {"prompt_tokens": 20, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 5}}
DONE = b"data: [DONE]\n\n"
SPOKEN = (chunk({"role": "assistant", "content": "Hell"}), chunk({"content": "o."}), chunk({}, "stop"))
CALLED = (
    chunk({"role": "assistant", "content": "I go."}),
    chunk({"tool_calls": [{"index": 0, "id": "call_a", "function": {"name": "go_to", "arguments": ""}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"place": '}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"fridge 1"}'}}]}),
    chunk({}, "tool_calls"),
)


def streams(*sent: bytes, end: bool = True) -> Callable[[Any], None]:
    """Return an answer that is a stream."""
    return lambda handler: parts(handler, *sent, end=end)


@of_body
def model(body: dict[str, Any]) -> Any:
    """Answer as a model would: with a call where there are tools and none was made yet, else in words."""
    acts = body.get("tools") and body["messages"][-1]["role"] != "tool"
    if body.get("stream"):
        return streams(*(CALLED if acts else SPOKEN), chunk(None, usage=USAGE), DONE)
    made = calls(CALL, text="I go.") if acts else words("Hello.")
    return {"id": "chatcmpl-1", "created": 1, "model": "served", **made, "usage": USAGE}


@contextmanager
def proxied(*answers: Any, default: Any = model, **more: Any) -> Iterator[tuple[Endpoint, ModelProxy, Account]]:
    """Run an endpoint and a proxy, with one episode open."""
    own = {name: more.pop(name) for name in ("apis", "tokens", "dollars", "parallel") if name in more}
    with serve(*answers, default=default) as endpoint:
        settings = OpenAISettings(model="the-model", base_url=endpoint.url, **{"backoff": 0.01, "retries": 2, **more})
        proxy = ModelProxy(ProxySettings(model=settings, **own))
        proxy.hold()
        try:
            yield endpoint, proxy, proxy.open(3)
        finally:
            proxy.release()


_HTTP = httpx.Client(trust_env=False, timeout=30, limits=httpx.Limits(max_keepalive_connections=0))


def post(proxy: ModelProxy, account: Account, path: str, body: Any, **more: Any) -> httpx.Response:
    url = proxy.told(account)["OPENAI_BASE_URL"]
    headers = {"Authorization": f"Bearer {account.key}", **more.pop("headers", {})}
    given = {"content": body} if isinstance(body, bytes) else {"json": body}
    return _HTTP.post(f"{url}/{path}", headers=headers, **given, **more)


def events(text: str) -> list[Any]:
    """Return the data of each event."""
    found = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [item if item == "[DONE]" else json.loads(item) for item in found]


SAID = {"messages": [{"role": "user", "content": "Hi."}]}
ASKED = {
    "chat/completions": {"model": "x", **SAID},
    "responses": {"model": "x", "input": "Hi."},
    "messages": {"model": "x", "max_tokens": 50, **SAID},
}
"""A plain request of each API."""
