"""Words of a text, and their stems."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentenvs.core.errors import ContractError
from agentenvs.core.search import ENGLISH, Tokenizer
from agentenvs.core.search.porter import stem


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The Red-DOOR_of 3,000.5 it's", ["the", "red", "door", "of", "3", "000", "5", "it", "s"]),
        ("cafe\u0301 CAFÉ", ["café", "café"]),
        ("Straße ΣΊΣΥΦΟΣ", ["strasse", "σίσυφοσ"]),
        ("naïve—dash…end", ["naïve", "dash", "end"]),
        ("日本 2020", ["日本", "2020"]),
        ("a\x00b\ud800c\u200bd", ["a", "b", "c", "d"]),
        ("\U0001fae8", ["\U0001fae8"]),  # younger than Unicode 3.2, so a letter like any other
        ("\U0001e4ec\u0301", ["\U0001e4ec\u0301"]),  # a mark since Unicode 15, past which another would move
        ("e\u034f\u0301", ["e\u0301"]),
        ("", []),
    ],
)
def test_words_are_runs_of_letters_and_digits(text: str, words: list[str]) -> None:
    assert Tokenizer().words(text) == words


@given(st.text())
def test_words_are_folded_once_and_for_all(text: str) -> None:
    tokenizer = Tokenizer()
    for word in tokenizer.words(text):
        assert tokenizer.words(word) == [word] or not unicodedata.is_normalized("NFC", word)


def test_english_words_keep_what_belongs_to_them() -> None:
    text = "The women's shoes aren't 1.5 sizes, U.S.A.; 3,000 x: y, end."
    assert ENGLISH.terms(text) == ["women", "shoe", "aren't", "1.5", "size", "u.s.a", "3,000", "x", "y", "end"]


def test_stop_words_are_left_out_before_stemming() -> None:
    assert Tokenizer(stop=("being",), stemmer="porter").terms("being Beings be") == ["be", "be"]


def test_a_description_reads_back() -> None:
    assert Tokenizer.from_json(ENGLISH.to_json()) == ENGLISH
    with pytest.raises(ContractError, match="version 9"):
        Tokenizer.from_json({**ENGLISH.to_json(), "version": 9})


@pytest.mark.parametrize("wrong", [{"stemmer": "other"}, {"rules": "other"}])
def test_an_unknown_tokenizer_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ContractError, match="no such tokenizer"):
        Tokenizer(**wrong)  # type: ignore[arg-type]


# Examples of Porter's paper, and words on which implementations differ.
STEMS = Path(__file__).with_name("stems.txt").read_text(encoding="utf-8").split()


@pytest.mark.parametrize(("word", "wanted"), list(zip(STEMS[::2], STEMS[1::2], strict=True)))
def test_stems_are_porters(word: str, wanted: str) -> None:
    assert stem(word) == wanted
