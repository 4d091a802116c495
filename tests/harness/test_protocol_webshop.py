"""The web shop's protocols: what is sent, what is played, what is paid."""

import json

import pytest

from agentenvs.core import registry
from agentenvs.core.task import TaskRef
from agentenvs.envs.webshop.actions import parse_text, tool_call
from agentenvs.harness import protocol
from agentenvs.harness.openai import OpenAISettings, factory
from agentenvs.harness.parsers import Parsed, answer_tags, boxed, verl_agent_shop
from agentenvs.harness.rollout import play
from agentenvs_scoring.probes import solution
from tests.harness.endpoint import calls, serve, without_proxies, words

REF = TaskRef("dev", 0)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        (r"I look. \boxed{search[Red shoes]}", Parsed("search[Red shoes]")),
        (r"\boxed{a} then \boxed{click[b {c}]}", Parsed("click[b {c}]")),
        (r"\boxed{ }", Parsed(None, "empty_action")),
        (r"\boxed{click[x]", Parsed(None, "unclosed_box")),
        ("click[x]", Parsed(None, "no_box")),
        ("", Parsed(None, "no_box")),
    ],
)
def test_boxed_reads_the_last_box(text, parsed):
    assert boxed(text) == parsed


def test_the_shops_tail_is_shorter_than_the_households():
    assert verl_agent_shop("I think I should now click[Buy Now]").action == "ld now click[buy now]"[-20:]
    assert verl_agent_shop("<think>a</think><action>Search[X]</action>") == Parsed("search[x]")


def run(name, say):
    """Play an episode in which the model says the oracle's actions, each worded by ``say``."""
    spec = registry.spec("webshop")
    env = registry.make("webshop", products=1000, **protocol.load(name).env_options(spec))
    env.reset(REF)  # in the originals' grading this goal's own product earns everything
    answers = [words(say(action)) for action in solution(env)]
    with serve(*answers) as endpoint:
        settings = OpenAISettings(model="m", base_url=endpoint.url, backoff=0.0, retries=0, protocol=name)
        policy = factory(spec, settings)
        episode = play(env, policy, REF)
        policy.close()
    return episode, endpoint, policy


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    without_proxies(monkeypatch)


@pytest.mark.parametrize(
    ("name", "say", "paid"),
    [
        ("verl-agent-webshop", "<think>Hm.</think><action>{}</action>", 10.0),
        ("gem-webshop", "Hm. \\boxed{{{}}}", 1.0),
        ("ragen-webshop", "<think>Hm.</think><answer>{}</answer>", 1.0),
        ("agentgym-webshop", "Thought:\nHm.\n\nAction:\n{}", 1.0),
    ],
)
def test_a_model_that_says_the_right_things_wins(name, say, paid):
    episode, endpoint, _ = run(name, say.format)
    assert episode.summary.success, episode.summary
    assert episode.summary.metrics["protocol_return"] == paid
    last = endpoint.requests[-1]["messages"][-1]["content"]
    assert "click[buy now]" in last
    if name.startswith("verl"):
        assert "Prior to this step, you have already taken" in last
        assert len(endpoint.requests[-1]["messages"]) == 1


def test_agentbench_offers_search_and_click_and_counts_a_reply_without_a_call():
    spec = registry.spec("webshop")
    env = registry.make("webshop", products=1000, **protocol.load("agentbench-webshop").env_options(spec))
    env.reset(REF)
    played = [parse_text(action) for action in solution(env)]
    said = [tool_call(command) for command in played if isinstance(command, tuple)]
    answers = [words("I think."), *(calls((call["tool"], json.dumps(call["arguments"]))) for call in said)]
    with serve(*answers) as endpoint:
        settings = OpenAISettings(
            model="m", base_url=endpoint.url, backoff=0.0, retries=0, protocol="agentbench-webshop"
        )
        policy = factory(spec, settings)
        episode = play(env, policy, REF)
        policy.close()
    assert episode.summary.success, episode.summary
    assert episode.summary.turns == len(said) + 1
    assert [tool["function"]["name"] for tool in endpoint.requests[0]["tools"]] == ["search", "click"]
    assert "Available Actions:" in endpoint.requests[-1]["messages"][-1]["content"]


def test_ragen_says_its_hints_with_each_page_and_loses_a_turn_without_tags():
    spec = registry.spec("webshop")
    with serve(default=words("click[buy now]")) as endpoint:
        settings = OpenAISettings(model="m", base_url=endpoint.url, backoff=0.0, retries=0, protocol="ragen-webshop")
        env = registry.make("webshop", products=1000, **protocol.load("ragen-webshop").env_options(spec))
        policy = factory(spec, settings)
        episode = play(env, policy, REF)
        policy.close()
    assert (episode.summary.turns, episode.summary.ending, episode.summary.success) == (9, "truncated", False)
    for request in endpoint.requests:
        assert "Search twice at most." in request["messages"][-1]["content"]


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("<think>a <answer>b</answer></think><answer> click[x] </answer>", Parsed("click[x]")),
        ("<answer>a</answer> or <answer>b</answer>", Parsed("b")),
        ("<answer> </answer>", Parsed(None, "empty_action")),
        ("<answer>click[x]", Parsed(None, "no_answer_tags")),
        ("click[x]", Parsed(None, "no_answer_tags")),
    ],
)
def test_answer_tags(text, parsed):
    assert answer_tags(text) == parsed


LIMITS = {
    "verl-agent-webshop": 15,
    "gem-webshop": 15,
    "ragen-webshop": 9,
    "agentbench-webshop": 20,
    "agentgym-webshop": None,
}


@pytest.mark.parametrize("name", list(LIMITS))
def test_a_protocol_sets_the_options_of_its_loop(name):
    spec = registry.spec("webshop")
    found = protocol.load(name)
    found.check(spec)
    options = found.env_options(spec)
    assert (options.get("limit"), options["profile"], options["observation"]) == (LIMITS[name], "original", "text")
