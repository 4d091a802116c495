"""Golden cases of the core: keys, streams, portable functions, canonical JSON."""

from __future__ import annotations

from agentenvs.core import portable
from agentenvs.core.canon import digest
from agentenvs.core.search import ENGLISH, build
from agentenvs.core.streams import Stream, derive, scenario_key, sealed_key

_VALUE = {
    "text": 'Zürich \u2603 \U0001f600 \x00\x1f\x7f"\\/',
    "numbers": [0, -1, 2**64, 0.1, -0.0, 1e16, 1e-7, 5e-324, 1.7976931348623157e308, 123456789.123456789],
    "nested": {"b": [None, True, False], "a": {"": []}, "ä": {}, "A": 1},
}


def digests() -> dict[str, str]:
    """Return the digests of the core."""
    return {
        "core/canon": digest(_VALUE),
        "core/keys": digest(_keys()),
        "core/portable": digest(_portable()),
        "core/search": _searched(),
        "core/streams": digest(_draws()),
    }


def _keys() -> list[str]:
    keys = [scenario_key("household", split, index) for split in ("train", "test") for index in (0, 1, -1, 2**70)]
    keys += [sealed_key(b"secret", "household", 7), derive(scenario_key("household", "train", 0), "layout")]
    return [key.hex() for key in keys]


def _portable() -> list[str]:
    points = [sign * (1 + step * 37 % 101) / (1 + step) for step in range(200) for sign in (-1, 1)]
    values = [portable.exp(x) for x in points]
    values += [portable.log(abs(x)) for x in points]
    values += [portable.pow(abs(x), y) for x, y in zip(points, reversed(points), strict=True)]
    return [value.hex() for value in values]


def _draws() -> list[object]:
    stream = Stream(scenario_key("household", "train", 1), "draws")
    deck = list(range(52))
    stream.shuffle(deck)
    return [
        [stream.bits(count) for count in (0, 1, 7, 64, 600)],
        [stream.below(bound) for bound in (1, 2, 3, 10**30)],
        [stream.between(-5, 5) for _ in range(20)],
        [stream.chance(1, 3) for _ in range(20)],
        [stream.uniform().hex() for _ in range(20)],
        [stream.choice("abc"), stream.weighted("xyz", (0, 1, 5)), stream.sample(range(100), 10)],
        deck,
        stream.state(),
    ]


def _searched() -> str:
    stream = Stream(bytes(32), "documents")
    words = (
        "Kelvin \u212a",
        "cafe\u0301",
        "STRASSE",
        "stra\u00dfe",
        "women's",
        "running",
        "\U0001fae8",
        "1,000.5",
        "\u65e5\u672c",
    )
    texts = [" ".join(stream.choice(words) for _ in range(stream.below(30))) for _ in range(300)]
    index = build([(str(number), text) for number, text in enumerate(texts)], tokenizer=ENGLISH)
    return digest([index.digest, [[hit.number, hit.score] for hit in index.search(" ".join(words), 50)]])
