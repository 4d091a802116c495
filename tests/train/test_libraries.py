"""What is kept from episode to episode, and what a policy acts through: oracles, tokens, and the way back."""

from __future__ import annotations

import difflib
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from agentenvs.core.errors import ConfigError, PolicyError
from agentenvs.core.observation import Observation, TextBlock
from agentenvs.core.policy import Privileged
from agentenvs.core.task import TaskRef
from agentenvs.train.interfaces import Assignment, Library, RolloutHook, hooks, libraries, wrappers
from agentenvs.train.methods.experience import Experience
from agentenvs.train.methods.nearest_legal import nearest
from agentenvs.train.pipeline import assemble
from agentenvs.train.plugins import NeedError
from agentenvs.train.records import Episode, Role, Turn
from agentenvs.train.rollout import added
from agentenvs.train.run import resume, train
from agentenvs.train.template import PlainTemplate
from agentenvs.train.tokenizer import train_tokenizer
from agentenvs.train.wrapping import Through
from tests.train.tabular import LetterTemplate, played, rollouts
from tests.train.test_run import lines, small, weights

TELLING = frozenset(("turn.state_key", "turn.facts", "turn.potential"))


def seen(text: str) -> Observation:
    return Observation((TextBlock(text),))


def ended(index: int, asked: str, actions: str, success: bool = True, env: str = "w") -> Episode:
    episode = Episode(env, TaskRef("train", index), 0, 0, success=success, extras={"asked": asked})
    episode.turns = [Turn(0, 0, 1, text=one.strip("!"), valid=not one.endswith("!")) for one in actions.split()]
    return episode


def kept(*episodes: Episode, **settings: Any) -> Experience:
    library = libraries.make("experience", settings)
    assert isinstance(library, Experience)
    library.learn(episodes)
    return library


# ---- experience ----------------------------------------------------------------------------------------------------


def test_what_succeeded_is_kept_without_its_mistakes() -> None:
    library = kept(
        ended(0, "room\nput mug", "go oops! take put"),
        ended(1, "room\nput pan", "go", success=False),
        ended(2, "room\nheat egg", "nonsense!"),
    )
    assert [(one.task, one.actions) for one in library.entries] == [("train/0", ("go", "take", "put"))]
    assert library.version == 1
    assert library.learn([ended(0, "room\nput mug", "go round take put")]) == 1
    assert library.learn([ended(0, "room\nput mug", "take put")]) == 2
    assert library.entries[0].actions == ("take", "put")


def test_entries_that_share_rare_words_come_first() -> None:
    """Oracle: the sum over shared words of one over the number of entries of the environment that have it."""
    asked = {0: "the room put mug", 1: "the room heat egg", 2: "the hall heat egg twice", 3: "the room cool pan"}
    library = kept(*(ended(index, text, "go " * (index + 1)) for index, text in asked.items()))
    library.learn([ended(9, "the room heat egg", "go", env="other")])
    wanted = "the room heat potato"

    def worth(index: int) -> float:
        shared = set(wanted.split()) & set(asked[index].split())
        return sum(1 / sum(word in text.split() for text in asked.values()) for word in shared)

    order = sorted(asked, key=lambda index: (-worth(index), index))
    found = library.retrieve(Assignment("w", TaskRef("dev", 0)), seen(wanted), 9)
    assert [text.splitlines()[0] for text in found] == [asked[index] for index in order]
    assert found[0] == "the room heat egg\n> go\n> go"
    own = library.retrieve(Assignment("w", TaskRef("train", 1)), seen(asked[1]), 9)
    assert len(own) == 3
    assert all("the room heat egg" not in text for text in own)
    assert library.retrieve(Assignment("w", TaskRef("dev", 0)), seen(wanted), 0) == []


def test_a_library_forgets_the_oldest_and_shows_nothing_too_long() -> None:
    library = kept(*(ended(index, "a", "go") for index in range(5)), most=3)
    assert [one.task for one in library.entries] == ["train/2", "train/3", "train/4"]
    assert library.version == 7
    assert (
        kept(ended(0, "a", "walk " * 50), characters=40).retrieve(Assignment("w", TaskRef("dev", 0)), seen("a"), 1)
        == []
    )
    with pytest.raises(ConfigError, match="makes no sense"):
        libraries.make("experience", {"most": 0})


