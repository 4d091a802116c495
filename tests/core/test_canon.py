"""One spelling for every JSON value."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentenvs.core.canon import canonical, canonical_bytes, clean_text, digest, sha256
from agentenvs.core.errors import ContractError

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        ([True, False], "[true,false]"),
        ({"b": 1, "a": {"d": [], "c": {}}}, '{"a":{"c":{},"d":[]},"b":1}'),
        ({"ä": 1, "z": 2, "A": 3}, '{"A":3,"z":2,"ä":1}'),
        ((1, 2), "[1,2]"),
        (2**70, "1180591620717411303424"),
        ('\u2603\x00\x7f"\\/', '"\u2603\\u0000\x7f\\"\\\\/"'),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1e16, "1e+16"),
        (1e15, "1000000000000000.0"),
        (1e-7, "1e-07"),
        (5e-324, "5e-324"),
    ],
)
def test_spelling(value: Any, text: str) -> None:
    assert canonical(value) == text
    assert canonical_bytes(value) == text.encode()


@given(_JSON)
def test_reads_back_and_is_its_own_spelling(value: Any) -> None:
    text = canonical(value)
    assert json.loads(text) == value
    assert canonical(json.loads(text)) == text


@given(st.dictionaries(st.text(), st.integers(), min_size=2))
def test_the_order_of_keys_does_not_matter(value: dict[str, int]) -> None:
    assert canonical(dict(reversed(value.items()))) == canonical(value)


def _cycle() -> list[Any]:
    cycle: list[Any] = []
    cycle.append(cycle)
    return cycle


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), {1, 2}, b"bytes", object(), {("a",): 1}, {"a": 1, 2: 3}, _cycle()],
    ids=["nan", "inf", "set", "bytes", "object", "tuple-key", "mixed-keys", "cycle"],
)
def test_what_is_no_json_is_refused(value: Any) -> None:
    with pytest.raises(ContractError, match=r"AE301 a value has no canonical JSON\n  why: .*\n  fix: use null, bool"):
        canonical(value)


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(ContractError, match=r"a string holds a lone surrogate\n(.*\n)*  fix: pass model output"):
        canonical_bytes(["\ud83d"])


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("plain", "plain"),
        ("\u2603\U0001f600", "\u2603\U0001f600"),
        ("a\ud83d", "a?"),
        ("\udc80\ud800b", "??b"),
    ],
)
def test_clean_text(text: str, clean: str) -> None:
    assert clean_text(text) == clean


@given(st.text(st.characters(codec=None)))
def test_clean_text_has_a_utf8_form_and_stays(text: str) -> None:
    clean = clean_text(text)
    assert clean.encode().decode() == clean == clean_text(clean)
    assert len(clean) == len(text)


def test_digests() -> None:
    assert sha256(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert digest({"b": 1, "a": "ä"}) == hashlib.sha256('{"a":"ä","b":1}'.encode()).hexdigest()
