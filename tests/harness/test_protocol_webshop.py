"""The web shop's protocols: what is sent, what is played, what is paid."""

import pytest

from agentenvs.core import registry
from agentenvs.core.task import TaskRef
from agentenvs.harness import protocol
from agentenvs.harness.openai import OpenAISettings, factory
from agentenvs.harness.parsers import Parsed, boxed, verl_agent_shop
from agentenvs.harness.rollout import play
from agentenvs_scoring.probes import solution
from tests.harness.endpoint import serve, without_proxies, words

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


@pytest.mark.parametrize("name", ["verl-agent-webshop", "gem-webshop"])
def test_a_protocol_sets_the_options_of_its_loop(name):
    spec = registry.spec("webshop")
    found = protocol.load(name)
    found.check(spec)
    options = found.env_options(spec)
    assert (options["limit"], options["profile"], options["observation"]) == (15, "original", "text")
