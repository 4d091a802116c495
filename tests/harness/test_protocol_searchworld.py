"""The protocol search-r1 against the search worlds, through a real endpoint that plays the part of the model."""

from __future__ import annotations

import pytest

from agentenvs.core import registry
from agentenvs.core.errors import ConfigError
from agentenvs.core.task import TaskRef
from agentenvs.harness import protocol
from agentenvs.harness.openai import OpenAISettings, env_options, factory
from agentenvs.harness.parsers import Parsed, search_r1
from agentenvs.harness.rollout import play
from tests.harness.endpoint import serve, without_proxies, words

TASK = TaskRef("train", 0)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    without_proxies(monkeypatch)


@pytest.mark.parametrize(
    ("text", "action", "failure"),
    [
        ("<think>a</think><search> b </search>", "<search>b</search>", None),
        ("a <search>b</search> c <answer>d</answer>", "<search>b</search>", None),
        ("<think><answer>no</answer></think><answer>d; e</answer>", "<answer>d; e</answer>", None),
        ("<think>a</think><search>b", "<search>b</search>", "unclosed_tag"),
        ("I know: Ann.", None, "no_tags"),
        ("", None, "no_tags"),
        ("</search><answer", None, "no_tags"),
    ],
)
def test_the_first_tag_counts(text: str, action: str | None, failure: str | None) -> None:
    assert search_r1(text) == Parsed(action, failure)


def test_the_transcript_grows_by_what_was_said_and_found() -> None:
    spec = registry.spec("searchworld")
    world = registry.make("searchworld", people="500")
    world.reset(TASK)
    title, gold = world._held.library.title(17), [texts[0] for texts in world.current.question.answers]
    answers = [
        words(f"<think>Who?</think>\n<search>{title}</search>"),
        words("I do not know."),
        words(f"<answer>{'; '.join(gold) or 'none'}</answer>"),
    ]
    with serve(*answers, default=500) as endpoint:
        settings = OpenAISettings(model="m", base_url=endpoint.url, backoff=0.0, retries=0, protocol="search-r1")
        env = registry.make_from(spec, people="500", **env_options(spec, settings))
        policy = factory(spec, settings)
        episode = play(env, policy, TASK)
        policy.close()
    assert episode.summary.success
    assert episode.summary.turns == 3
    sent = [str(request["messages"][-1]["content"]) for request in endpoint.requests]
    assert world.current.question.sentence in sent[0]
    assert sent[1].startswith(sent[0])
    assert f"<search>{title}</search>\n\n<information>Doc 1(Title: {title}) " in sent[1]
    assert "between <answer> and </answer>" in sent[2].removeprefix(sent[1])
    assert len(endpoint.requests[0]["messages"]) == 1


def test_it_is_for_search_worlds_alone() -> None:
    with pytest.raises(ConfigError, match="is not for household"):
        protocol.load("search-r1").check(registry.spec("household"))