def test_an_episode_s_version_can_be_had_again() -> None:
    library = kept(ended(0, "a mug", "go"))
    hook = hooks.make("recall")
    hook.library = library
    episode = Episode("w", TaskRef("dev", 1), 0, 0)
    text = hook.begin(episode, seen("a pan"))
    assert text == "What worked before:\n\na mug\n> go"
    library.learn([ended(3, "a pan", "take"), ended(0, "a mug", "no")])
    assert hook.begin(Episode("w", TaskRef("dev", 1), 0, 0), seen("a pan")) != text
    assert episode.extras["recalled"] == {"version": 1, "texts": 1}
    again = library.as_of(1)
    assert again.retrieve(Assignment("w", TaskRef("dev", 1)), seen(episode.extras["asked"]), 1) == ["a mug\n> go"]
    twin = libraries.make("experience")
    twin.load_state_dict(library.state_dict())
    assert isinstance(twin, Experience)
    assert (twin.version, twin.entries) == (library.version, library.entries)


def test_recall_needs_a_library() -> None:
    with pytest.raises(NeedError, match=r"recall needs library\.texts"):
        assemble(small(method="grpo", hooks={"recall": {}}), TELLING)
    with pytest.raises(ConfigError, match="has no name"):
        assemble(small(library={"most": 3}), TELLING)
    made = assemble(small(method="grpo", hooks={"recall": {}}, library={"name": "experience", "most": 3}), TELLING)
    assert made.hooks[0].library is made.library is not None


# ---- tokens --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plain", "full", "wanted"),
    [
        ([1, 2, 3], [9, 9, 1, 2, 3], (0, 2)),
        ([1, 2, 3], [1, 2, 9, 3], (2, 3)),
        ([1, 2, 3], [1, 2, 3], (3, 3)),
        ([5, 5], [5, 5, 5], (2, 3)),
        ([], [7], (0, 1)),
    ],
)
def test_what_a_hook_added_is_what_differs(plain: list[int], full: list[int], wanted: tuple[int, int]) -> None:
    begin, end = added(plain, full)
    assert (begin, end) == wanted
    assert [*full[:begin], *full[end:]] == plain


def test_tokens_of_hooks_are_marked_and_everything_else_is_as_before() -> None:
    class Said(RolloutHook):
        name = "said"

        def before_turn(self, episode: Episode, observation: Observation) -> str:
            return "abc" if len(episode.turns) % 2 == 0 else ""

    over = rollouts()
    plain = played(over, 4, 1)
    over.hooks = [Said()]
    template = LetterTemplate()
    for episode in played(over, 4, 1):
        (segment,) = episode.segments
        injected = segment.role == Role.INJECTED
        assert not segment.loss_mask[injected].any()
        even = (len(episode.turns) + 1) // 2
        assert bytes(segment.ids[injected].astype(np.uint8).tolist()).decode() == "abc\n\n" * even
        rest = segment.ids[~injected].tolist()
        assert rest[:4] == plain[0].segments[0].ids[:4].tolist() == template.begin("", "go")


def test_what_is_recalled_is_the_injected_part_of_a_prompt() -> None:
    tokenizer = train_tokenizer(["put the mug in the fridge", "go to desk 1"] * 3, 300)
    template = PlainTemplate(tokenizer)
    text = "What worked before:\n\nput the mug\n> go to desk 1"
    plain, full = template.begin("Act.", "a room"), template.begin(f"Act.\n\n{text}", "a room")
    begin, end = added(plain, full)
    assert tokenizer.decode(full[begin:end]) == f"\n\n{text}"
    assert [*full[:begin], *full[end:]] == plain


# ---- runs ----------------------------------------------------------------------------------------------------------


