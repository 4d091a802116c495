"""Generated scenarios with their proofs: proposed by the nouns, proved under the rules, and kept while in use.

What cannot be proved solvable is proposed again under a key derived from the first, so that an address always has one
scenario. The proof stands beside the scenario and is no part of its digest: how a room is solved says nothing of what
it is.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from agentenvs.core.errors import ContractError
from agentenvs.core.sealed import sealed_scenario_key
from agentenvs.core.streams import derive, scenario_key
from agentenvs.envs.household.data import KEPT_SCENARIOS, Recent, layout_of
from agentenvs.envs.household.prove import Proof, prove
from agentenvs_scenarios.household.generate import SEALED, generate
from agentenvs_scenarios.household.ladder import rung_of
from agentenvs_scenarios.household.model import Scenario

SLUG: Final = "household"
MOST_PROPOSALS: Final = 20
"""Proposals for one address before something must be wrong; the first is nearly always proved."""


class Proposal(NamedTuple):
    """A generated scenario and what is known of it beside its digest."""

    scenario: Scenario
    proof: Proof
    """Under the rules of ``compat``."""
    rung: str
    """Rung of the difficulty ladder it was made for."""


_proposals: Recent[Proposal] = Recent(KEPT_SCENARIOS)


def proposal(split: str, index: int, difficulty: str) -> Proposal:
    """Return the generated scenario of an address, proved.

    Args:
        split: ``train``, ``dev``, ``test`` or ``sealed``.
        index: Index in the split, or the seed.
        difficulty: ``mixed``, or a rung of the ladder.

    Raises:
        ConfigError: The split is sealed, and the operator's secret cannot be used.
        ContractError: None of :data:`MOST_PROPOSALS` proposals can be solved.
    """
    key = sealed_scenario_key(SLUG, index) if split == SEALED else scenario_key(SLUG, split, index)
    # Named by the key, a sealed scenario is found by nobody who could not make it.
    return _proposals.get((key, split, difficulty), lambda: propose(key, split, difficulty))


def propose(key: bytes, split: str, difficulty: str) -> Proposal:
    """Return the scenario of a key, proved; see :func:`proposal`."""
    for attempt in range(MOST_PROPOSALS):
        drawn = derive(key, f"proposal/{attempt}") if attempt else key
        scenario = generate(drawn, difficulty, split)
        proof = prove(layout_of(scenario, "compat", None, aliases=False))
        if proof.solvable:
            return Proposal(scenario, proof, rung_of(drawn, difficulty).name)
    raise ContractError(f"none of {MOST_PROPOSALS} proposals for a household ({difficulty}, {split}) can be solved")
