"""The order of ids, computed over columns, is the order of their spellings."""

from __future__ import annotations

from agentenvs_scenarios.webshop.generated import LARGE, GeneratedShop


def test_products_of_large_and_small_shops_stand_in_the_order_of_their_ids() -> None:
    for seed in range(3):
        for size in (1_000, LARGE, LARGE + 777):
            shop = GeneratedShop(seed, size)
            ids = [shop.id_of(index) for index in shop.order]
            assert len(set(ids)) == size
            assert ids == sorted(ids)
