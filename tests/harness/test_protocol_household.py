"""Protocols against the household, through a real endpoint that plays the part of the model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentenvs.core import registry
from agentenvs.core.environment import Environment
from agentenvs.core.errors import ConfigError
from agentenvs.core.task import TaskRef
from agentenvs.core.verdict import Verdict
from agentenvs.harness import protocol
from agentenvs.harness.openai import OpenAISettings, env_options, factory
from agentenvs.harness.rollout import Episode, play
from tests.harness.endpoint import Answer, Endpoint, calls, of_body, serve, without_proxies, words
from tests.harness.toys import Counter

WON = ("go to drawer 2", "open drawer 2", "take cd 1 from drawer 2", "go to desk 1", "use desklamp 1")
"""Wins the built-in bedroom."""
BEDROOM = TaskRef("builtin", 2)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    without_proxies(monkeypatch)


def run(name: str, *answers: Answer, default: Answer = 500, **given: Any) -> tuple[Episode, Endpoint, Environment]:
    with serve(*answers, default=default) as endpoint:
        spec = registry.spec("household")
        settings = OpenAISettings(model="m", base_url=endpoint.url, backoff=0.0, retries=0, protocol=name, **given)
        env = registry.make_from(spec, **env_options(spec, settings))
        policy = factory(spec, settings)
        episode = play(env, policy, BEDROOM)
        policy.close()
    return episode, endpoint, env


def said(make: Callable[[str], Answer], commands: tuple[str, ...] = WON) -> list[Answer]:
    return [make(command) for command in commands]


def prompt(endpoint: Endpoint, request: int, message: int = -1) -> str:
    return str(endpoint.requests[request]["messages"][message]["content"])


def test_the_bedroom_of_these_tests_is_won_by_five_commands() -> None:
    env = registry.make("household")
    env.reset(BEDROOM)
    assert [env.step(command).terminated for command in WON] == [False] * 4 + [True]


# ---- react ---------------------------------------------------------------------------------------------------------


def test_react_grows_one_transcript() -> None:
    answers = [words("think: a cd may be in a drawer."), *said(words)]
    episode, endpoint, _ = run("react", *answers)
    assert episode.summary.success
    assert episode.summary.turns == 6
    first, last = prompt(endpoint, 0), prompt(endpoint, 5)
    assert first.startswith(
        "Interact with a household to solve a task. Here are two examples.\nYou are in the middle of a room."
    )
    assert first.endswith("Your task is to: look at cd under the desklamp.\n>")
    assert first.count("Here is the task.\nYou are in the middle") == 1
    assert first.count("Your task is to: ") == 3
    assert "look at cd" in first or "examine the alarmclock" in first
    assert last.startswith(first)
    grown = last.removeprefix(first)
    assert grown.startswith(" think: a cd may be in a drawer.\nOK.\n> go to drawer 2\nThe drawer 2 is closed.\n>")
    assert "You arrive" not in grown
    request = endpoint.requests[0]
    assert (request["stop"], request["temperature"], request["max_tokens"]) == (["\n"], 0.0, 100)
    assert "tools" not in request


def test_a_thought_uses_a_step_of_the_world() -> None:
    episode, _, _ = run("react", default=words("think: hm"))
    assert (episode.summary.turns, episode.summary.ending) == (49, "truncated")
    assert episode.summary.metrics["thoughts"] == 49
    assert episode.sidecar["turns"][0]["observation"] == "Nothing happens."


def test_react_reads_one_line_and_leaves_the_rest() -> None:
    episode, _, _ = run("react", default=words("go to desk 1\nOn the desk 1, you see a cd 7."))
    assert episode.sidecar["turns"][0]["action"] == "go to desk 1"


@pytest.mark.parametrize(
    ("sentence", "word"),
    [
        ("put a clean fork in drawer.", "clean"),
        ("clean some fork and put it in drawer.", "clean"),
        ("put a hot egg in garbagecan.", "microwave"),
        ("heat some egg and put it in fridge.", "microwave"),
        ("put a cool egg in microwave.", "cool"),
        ("cool some egg and put it in microwave.", "cool"),
        ("look at pillow under the desklamp.", "desklamp"),
        ("examine the pillow with the desklamp.", "desklamp"),
        ("put two pillow in sofa.", "two"),
        ("find two pillow and put them in sofa.", "two"),
        ("put a vase in safe.", "Your task is to: put"),
        ("put some vase on safe.", "Your task is to: put"),
    ],
)
def test_react_shows_two_examples_of_the_task_type(sentence: str, word: str) -> None:
    found = protocol.load("react").examples_for(sentence)
    assert len(found) == 2
    assert all(word in text for text in found)


def test_react_takes_the_examples_of_a_file(tmp_path: Path) -> None:
    kinds = ("put", "clean", "heat", "cool", "examine", "puttwo")
    form = {f"react_{kind}_{number}": f"{kind} {number}\n" for kind in kinds for number in (0, 1, 2)}
    path = tmp_path / "prompts.json"
    path.write_text(json.dumps(form))
    _, endpoint, _ = run("react", default=words("look"), examples=path)
    assert "two examples.\nexamine 1\nexamine 0\n\nHere is the task.\n" in prompt(endpoint, 0)


def test_the_examples_are_what_the_household_says(root: Path) -> None:
    import sys

    sys.path.insert(0, str(root / "scripts"))
    try:
        import react_examples
    finally:
        sys.path.pop(0)
    assert react_examples.examples() == json.loads(react_examples.TARGET.read_text(encoding="utf-8"))


# ---- verl-agent ----------------------------------------------------------------------------------------------------


def tagged(command: str) -> Answer:
    return words(f"<think>so</think><action>{command}</action>")


def test_verl_agent_rebuilds_the_prompt_from_the_last_two_pairs() -> None:
    episode, endpoint, _ = run("verl-agent", *said(tagged))
    assert episode.summary.success
    assert episode.summary.metrics["protocol_return"] == 10.0
    first = prompt(endpoint, 0)
    assert [len(request["messages"]) for request in endpoint.requests] == [1] * 5
    assert first.startswith(
        "\nYou are an expert agent operating in the ALFRED Embodied Environment.\n"
        "Your current observation is: -= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room."
    )
    assert "Your admissible actions of the current situation are: ['go to bed 1'\n 'go to desk 1'\n " in first
    assert "'help'" not in first
    fourth = prompt(endpoint, 3)
    assert (
        "Embodied Environment. Your task is to: look at cd under the desklamp.\nPrior to this step, you have already "
        "taken 3 step(s). Below are the most recent 2 observations and the corresponding actions you took: "
        "[Observation 2: 'You arrive at drawer 2. The drawer 2 is closed.', Action 2: 'open drawer 2']\n"
        "[Observation 3: 'You open the drawer 2."
    ) in fourth
    assert "You are now at step 4 and your current observation is: You pick up the cd 1 from the drawer 2.\n" in fourth
    second = prompt(endpoint, 1)
    assert "the most recent 1 observations" in second
    assert "[Observation 1: '-= Welcome to TextWorld, ALFRED! =-\n\nYou are" in second


def test_verl_agent_plays_the_tail_of_anything_and_pays_for_the_format_alone() -> None:
    answers = [words("GO TO DRAWER 2"), *said(tagged, WON[1:])]
    episode, _, _ = run("verl-agent", *answers)
    assert episode.summary.success
    assert episode.summary.metrics["protocol_return"] == pytest.approx(9.9)
    assert (episode.summary.metrics["format_failures"], episode.summary.metrics["repaired"]) == (1, 1)
    assert episode.summary.reward == 1.0
    stalled, _, _ = run("verl-agent", default=tagged("fly"))
    assert stalled.summary.metrics["protocol_return"] == 0.0
    assert (stalled.summary.turns, stalled.summary.invalid) == (50, 50)


def test_verl_agent_may_be_given_another_history() -> None:
    _, endpoint, _ = run("verl-agent", *said(tagged), history="full")
    assert "the most recent 4 observations" in prompt(endpoint, 4)


# ---- agentgym ------------------------------------------------------------------------------------------------------


def test_agentgym_opens_with_the_rules_and_lists_actions_once() -> None:
    episode, endpoint, _ = run("agentgym", *said(lambda command: words(f"Thought:\nhm\n\nAction:\n{command}")))
    assert episode.summary.success
    assert [message["role"] for message in endpoint.requests[0]["messages"]] == ["user", "assistant", "user"]
    first = prompt(endpoint, 0)
    assert "look at cd under the desklamp.\nAVAILABLE ACTIONS: go to bed 1,go to desk 1," in first
    assert first.startswith("You are in the middle")
    assert prompt(endpoint, 1) == "The drawer 2 is closed."


def test_agentgym_refuses_without_a_step_but_not_for_ever() -> None:
    episode, endpoint, _ = run("agentgym", default=words("go to drawer 2"))
    assert (episode.summary.turns, episode.summary.ending, episode.summary.error) == (0, "truncated", None)
    assert episode.summary.stopped == "30 model calls are used up"
    assert len(endpoint.requests) == 30
    refusal = prompt(endpoint, 1)
    assert refusal.startswith("Invalid Action.\n\nYou are in the middle of a room.")
    assert "\nAVAILABLE ACTIONS: go to bed 1," in refusal


def test_agentgym_goes_on_after_a_refusal() -> None:
    answers = [words("no"), *said(lambda command: words(f"Action:\n{command}"))]
    episode, _, _ = run("agentgym", *answers)
    assert (episode.summary.success, episode.summary.turns) == (True, 5)
    assert episode.summary.metrics["asked_again"] == 1


# ---- agentbench ----------------------------------------------------------------------------------------------------


def taken(command: str) -> Answer:
    return calls(("take_action", {"action": command}))


def test_agentbench_has_one_tool_and_lists_actions_each_time() -> None:
    episode, endpoint, _ = run("agentbench", *said(taken))
    assert episode.summary.success
    request = endpoint.requests[1]
    assert [tool["function"]["name"] for tool in request["tools"]] == ["take_action"]
    assert [message["role"] for message in request["messages"]] == ["system", "user", "assistant", "tool"]
    assert request["messages"][1]["content"].startswith("Here is your task. You are in the middle of a room.")
    assert request["messages"][3]["content"].startswith("The drawer 2 is closed. AVAILABLE ACTIONS: examine drawer 2\n")


def test_agentbench_plays_what_is_nearest() -> None:
    episode, _, _ = run("agentbench", taken("drawer 2 please"), *said(taken, WON[1:]))
    assert episode.summary.success
    assert episode.sidecar["turns"][0]["action"] == "go to drawer 2"
    assert episode.summary.metrics["repaired"] == 1


def test_agentbench_reminds_of_the_tool_and_counts_the_round() -> None:
    episode, endpoint, _ = run("agentbench", default=words("I go to drawer 2."))
    assert (episode.summary.turns, episode.summary.ending) == (0, "truncated")
    assert len(endpoint.requests) == 20
    assert prompt(endpoint, 1) == "No executable tool call was found. Call the tool."


@pytest.mark.parametrize("arguments", ["{", "[]", "{}", '{"action": 3}', '"look"'])
def test_agentbench_reminds_of_a_broken_call_too(arguments: str) -> None:
    episode, _, _ = run("agentbench", calls(("take_action", arguments)), *said(taken))
    assert (episode.summary.success, episode.summary.turns) == (True, 5)


def test_agentbench_loses_on_three_equal_outputs_once_more_than_three_were_played() -> None:
    episode, endpoint, _ = run("agentbench", default=taken("look"))
    assert (episode.summary.turns, episode.summary.ending, episode.summary.error) == (4, "abandoned", None)
    assert episode.summary.stopped == "3 equal outputs in a row"
    assert len(endpoint.requests) == 4


def test_agentbench_counts_a_win_by_the_third_equal_output_as_lost() -> None:
    command = "go to drawer 2"
    with serve(default=taken(command)) as endpoint:
        spec = registry.spec("household")
        settings = OpenAISettings(model="m", base_url=endpoint.url, protocol="agentbench")
        policy = factory(spec, settings)
        env = registry.make_from(spec, **env_options(spec, settings))
        observation = env.reset(BEDROOM)
        policy.reset(spec, env.task())
        for _ in range(4):
            observation = env.step(policy.act(observation)).observation
        policy.close()
    assert policy.metrics(Verdict(1.0, True))["protocol_return"] == 0.0


HOUSEHOLDS = [name for name in protocol.names() if protocol.load(name).envs in ((), ("household",))]

# ---- all -----------------------------------------------------------------------------------------------------------


def test_native_is_the_first_of_all_protocols() -> None:
    others = protocol.names()[1:]
    assert protocol.names()[0] == "native"
    assert others == sorted(others)
    assert {"agentbench", "agentgym", "react", "search-r1", "verl-agent"} <= set(others)


@pytest.mark.parametrize(
    ("name", "limit", "text"),
    [("react", 49, "0.3"), ("verl-agent", 50, "0.4"), ("agentgym", 30, "0.3"), ("agentbench", 20, "0.3")],
)
def test_a_protocol_sets_the_originals_options(name: str, limit: int, text: str) -> None:
    options = protocol.load(name).env_options(registry.spec("household"))
    assert (options["limit"], options["text"], options["profile"]) == (limit, text, "original")


@pytest.mark.parametrize("name", [name for name in protocol.names() if name != "native"])
def test_a_protocol_of_one_world_is_for_no_other(name: str) -> None:
    with pytest.raises(ConfigError, match=f"the protocol {name} is not for counter"):
        factory(Counter.spec, OpenAISettings(model="m", protocol=name))
    with pytest.raises(ConfigError, match="is not for counter"):
        env_options(Counter.spec, OpenAISettings(model="m", protocol=name))


def test_the_digest_is_of_all_that_matters_and_of_nothing_else() -> None:
    base = protocol.load("react")
    others = [
        base.with_history("last:3"),
        base.with_calls(7),
        base.model_copy(update={"prompts": {**base.prompts, "head": "{seen}"}}),
        base.model_copy(update={"examples": {}}),
        *(protocol.load(name) for name in protocol.names() if name != "react"),
    ]
    assert len({base.digest, *(other.digest for other in others)}) == len(others) + 1
    assert base.with_history(None).digest == base.digest
    assert base.model_copy(update={"title": "other"}).digest == base.digest


@pytest.mark.parametrize("name", HOUSEHOLDS)
@pytest.mark.parametrize("text", ["", "\ud800", "<action></action>", "x" * 50_000, "Action:\n\nAction:", "{seen} {0}"])
def test_no_reply_breaks_an_episode(name: str, text: str) -> None:
    flip = iter([True, False] * 100)
    answer = of_body(lambda _: words(text) if next(flip) else calls(("take_action", text)))
    episode, _, _ = run(name, default=answer, max_calls=6)
    assert episode.summary.error is None
    assert not episode.summary.success
    assert episode.summary.ending in ("truncated", "abandoned")
    json.dumps(episode.sidecar)


def test_native_plays_the_household_with_its_tools() -> None:
    made = [
        calls(("go_to", {"receptacle": "drawer 2"})),
        calls(("open_receptacle", {"receptacle": "drawer 2"})),
        calls(("take", {"object": "cd 1", "receptacle": "drawer 2"})),
        calls(("go_to", {"receptacle": "desk 1"})),
        calls(("use", {"object": "desklamp 1"})),
    ]
    episode, endpoint, _ = run("native", *made)
    assert episode.summary.success
    assert len(endpoint.requests[0]["tools"]) == 13
    assert prompt(endpoint, 0, 0).startswith("Household. ")
