"""Records, plug-ins and templates: tokens keep their places, needs are named, increments add up to the whole."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentenvs.core.errors import ConfigError
from agentenvs.core.task import TaskRef
from agentenvs.train.batch import Batch, returns_to_go
from agentenvs.train.config import read
from agentenvs.train.plugins import ROLLOUT, NeedError, Plugin, Registry, check_needs, configured
from agentenvs.train.records import Episode, EpisodeWriter, Role
from agentenvs.train.template import ChatTemplate, PlainTemplate, agrees
from agentenvs.train.tokenizer import train_tokenizer
from tests.train.games import episodes

CHATML = (
    "{% for m in messages %}<seen>{{ m['role'] }}\n{{ m['content'] }}<end>\n{% endfor %}"
    "{% if add_generation_prompt %}<seen>assistant\n{% endif %}"
)


def written() -> EpisodeWriter:
    writer = EpisodeWriter(Episode("game", TaskRef("train", 0), 0, 0))
    writer.prompt([1, 2, 3])
    writer.sampled([4, 5], [-0.5, -0.25], version=7, forced=[9])
    return writer


def test_prompts_that_extend_stay_in_one_segment() -> None:
    writer = written()
    writer.prompt([1, 2, 3, 4, 5, 9, 6, 6])
    writer.sampled([8], [-1.0], version=8)
    (segment,) = writer.finish().segments
    assert segment.ids.tolist() == [1, 2, 3, 4, 5, 9, 6, 6, 8]
    assert segment.role.tolist() == [0, 0, 0, 2, 2, 3, 1, 1, 2]
    assert segment.loss_mask.tolist() == [False] * 3 + [True] * 2 + [False] * 3 + [True]
    assert segment.version.tolist() == [-1, -1, -1, 7, 7, -1, -1, -1, 8]
    assert [(turn.segment, turn.start, turn.end) for turn in writer.episode.turns] == [(0, 3, 5), (0, 8, 9)]
    assert writer.episode.oldest == 7


def test_a_prompt_that_does_not_extend_opens_a_segment() -> None:
    writer = written()
    writer.prompt([1, 2, 3, 6])
    writer.sampled([8], [-1.0], version=8)
    first, second = writer.finish().segments
    assert first.ids.tolist() == [1, 2, 3, 4, 5, 9]
    assert second.ids.tolist() == [1, 2, 3, 6, 8]
    assert second.role.tolist() == [Role.PROMPT] * 4 + [Role.ACTION]
    assert [turn.segment for turn in writer.episode.turns] == [0, 1]


def test_a_token_that_alone_was_legal_is_no_choice_and_not_trained_on() -> None:
    writer = EpisodeWriter(Episode("game", TaskRef("train", 0), 0, 0))
    writer.prompt([1])
    legal = [np.array([4, 6], dtype=np.int32), np.array([5], dtype=np.int32), None]
    writer.sampled([4, 5, 7], [-0.5, 0.0, -0.1], version=0, candidates=legal)
    (segment,) = writer.finish().segments
    assert segment.loss_mask.tolist() == [False, True, False, True]
    assert writer.episode.tokens == 2


def test_tokens_without_a_log_probability_are_refused() -> None:
    with pytest.raises(ValueError, match="log-probabilities"):
        written().sampled([1, 2], [0.5], version=0)


def test_advantages_are_painted_on_trained_tokens_alone() -> None:
    batch = Batch(episodes(6))
    for index, episode in enumerate(batch.episodes):
        batch.paint(index, np.arange(len(episode.turns), dtype=np.float64) + 1)
    for index, place, segment in batch.segments():
        assert (batch.advantages[index][place][~segment.loss_mask] == 0).all()
    assert len(batch.flat()) == batch.lengths().sum()
    for index, _, turn in batch.turns():
        span = batch.advantages[index][turn.segment][turn.start : turn.end]
        assert (span == batch.episodes[index].turns.index(turn) + 1).all()


def test_returns_to_go() -> None:
    assert returns_to_go(np.array([1.0, 0.0, 2.0]), 0.5).tolist() == [1.5, 1.0, 2.0]


class Wanting(Plugin):
    """Needs a key of states."""

    name = "wanting"
    needs = frozenset(("turn.state_key",))


class Giving(Plugin):
    """Provides one."""

    name = "giving"
    provides = frozenset(("turn.state_key",))


def test_a_missing_need_names_plugin_field_and_who_provides_it() -> None:
    check_needs([Giving(), Wanting()], ROLLOUT)
    with pytest.raises(NeedError, match=r"wanting needs turn\.state_key") as caught:
        check_needs([Wanting(), Giving()], ROLLOUT, [Giving, Wanting])
    assert (caught.value.plugin, caught.value.field) == ("wanting", "turn.state_key")
    assert "giving" in str(caught.value)


def test_names_are_taken_once() -> None:
    registry: Registry[Plugin] = Registry("thing")
    registry.register(Giving)
    with pytest.raises(ValueError, match="of its own"):
        registry.register(type("Other", (Plugin,), {"name": "giving"}))
    with pytest.raises(ConfigError, match="did you mean 'giving'"):
        registry.get("givingly")


@dataclass(frozen=True)
class Settings:
    """Some."""

    rate: float = 0.5
    count: int = 1
    on: bool = False
    limit: int | None = None


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"rat": 1}, "did you mean 'rate'"),
        ({"count": 1.5}, "count is 1.5"),
        ({"count": True}, "count is True"),
        ({"on": 1}, "on is 1"),
        ({"rate": "x"}, "rate is 'x'"),
    ],
)
def test_settings_that_make_no_sense_are_named(form: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        configured(Settings, form, "thing")


def test_whole_numbers_may_stand_for_others() -> None:
    assert configured(Settings, {"rate": 1, "limit": None}, "thing") == Settings(rate=1.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("steps = ", "no TOML"),
        ("steps = 3", "names no world"),
        ("worlds = 3", "names no world"),
        ('[worlds.a]\nenv = "household"\n[learner]\nlr = "x"', "learner: lr is 'x'"),
        ('[worlds.a]\nenv = "household"\n[lerner]\n', "did you mean 'learner'"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "run.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=words):
        read(path)


def test_settings_are_changed_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('[worlds.a]\nenv = "household"\n', encoding="utf-8")
    found = read(path, ["learner.lr=0.5", "method=dr-grpo", "worlds.a.options={difficulty = 'easy'}"])
    assert (found.learner.lr, found.method, found.worlds["a"].options) == (0.5, "dr-grpo", {"difficulty": "easy"})
    with pytest.raises(ConfigError, match="changes nothing"):
        read(path, ["learner.lr"])


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    made = train_tokenizer(["You see a mug 1 on the table.", "go to table 1", "take mug 1 from table 1"] * 20, 320)
    made.chat_template = CHATML
    return made


words = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=30)


@settings(max_examples=60, deadline=None)
@given(head=words, exchanges=st.lists(st.tuples(words, words), max_size=4), last=words)
def test_increments_of_a_chat_template_add_up(
    tokenizer: Any, head: str, exchanges: list[tuple[str, str]], last: str
) -> None:
    assert agrees(ChatTemplate(tokenizer), head, exchanges, last)


@settings(max_examples=60, deadline=None)
@given(text=words)
def test_a_turn_says_what_was_written(tokenizer: Any, text: str) -> None:
    for template in (PlainTemplate(tokenizer), ChatTemplate(tokenizer)):
        assert template.text(template.turn(text)) == text
        assert template.turn(text)[-1] in template.stop
