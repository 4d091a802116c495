"""From a model's words to what is played: one pure function a protocol.

Only ``native`` is ours and strict: a reply of another shape plays nothing. The others do what the original programs do,
their accidents included, so that their published numbers can be made again; each accident stands in a docstring and is
counted. ``failure`` says that the reply broke the protocol's format, ``repaired`` that what is played is not what was
said.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentenvs.core.portable import exp, log

LAST_CHARACTERS = 30
"""What verl-agent plays of a reply without tags in the household."""

LAST_CHARACTERS_SHOP = 20
"""The same in the web shop."""

BLEU_THRESHOLD = 0.01
"""AgentBench plays the nearest admissible command where its score is above this."""

_CJK = re.compile("[\u4e00-\u9fff]")
_THOUGHTS = re.compile(r"<think>.*?</think>", re.DOTALL)
_ANSWERS = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_SEARCH_TAGS = re.compile(r"<(search|answer)>(.*?)(?:(</\1>)|\Z)", re.DOTALL)
_ACTION = "Action:"
_EOS = "</s>"


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a reply means."""

    action: str | None
    """What is played; None where nothing is."""
    failure: str | None = None
    """Code of how the reply broke the format."""
    repaired: bool = False
    """What is played was cut out of, or matched to, something else."""


Parser = Callable[[str, Sequence[str]], Parsed]
"""Takes the reply and the admissible commands (empty where they are not known)."""


def native(text: str, admissible: Sequence[str] = ()) -> Parsed:
    """Read the one line ``Action: …``, which must be the last; what precedes it is thought.

    Whatever stands before the last ``</think>`` is not looked at.
    """
    lines = [line.strip() for line in text.rpartition("</think>")[2].splitlines()]
    lines = [line for line in lines if line]
    marked = [line for line in lines if line.startswith(_ACTION)]
    if not lines:
        return Parsed(None, "empty_reply")
    if not marked:
        return Parsed(None, "no_action_line")
    if len(marked) > 1:
        return Parsed(None, "several_action_lines")
    if lines[-1] is not marked[0]:
        return Parsed(None, "text_after_action")
    action = marked[0].removeprefix(_ACTION).strip()
    return Parsed(action) if action else Parsed(None, "empty_action")


def react(text: str, admissible: Sequence[str] = ()) -> Parsed:
    """Read the first line, as a completion that stops at a line break gives it.

    A reply that begins with a line break is the empty command.
    """
    action = text.partition("\n")[0].strip()
    return Parsed(action, None if action else "empty_action")


def verl_agent(text: str, admissible: Sequence[str] = ()) -> Parsed:
    """Read what lies between the first ``<action>`` and the first ``</action>`` of the lower-cased text.

    Without both tags the last 30 characters are played. A closing tag before the opening one leaves the empty command.
    The format is valid with both tags, both think tags in lower case, and no CJK character; whether the command is
    admissible is not looked at. Source: ``agent_system/environments/env_package/alfworld/projection.py``.
    """
    return _verl_agent(text, LAST_CHARACTERS)


def verl_agent_shop(text: str, admissible: Sequence[str] = ()) -> Parsed:
    """Read as :func:`verl_agent` does; without both tags the last 20 characters are played.

    Source: ``agent_system/environments/env_package/webshop/projection.py``.
    """
    return _verl_agent(text, LAST_CHARACTERS_SHOP)


def boxed(text: str, admissible: Sequence[str] = ()) -> Parsed:
    r"""Read what the last ``\boxed{…}`` holds, up to its closing brace."""
    found = text.rpartition("\\boxed{")
    if not found[1]:
        return Parsed(None, "no_box")
    depth, held = 1, ""
    for letter in found[2]:
        depth += (letter == "{") - (letter == "}")
        if depth == 0:
            return Parsed(held.strip()) if held.strip() else Parsed(None, "empty_action")
        held += letter
    return Parsed(None, "unclosed_box")


