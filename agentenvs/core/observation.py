"""What a player sees after a turn: an ordered list of content blocks, with the plain text of it one attribute away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import orjson

from agentenvs.core.canon import JSON, canonical, digest, sha256

CUT_MARKER = "\n[… cut: {count} characters more]"
"""What stands at the end of a text that was longer than ``max_observation_bytes`` allows."""


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Words."""

    text: str


@dataclass(frozen=True, slots=True)
class DataBlock:
    """A JSON value, e.g. the result of a tool call."""

    data: JSON
    tool: str | None = None
    """The tool that answered, where it was a tool."""


@dataclass(frozen=True, slots=True)
class ImageBlock:
    """An image, by digest; reserved: no environment sends one yet."""

    digest: str
    media_type: str = "image/png"


_WORDS: frozenset[type | None] = frozenset({str})
_INTEGERS = frozenset({int})
_CANONICAL = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_SUBCLASS
_WORDS_ALONE = b'{"blocks":[{"text":%b,"type":"text"}],"budgets":%b}'

Block: TypeAlias = TextBlock | DataBlock | ImageBlock


@dataclass(frozen=True, slots=True)
class Observation:
    """What the player sees."""

    blocks: tuple[Block, ...]
    """Content in order; one block a call where a turn held several."""
    admissible: tuple[str, ...] | None = None
    """Legal text actions, where the caller asked for them and the environment can tell."""
    budgets: Mapping[str, int] = field(default_factory=dict)
    """What is left of each declared budget, e.g. ``{"steps": 49}``."""

    @property
    def text(self) -> str:
        """The plain form: texts as they are, data as canonical JSON, blocks apart by a newline."""
        blocks = self.blocks
        if len(blocks) == 1 and type(blocks[0]) is TextBlock:
            return blocks[0].text
        return "\n".join(_plain(block) for block in blocks)

    def digest(self) -> str:
        """Return the digest of its canonical JSON, which stands in records.

        Raises:
            ContractError: It has none.
        """
        if len(self.blocks) == 1 and self.admissible is None and (spelled := self._spelled(self.blocks[0])):
            return sha256(spelled)
        form = self.to_json()
        words = {type(block.text) if type(block) is TextBlock else None for block in self.blocks}
        words.update(map(type, self.admissible or ()))
        if words <= _WORDS and _INTEGERS.issuperset(map(type, self.budgets.values())):
            try:
                # Of words and integers orjson's spelling is the canonical one, in a quarter of the time.
                return sha256(orjson.dumps(form, option=_CANONICAL))
            except TypeError:  # an integer of more than 64 bits, a lone surrogate, or what is no JSON at all
                pass
        return digest(form)

    def _spelled(self, block: Block) -> bytes | None:
        """Return the canonical JSON where it is that of one block of words; None where it may not be."""
        if type(block) is not TextBlock or type(block.text) is not str:
            return None
        if not _INTEGERS.issuperset(map(type, self.budgets.values())):
            return None
        try:
            return _WORDS_ALONE % (orjson.dumps(block.text), orjson.dumps(dict(self.budgets), option=_CANONICAL))
        except TypeError:
            return None

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form that stands on the wire and under the observation's digest."""
        form: dict[str, JSON] = {"blocks": [block_to_json(block) for block in self.blocks]}
        if self.admissible is not None:
            form["admissible"] = list(self.admissible)
        form["budgets"] = dict(self.budgets)
        return form

    @classmethod
    def from_json(cls, form: Mapping[str, JSON]) -> Observation:
        """Read back what :meth:`to_json` wrote."""
        admissible = form.get("admissible")
        return cls(
            tuple(block_from_json(block) for block in form["blocks"]),
            None if admissible is None else tuple(admissible),
            dict(form.get("budgets", {})),
        )


def _plain(block: Block) -> str:
    if isinstance(block, TextBlock):
        return block.text
    if isinstance(block, DataBlock):
        return canonical(block.data)
    return f"[image {block.digest}]"


def block_to_json(block: Block) -> dict[str, JSON]:
    """Return the JSON form of a block."""
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    if isinstance(block, DataBlock):
        return {"type": "data", "data": block.data, **({"tool": block.tool} if block.tool else {})}
    return {"type": "image", "digest": block.digest, "media_type": block.media_type}


def block_from_json(form: Mapping[str, JSON]) -> Block:
    """Read back what :func:`block_to_json` wrote."""
    if form["type"] == "text":
        return TextBlock(form["text"])
    if form["type"] == "data":
        return DataBlock(form["data"], form.get("tool"))
    return ImageBlock(form["digest"], form.get("media_type", "image/png"))


def bound(blocks: tuple[Block, ...], limit: int) -> tuple[Block, ...]:
    """Return the blocks cut so that their plain text is at most about ``limit`` UTF-8 bytes, with a marker where cut.

    A data block that does not fit becomes its text, cut: half a JSON value is none.
    """
    # Four bytes are the most a character takes, so a short text needs no encoding to be known short.
    if sum(len(block.text) if type(block) is TextBlock else limit for block in blocks) * 4 <= limit:
        return blocks
    left = limit
    kept: list[Block] = []
    for block in blocks:
        text = _plain(block)
        size = len(text.encode())
        if size <= left:
            kept.append(block)
            left -= size
            continue
        head = text.encode()[: max(left, 0)].decode(errors="ignore")
        kept.append(TextBlock(head + CUT_MARKER.format(count=len(text) - len(head))))
        left = 0
    return tuple(kept)
