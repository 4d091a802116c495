"""What a generated product is called and what its pages say: invented names, and templates filled from facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentenvs.core.streams import Stream, derive
from agentenvs_scenarios.webshop.families import Facts
from agentenvs_scenarios.webshop.model import Product, Review, range_tag
from agentenvs_scenarios.webshop.vocabulary import Kind, vocabulary

BRANDS = 400
"""Brands of a shop."""


def brand_names(seed: bytes) -> tuple[str, ...]:
    """Return the brands of a shop: invented names, each once."""
    stream = Stream(seed, "brands")
    names: dict[str, None] = {}
    while len(names) < BRANDS:
        names[_name(stream)] = None
    return tuple(names)


def product_of(seed: bytes, index: int, product_id: str, kind: Kind, facts: Facts, brands: tuple[str, ...]) -> Product:
    """Return a product with its words.

    Args:
        seed: The shop's key.
        index: The product's index.
        product_id: Its id.
        kind: Its kind.
        facts: What is so.
        brands: The shop's brands.
    """
    stream = Stream(derive(seed, f"words/{index}"), "words")
    shuffled = list(facts.attributes)
    stream.shuffle(shuffled)
    first, second = shuffled[:2]
    words = {
        "brand": stream.choice(brands),
        "line": _name(stream),
        "kind": kind.name,
        "first": first.label,
        "second": second.label,
        "one": first.say,
        "two": second.say,
    }
    texts = vocabulary().texts
    title = _filled(stream.choice(texts["titles"]["forms"]), {**words, "kind": kind.name.title()})
    said = " ".join(_filled(stream.choice(texts["descriptions"][part]), words) for part in ("first", "middle", "last"))
    stream.shuffle(shuffled)
    reviews = tuple(_reviews(stream, texts["reviews"], words))
    return Product(
        id=product_id,
        title=title[:1].upper() + title[1:],
        tag=range_tag(facts.low, facts.high),
        low=facts.low,
        high=facts.high,
        charged=facts.low,
        category=kind.category,
        query=kind.name,
        path=kind.path,
        attributes=tuple(value.label for value in facts.attributes),
        options=facts.options,
        description=said,
        bullets=tuple(_bullets(stream, [value.say for value in shuffled], texts["descriptions"], words)),
        rating=10 * sum(review.score for review in reviews) // len(reviews) if reviews else None,
        reviews=reviews,
    )


def bare(index_id: str, kind: Kind, facts: Facts) -> Product:
    """Return a product without its words, for whoever asks only what is so."""
    return Product(
        id=index_id,
        title="",
        tag="",
        low=facts.low,
        high=facts.high,
        charged=facts.low,
        category=kind.category,
        query=kind.name,
        path=kind.path,
        attributes=tuple(value.label for value in facts.attributes),
        options=facts.options,
        description="",
        bullets=(),
    )


def _name(stream: Stream) -> str:
    parts = vocabulary().texts["names"]
    count = 2 if stream.chance(2, 3) else 3
    syllables = [stream.choice(parts["onsets"]) + stream.choice(parts["vowels"]) for _ in range(count)]
    name: str = "".join(syllables) + stream.choice(parts["codas"])
    return name.capitalize()


def _bullets(stream: Stream, says: list[str], texts: Mapping[str, Any], words: Mapping[str, str]) -> Iterator[str]:
    for say in says:
        yield f"It {say}{_filled(stream.choice(texts['tails']), words)}"
    yield _filled(stream.choice(texts["extra"]), words)


def _reviews(stream: Stream, texts: Mapping[str, Any], words: Mapping[str, str]) -> Iterator[Review]:
    for _ in range(stream.below(5)):
        score = stream.weighted((5, 4, 3, 2, 1), (9, 6, 2, 1, 1))
        title, body = stream.choice(texts["good" if score > 3 else "middling" if score == 3 else "bad"])
        yield Review(title, score, _filled(body, words))


def _filled(template: str, words: Mapping[str, str]) -> str:
    return template.format_map(words)