def _verl_agent(text: str, last: int) -> Parsed:
    lowered = text.lower()
    start, end = lowered.find("<action>"), lowered.find("</action>")
    if start == -1 or end == -1:
        return Parsed(lowered[-last:], "no_action_tags", repaired=True)
    action = lowered[start + len("<action>") : end].strip()
    if "<think>" not in text or "</think>" not in text:
        return Parsed(action, "no_think_tags")
    return Parsed(action, "cjk_character" if _CJK.search(text) else None)


def agentgym(text: str, admissible: Sequence[str] = ()) -> Parsed:
    """Read what follows the last ``Action:``, line breaks included; one ``</s>`` at the very end is cut off."""
    repaired = text.endswith(_EOS)
    _thought, found, action = text.removesuffix(_EOS).rpartition(_ACTION)
    if not found:
        return Parsed(None, "no_action")
    return Parsed(action.strip(), None, repaired)


def search_r1(text: str, admissible: Sequence[str] = ()) -> Parsed:
    """Read the first ``<search>`` or ``<answer>`` outside of thoughts, with what it holds, and play it in its tags.

    A tag that is not closed holds the rest of the reply: endpoints cut the stop word off. Source:
    ``search_r1/llm_agent/generation.py``, ``postprocess_predictions``.
    """
    match = _SEARCH_TAGS.search(_THOUGHTS.sub("", text))
    if match is None:
        return Parsed(None, "no_tags")
    tag, content = match[1], match[2].strip()
    return Parsed(f"<{tag}>{content}</{tag}>", None if match[3] else "unclosed_tag")


def answer_tags(text: str, admissible: Sequence[str] = ()) -> Parsed:
    """Read what the last ``<answer>…</answer>`` outside of thoughts holds, as RAGEN's replies have it."""
    found = _ANSWERS.findall(_THOUGHTS.sub("", text))
    if not found:
        return Parsed(None, "no_answer_tags")
    action = found[-1].strip()
    return Parsed(action) if action else Parsed(None, "empty_action")


def agentbench(argument: str, admissible: Sequence[str] = ()) -> Parsed:
    """Match the tool's argument to the nearest admissible command, the original's rule.

    The first line, stripped and lower-cased, is played if it is admissible; else the first command with the highest
    BLEU score, if that is above 0.01 (one shared word may do, whatever the command means); else the words themselves.
    """
    action = argument.strip().lower().split("\n")[0]
    if not admissible or action in admissible:
        return Parsed(action, None, action != argument)
    scores = [bleu(command, action) for command in admissible]
    best = max(scores)
    if best > BLEU_THRESHOLD:
        return Parsed(admissible[scores.index(best)], None, repaired=True)
    return Parsed(action, None, action != argument)


PARSERS: dict[str, Parser] = {
    "native": native,
    "react": react,
    "verl-agent": verl_agent,
    "verl-agent-webshop": verl_agent_shop,
    "boxed": boxed,
    "agentgym": agentgym,
    "agentbench": agentbench,
    "search-r1": search_r1,
    "answer-tags": answer_tags,
}


def bleu(reference: str, candidate: str) -> float:
    """Return the BLEU score of one sentence against one reference: blanks part the words, n-grams up to 4, in [0, 1].

    Papineni et al. 2002, with smoothing 4 of Chen and Cherry 2014 as the NLTK spells it (K = 5): an n-gram order
    without a match counts ``ln(length) / (5 · 2^i)`` matches for the i-th such order, and is left out where the
    candidate is one word.
    """
    wanted, said = reference.split(), candidate.split()
    total, missed = 0.0, 0
    for order in range(1, 5):
        grams, known = _grams(said, order), _grams(wanted, order)
        matches: float = sum(min(count, known[gram]) for gram, count in grams.items())
        if order == 1 and not matches:
            return 0.0
        if not matches and len(said) > 1:
            missed += 1
            matches = log(len(said)) / (5 * 2**missed)
        if matches:
            total += log(matches / max(1, sum(grams.values()))) / 4
    penalty = 1.0 if len(said) > len(wanted) else exp(1 - len(wanted) / len(said))
    return penalty * exp(total)


def _grams(words: Sequence[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[start : start + order]) for start in range(len(words) - order + 1))
