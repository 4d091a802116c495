"""Generated scenarios with their proofs, kept while in use.

A goal is proved satisfiable before it is played: what it was made of earns full marks under the rules of scoring. The
proof stands beside the scenario and is no part of its digest.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from agentenvs.core.errors import ContractError
from agentenvs.core.sealed import sealed_scenario_key
from agentenvs.core.streams import derive, scenario_key
from agentenvs.envs.webshop.prove import Proof, prove
from agentenvs.envs.webshop.shops import Recent
from agentenvs_scenarios.webshop.generate import SEALED, generate
from agentenvs_scenarios.webshop.generated import GeneratedShop
from agentenvs_scenarios.webshop.model import Scenario

SLUG: Final = "webshop"
MOST_PROPOSALS: Final = 20
KEPT: Final = 512


class Proposal(NamedTuple):
    """A generated scenario and what is known of it beside its digest."""

    scenario: Scenario
    proof: Proof


_proposals: Recent[Proposal] = Recent(KEPT)


def proposal(shop: GeneratedShop, split: str, index: int, difficulty: str) -> Proposal:
    """Return the generated scenario of an address, proved.

    Raises:
        ConfigError: The split is sealed, and the operator's secret cannot be used.
        ContractError: None of :data:`MOST_PROPOSALS` proposals can be satisfied.
    """
    key = sealed_scenario_key(SLUG, index) if split == SEALED else scenario_key(SLUG, split, index)
    return _proposals.get((shop.digest, key, split, difficulty), lambda: propose(shop, key, split, difficulty))


def propose(shop: GeneratedShop, key: bytes, split: str, difficulty: str) -> Proposal:
    """Return the scenario of a key, proved; see :func:`proposal`."""
    for attempt in range(MOST_PROPOSALS):
        scenario = generate(shop, derive(key, f"proposal/{attempt}") if attempt else key, difficulty, split)
        proof = prove(scenario)
        if proof.holds:
            return Proposal(scenario, proof)
    raise ContractError(f"no goal of {split} can be satisfied in {MOST_PROPOSALS} proposals")
