"""What a player sees: its plain text, its JSON, its bound."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentenvs.core.canon import canonical_bytes, digest
from agentenvs.core.errors import ContractError
from agentenvs.core.observation import (
    CUT_MARKER,
    Block,
    DataBlock,
    ImageBlock,
    Observation,
    TextBlock,
    block_from_json,
    block_to_json,
    bound,
)

_BLOCKS = [TextBlock("ä"), DataBlock({"b": 1, "a": [None]}, "look"), DataBlock(3), ImageBlock("ab12", "image/gif")]
_MARKER = len(CUT_MARKER.format(count=10**6).encode())


@pytest.mark.parametrize(
    ("blocks", "text"),
    [
        ((), ""),
        ((TextBlock("one"),), "one"),
        ((DataBlock({"b": 1, "a": 2}),), '{"a":2,"b":1}'),
        (tuple(_BLOCKS), 'ä\n{"a":[null],"b":1}\n3\n[image ab12]'),
    ],
)
def test_text(blocks: tuple[Block, ...], text: str) -> None:
    assert Observation(blocks).text == text


@pytest.mark.parametrize("block", _BLOCKS, ids=range(4))
def test_a_block_goes_to_json_and_back(block: Block) -> None:
    assert block_from_json(block_to_json(block)) == block


@pytest.mark.parametrize("admissible", [None, (), ("look", "go")])
def test_an_observation_goes_to_json_and_back(admissible: tuple[str, ...] | None) -> None:
    seen = Observation(tuple(_BLOCKS), admissible, {"steps": 4})
    form = seen.to_json()
    assert Observation.from_json(form) == seen
    assert ("admissible" in form) is (admissible is not None)
    assert canonical_bytes(form)


@pytest.mark.parametrize(
    ("blocks", "limit", "shown"),
    [
        ((TextBlock("abcd"),), 4, ["abcd"]),
        ((TextBlock("abcde"),), 4, ["abcd\n[… cut: 1 characters more]"]),
        ((TextBlock("ää"),), 3, ["ä\n[… cut: 1 characters more]"]),
        ((TextBlock("ab"), TextBlock("cdef")), 4, ["ab", "cd\n[… cut: 2 characters more]"]),
        (
            (TextBlock("abcdef"), TextBlock("g")),
            4,
            ["abcd\n[… cut: 2 characters more]", "\n[… cut: 1 characters more]"],
        ),
        ((DataBlock([1, 2]),), 4, ["[1,2\n[… cut: 1 characters more]"]),
        ((DataBlock([1, 2]),), 5, ["[1,2]"]),
    ],
)
def test_cuts(blocks: tuple[Block, ...], limit: int, shown: list[str]) -> None:
    assert [Observation((block,)).text for block in bound(blocks, limit)] == shown


def test_what_fits_is_left_alone() -> None:
    blocks = (DataBlock({"a": 1}, "look"), TextBlock("ä" * 10))
    assert bound(blocks, 27) == blocks
    assert bound(blocks, 26)[0] == blocks[0]


@given(st.lists(st.text(max_size=30) | st.lists(st.integers(), max_size=5), max_size=4), st.integers(1, 60))
def test_a_bound_holds_but_for_the_markers(contents: list[Any], limit: int) -> None:
    blocks = tuple(TextBlock(item) if isinstance(item, str) else DataBlock(item) for item in contents)
    kept = bound(blocks, limit)
    sizes = [len(Observation((block,)).text.encode()) for block in kept]
    cut = sum(new != old for new, old in zip(kept, blocks, strict=True))
    assert sum(sizes) <= limit + cut * _MARKER


ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=40)
BUDGETS = st.dictionaries(
    ANY_TEXT, st.integers() | st.sampled_from([True, 1.0, 1e16, 2**63, 2**64, -(2**63) - 1]), max_size=3
)
LISTED = st.none() | st.lists(ANY_TEXT | st.sampled_from([1e16, 3, None]), max_size=3).map(tuple)


@given(st.lists(ANY_TEXT.map(TextBlock) | st.sampled_from(_BLOCKS), max_size=3), LISTED, BUDGETS)
def test_the_digest_is_that_of_the_canonical_json(blocks: list[Block], listed: Any, budgets: dict[str, Any]) -> None:
    observation = Observation(tuple(blocks), listed, budgets)
    try:
        wanted = digest(observation.to_json())
    except ContractError:
        with pytest.raises(ContractError):
            observation.digest()
    else:
        assert observation.digest() == wanted
