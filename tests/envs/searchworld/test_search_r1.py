"""A loop as Search-R1 runs it, over HTTP: against the retrieval door, and against the environment in tags."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

import agentenvs
from agentenvs.core import registry
from agentenvs.core.task import TaskRef
from agentenvs_scenarios.searchworld.answers import normalise
from agentenvs_servers.run import background
from agentenvs_servers.settings import Settings

TAG = re.compile(r"<(search|answer)>(.*?)</\1>", re.DOTALL)
MOST_TURNS = 32


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with background(("searchworld",), Settings(doors="v1,retrieval")) as found:
        yield found


def retrieve(url: str, query: str) -> str:
    """Ask and join as Search-R1's generation loop does."""
    asked = {"queries": [query], "topk": 3, "return_scores": True}
    (found,) = httpx.post(f"{url}/retrieve", json=asked, timeout=30).json()["result"]
    told = ""
    for place, item in enumerate(found):
        title, _, text = item["document"]["contents"].partition("\n")
        told += f"Doc {place + 1}(Title: {title}) {text}\n"
    return told


class Model:
    """Says what a model would that follows the right way: a search for each article, then the answer."""

    def __init__(self, env, ref: TaskRef):
        env.reset(ref)
        asked, library = env.current.question, env._held.library
        self.gold = sorted(texts[0] for texts in asked.answers)
        self.titles = [library.title(library.number_of(name)) for name in asked.supports]
        self.left = list(self.titles)

    def generate(self, prompt: str) -> str:
        if self.left:
            return f"<think>I need to know more.</think>\n<search> {self.left.pop(0)} </search>"
        return f"<think>Now I know.</think>\n<answer> {'; '.join(self.gold)} </answer>"


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_loop_of_its_own_over_the_retrieval_door(url, index):
    model = Model(registry.make("searchworld"), TaskRef("train", index))
    prompt = "Question: …"
    for _ in range(MOST_TURNS):
        reply = model.generate(prompt)
        kind, content = TAG.search(reply).groups()
        if kind == "answer":
            break
        prompt += f"{reply}\n\n<information>{retrieve(url, content.strip())}</information>\n\n"
    assert all(f'(Title: "{title}")' in prompt for title in model.titles)
    said = sorted(normalise(text) for text in content.split(";"))
    assert said == sorted(map(normalise, model.gold)) or not model.gold


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_loop_through_the_environment_in_tags(url, index):
    model = Model(registry.make("searchworld"), TaskRef("train", index))
    env = agentenvs.make("searchworld", url=url, dialect="tags", evidence=True)
    prompt = env.reset(TaskRef("train", index)).text
    reward = 0.0
    for _ in range(MOST_TURNS):
        result = env.step(model.generate(prompt) if model.left or model.gold else "<answer>none</answer>")
        prompt += result.observation.text
        reward += result.reward
        if result.terminated:
            break
    assert prompt.count("<information>") == len(model.titles) + 1  # the instruction names it once
    assert reward == 1.0
    env.close()


def test_searches_that_make_no_sense_are_answered(url):
    for query in ("", "\x00", "who is the of", "x" * 100_000, "</information>"):
        asked = {"queries": [query], "topk": 3, "return_scores": True}
        answer = httpx.post(f"{url}/retrieve", json=asked, timeout=30)
        assert answer.status_code == 200
        assert len(answer.json()["result"]) == 1
    other = httpx.post(f"{url}/searchworld/libraries/train/1/retrieve", json={"queries": ["silver"]}, timeout=30)
    assert (
        other.json()["result"]
        != httpx.post(f"{url}/retrieve", json={"queries": ["silver"]}, timeout=30).json()["result"]
    )
    (page,) = httpx.post(f"{url}/access", json={"urls": ["nobody"]}, timeout=30).json()["result"]
    assert not page or "nobody" not in str(page)