def test_a_run_with_a_library_goes_on_as_if_nothing_had_been(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A world of three seconds is never won by so small a model: what it is told was won is made up.
    real = Experience.learn

    def learn(self: Experience, episodes: Any) -> int:
        for episode in episodes:
            episode.success = episode.sample == 0
        return real(self, episodes)

    monkeypatch.setattr(Experience, "learn", learn)
    config = small(method="grpo-recall", rollout={"constrained": True}, evaluation={"every": 2, "count": 2})
    whole = tmp_path / "whole"
    train(config, whole)
    found = lines(whole)
    versions = [line["library_version"] for line in found if line["kind"] == "step"]
    assert versions == sorted(versions)
    assert versions[-1] >= 4
    assert all(line["gap"] < 1e-4 for line in found if line["kind"] == "step")
    cut = tmp_path / "cut"
    shutil.copytree(whole, cut)
    shutil.rmtree(cut / "checkpoints" / "step-4")
    resume(cut)
    assert lines(cut) == found
    assert weights(cut) == weights(whole)


def test_a_run_is_evaluated_through_a_wrapper(tmp_path: Path) -> None:
    plain, through = tmp_path / "plain", tmp_path / "through"
    changes: dict[str, Any] = {"evaluation": {"every": 2, "count": 4}, "steps": 2}
    train(small(method="grpo", **changes), plain)
    train(small(method="grpo-nearest", method_settings={}, **changes), through)
    one, two = ([line for line in lines(folder) if line["kind"] != "clone"] for folder in (plain, through))
    steps = [[line for line in some if line["kind"] == "step"] for some in (one, two)]
    assert steps[0] == steps[1]  # training is not touched
    last = [line for line in two if line["kind"] == "eval"][-1]
    assert 0 <= last["eval_nearest-legal_changed"] <= 1
    assert last["eval_valid"] >= [line for line in one if line["kind"] == "eval"][-1]["eval_valid"]


# ---- nearest legal -------------------------------------------------------------------------------------------------


def test_the_nearest_is_the_one_with_the_greatest_ratio() -> None:
    """Oracle: the ratio of every action, without the bounds that spare computing it."""
    rng = np.random.default_rng(0)
    legal = ["go to desk 1", "go to desk 2", "take mug 1 from desk 1", "open drawer 3", "look", "inventory"]
    for _ in range(300):
        said = list(legal[rng.integers(len(legal))])
        for _ in range(rng.integers(0, 9)):
            said[rng.integers(len(said))] = "abcdefg 1234"[rng.integers(12)]
        words = "".join(said).strip()
        ratios = [difflib.SequenceMatcher(None, one, words, autojunk=False).ratio() for one in legal]
        best = max(ratios)
        assert nearest(words, legal, 0.6) == (legal[ratios.index(best)] if best >= 0.6 else words)


def test_words_that_are_like_nothing_are_played_as_they_are() -> None:
    assert nearest("go  to Desk 1", ["look", "go to desk 1"], 0.6) == "go to desk 1"
    assert nearest("xyz", ["look", "go to desk 1"], 0.6) == "xyz"
    assert nearest("", ["look"], 0.0) == "look"


class Says:
    """Says one thing; counts how often."""

    wants = {"history": True}  # noqa: RUF012 - as policies have it

    def __init__(self, said: Any) -> None:
        self.said, self.asked = said, 0

    def reset(self, spec: Any, task: Any) -> None:
        self.asked = 0

    def act(self, observation: Observation) -> Any:
        self.asked += 1
        return self.said


def test_a_wrapped_policy_acts_once_a_turn_and_is_otherwise_itself() -> None:
    wrapper = wrappers.make("nearest-legal")
    inner = Says("go to desc 1")
    policy: Any = wrapper.wrap(inner)
    policy.reset(SimpleNamespace(), SimpleNamespace())
    legal = Observation((TextBlock("room"),), ("look", "go to desk 1"))
    assert policy.act(legal) == "go to desk 1"
    assert policy.act(seen("room")) == "go to desc 1"
    assert policy.asked == 2
    assert policy.wants == {"history": True, "admissible": True}
    assert wrapper.metrics() == {"changed": 0.5}
    twin = wrappers.make("nearest-legal")
    twin.load_state_dict(wrapper.state_dict())
    assert twin.metrics() == {"changed": 0.5}
    with pytest.raises(AttributeError):
        _ = policy.nothing


def test_who_is_shown_the_scenario_is_not_wrapped() -> None:
    class Oracle(Says, Privileged):  # type: ignore[misc]
        def reveal(self, scenario: Any) -> None:
            """Nothing to see."""

    with pytest.raises(PolicyError, match="shown the scenario"):
        wrappers.make("nearest-legal").wrap(Oracle("go"))


def test_a_wrapper_that_asks_twice_is_refused_in_training() -> None:
    class Twice:
        name = "twice"

        def wrap(self, policy: Any) -> Any:
            def act(observation: Observation) -> Any:
                return policy.act(observation) and policy.act(observation)

            return SimpleNamespace(reset=policy.reset, act=act)

    over = rollouts()
    twice: Any = Twice()
    over.hooks = [Through(twice, over.worlds)]
    with pytest.raises(PolicyError, match="twice in a turn"):
        played(over, 1, 1)


def test_all_kinds_of_plug_ins_have_one() -> None:
    assert "experience" in libraries.names()
    assert "recall" in hooks.names()
    assert "nearest-legal" in wrappers.names()
    assert issubclass(libraries.get("experience"), Library)
