"""The parsers are pure; what the originals do with broken replies is theirs, to the letter."""

from __future__ import annotations

import pytest

from agentenvs.harness.parsers import PARSERS, Parsed, agentbench, agentgym, bleu, native, react, verl_agent


@pytest.mark.parametrize(
    ("text", "action", "failure"),
    [
        ("<think>a</think><action>go to fridge 1</action>", "go to fridge 1", None),
        ("<THINK>a</THINK><ACTION>Go To Fridge 1</ACTION>", "go to fridge 1", "no_think_tags"),
        ("<think>a</think><Action> LOOK </aCTION>", "look", None),
        ("<action>look</action>", "look", "no_think_tags"),
        ("<think>a<action>look</action>", "look", "no_think_tags"),
        ("<think>a</think><action>look</action><action>inventory</action>", "look", None),
        ("<think>or </action> rather</think><action>look</action>", "", None),
        ("<action>a <action>b</action>", "a <action>b", "no_think_tags"),
        ("<think>看</think><action>look</action>", "look", "cjk_character"),
        ("<think>a</think><action>\n look\n</action>", "look", None),
        ("<think></think><action></action>", "", None),
        ("", "", "no_action_tags"),
        ("go to fridge 1", "go to fridge 1", "no_action_tags"),
        ("I think that I should now Go To Fridge 1", "hink that i should now go to fridge 1"[-30:], "no_action_tags"),
        ("<think>a</think><action>look", "<think>a</think><action>look"[-30:], "no_action_tags"),
        ("<think>a</think>look</action>", "<think>a</think>look</action>"[-30:], "no_action_tags"),
    ],
)
def test_verl_agent_plays_the_first_tags_or_the_last_thirty_characters(
    text: str, action: str, failure: str | None
) -> None:
    assert verl_agent(text) == Parsed(action, failure, repaired=failure == "no_action_tags")


def test_verl_agent_does_not_look_at_what_is_admissible() -> None:
    parsed = verl_agent("<think>a</think><action>fly</action>", ("look",))
    assert parsed == Parsed("fly")


@pytest.mark.parametrize(
    ("text", "action", "failure"),
    [
        (" think: where is it?\nObs 4: x", "think: where is it?", None),
        ("> go to desk 1 ", "> go to desk 1", None),
        ("\ngo to desk 1", "", "empty_action"),
        ("", "", "empty_action"),
        ("Go to desk 1", "Go to desk 1", None),
    ],
)
def test_react_reads_one_line(text: str, action: str, failure: str | None) -> None:
    assert react(text) == Parsed(action, failure)


@pytest.mark.parametrize(
    ("text", "action", "repaired"),
    [
        ("Thought:\nhm\n\nAction:\ngo to desk 1", "go to desk 1", False),
        ("Action: look", "look", False),
        ("Action: look</s>", "look", True),
        ("Action: look</s></s>", "look</s>", True),
        ("Action: look\nAction: inventory", "inventory", False),
        ("Thought:\nThe Action: line comes\n\nAction:\nlook\nand more", "look\nand more", False),
        ("Action:", "", False),
        ("action: look", None, False),
        ("look", None, False),
        ("", None, False),
    ],
)
def test_agentgym_reads_what_follows_the_last_mark(text: str, action: str | None, repaired: bool) -> None:
    assert agentgym(text) == Parsed(action, "no_action" if action is None else None, repaired)


@pytest.mark.parametrize(
    ("argument", "played"),
    [
        ("go to drawer 1", "go to drawer 1"),
        ("  Go To Drawer 1\nand then", "go to drawer 1"),
        ("drawer", "go to drawer 1"),
        ("put mug 1 in/on desk 1", "go to desk 1"),
        ("", ""),
        ("完全", "完全"),
    ],
)
def test_agentbench_plays_the_nearest_command(argument: str, played: str) -> None:
    admissible = ("go to desk 1", "go to drawer 1", "go to drawer 2", "look")
    assert agentbench(argument, admissible).action == played


def test_agentbench_says_when_it_repaired() -> None:
    assert not agentbench("look", ("look",)).repaired
    assert agentbench("look around", ("look",)).repaired
    assert agentbench("fly", ()).action == "fly"


@pytest.mark.parametrize(
    ("reference", "candidate", "score"),
    [
        ("go to drawer 1", "go to drawer 1", 1.0),
        ("go to drawer 1", "drawer", 0.049787068367863944),
        ("b from from from mug from", "fridge in/on 3 3 mug from from b", 0.10073051057692405),
        ("to mug fridge go put fridge", "move b mug fridge go", 0.24521789586759227),
        ("go desk", "", 0.0),
        ("go desk", "fly away", 0.0),
    ],
)
def test_bleu_is_that_of_the_nltk(reference: str, candidate: str, score: float) -> None:
    """Scores computed with nltk 3.10.4, ``sentence_bleu`` and ``SmoothingFunction().method4``."""
    assert bleu(reference, candidate) == pytest.approx(score, rel=1e-12, abs=0)


@pytest.mark.parametrize(
    ("text", "action", "failure"),
    [
        ("Action: look", "look", None),
        ("I look.\nAction:   go to desk 1  \n\n", "go to desk 1", None),
        ("<think>Action: a\nAction: b</think>\nAction: look", "look", None),
        ("look", None, "no_action_line"),
        ("action: look", None, "no_action_line"),
        ("Action: look\nThat is it.", None, "text_after_action"),
        ("Action: look\nAction: look", None, "several_action_lines"),
        ("Action:", None, "empty_action"),
        ("", None, "empty_reply"),
        ("<think>still going", None, "no_action_line"),
        ("Action: look</think>", None, "empty_reply"),
    ],
)
def test_native_is_strict(text: str, action: str | None, failure: str | None) -> None:
    assert native(text) == Parsed(action, failure)


@pytest.mark.parametrize("name", sorted(PARSERS))
@pytest.mark.parametrize(
    "text", ["\ud800", "x" * 100_000, "\x00", "<action></action>" * 50, "Action:" * 50, "\r\n\u2028"]
)
def test_no_parser_raises(name: str, text: str) -> None:
    parsed = PARSERS[name](text, ("look", "go to desk 1"))
    assert parsed.action is None or isinstance(parsed.action, str)
