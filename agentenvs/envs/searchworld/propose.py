"""Generated scenarios with their proofs: dealt from the deck, drafted by the nouns, proved here, kept while in use.

What does not pass every gate is drafted again from a stream of its own, so that an address always has one scenario.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from agentenvs.core.errors import ContractError
from agentenvs.core.spec import EnvSpec
from agentenvs.core.streams import Stream, derive
from agentenvs.envs.searchworld.holdings import Holding, Place, Recent, UniverseShelf, universe, universe_key
from agentenvs.envs.searchworld.prove import Proof, prove
from agentenvs_scenarios.searchworld.ladder import DECK, Card, catalogue, deck
from agentenvs_scenarios.searchworld.model import Question, Scenario
from agentenvs_scenarios.searchworld.programs import question
from agentenvs_scenarios.searchworld.questions import Draft, Sampler

MOST_PROPOSALS: Final = 200
"""Drafts for one place before something must be wrong; the first few nearly always hold one that passes."""
KEPT: Final = 512
"""Scenarios that are kept."""


class Proposal(NamedTuple):
    """A generated scenario and what is known of it beside its digest."""

    scenario: Scenario
    proof: Proof
    card: Card


_proposals: Recent[Proposal] = Recent(KEPT)
_decks: Recent[tuple[Card, ...]] = Recent(16)


def place_of(split: str, index: int, people: int) -> tuple[Place, int]:
    """Return the universe that a scenario is about, and the question's number in it."""
    number, question = divmod(index, catalogue().splits[split].questions)
    return Place(split, number, people), question


def proposal(spec: EnvSpec, split: str, index: int, people: int, difficulty: str, given: str | None) -> Proposal:
    """Return the generated scenario of an address, proved.

    Args:
        spec: The environment's.
        split: A generated split.
        index: Index in the split, or the seed.
        people: Size of its universe.
        difficulty: ``mixed``, or a rung of the ladder.
        given: The option ``prepared``.

    Raises:
        ConfigError: The split is sealed, and the operator's secret cannot be used.
        ContractError: None of :data:`MOST_PROPOSALS` drafts passes every gate.
    """
    place, _ = place_of(split, index, people)
    key = derive(universe_key(place), f"question/{index}/{difficulty}")
    return _proposals.get(key, lambda: _proposed(spec, key, place, index, difficulty, given))


def card_of(split: str, index: int, people: int, difficulty: str) -> Card:
    """Return what is asked at an address."""
    number, place = divmod(index, DECK)
    first, _ = place_of(split, number * DECK, people)
    key = universe_key(first)
    return _decks.get((key, difficulty), lambda: deck(key, difficulty))[place]


def _proposed(spec: EnvSpec, key: bytes, place: Place, index: int, difficulty: str, given: str | None) -> Proposal:
    card = card_of(place.split, index, place.people, difficulty)
    holding = universe(spec, place, given)
    shelf = holding.shelf
    if shelf is None:
        raise ContractError("a generated question without a universe")
    return propose(holding, shelf, key, card, place.split)


def propose(holding: Holding, shelf: UniverseShelf, key: bytes, card: Card, split: str) -> Proposal:
    """Return the scenario of a key and a card, proved; see :func:`proposal`."""
    for attempt in range(MOST_PROPOSALS):
        draft = Sampler(shelf.universe, Stream(key, f"draft/{attempt}")).draft(card.kind, card.hops, card.variant)
        if draft is None:
            continue
        sentence = question(draft.program)
        proof = prove(holding, draft, sentence)
        if proof.holds:
            return Proposal(_scenario(holding, shelf, draft, proof, sentence, split), proof, card)
    raise ContractError(f"none of {MOST_PROPOSALS} drafts of a {card.kind} of {card.hops} hops passes every gate")


def _scenario(
    holding: Holding, shelf: UniverseShelf, draft: Draft, proof: Proof, sentence: str, split: str
) -> Scenario:
    documents = shelf.universe.document_of
    asked = Question(
        sentence=sentence,
        kind=draft.kind,
        hops=draft.hops,
        answers=tuple((answer,) for answer in proof.answers),
        supports=tuple(holding.library.id_of(documents.item(entity)) for entity in proof.supports),
        program=draft.program,
        twin="" if draft.twin is None else question(draft.twin),
    )
    name = split if split == "sealed" else f"{draft.kind}-{draft.hops}"
    return Scenario(name, holding.library.digest, asked)
