"""Stores are chosen by what they hold, and never by an id."""

import pytest

from partibus.control.placement import UnknownLoads, choose_stores, worker_of


class Loads(UnknownLoads):
    """Stores of which some are down."""

    def __init__(self, *down: int) -> None:
        self._down = down

    def is_available(self, store: int) -> bool:
        return store not in self._down


@pytest.mark.rule("SEED-4")
def test_a_partitioned_entity_is_spread_over_all_stores_whatever_they_hold() -> None:
    chosen = choose_stores(16, 4, {0: 900, 1: 5}, Loads())
    assert [chosen.count(store) for store in range(4)] == [4, 4, 4, 4]
    assert chosen[:4] == [2, 3, 1, 0]


@pytest.mark.rule("SEED-60")
def test_an_entity_that_needs_every_store_gets_the_one_that_is_down_too() -> None:
    assert set(choose_stores(4, 4, {}, Loads(2))) == {0, 1, 2, 3}
    assert set(choose_stores(3, 4, {}, Loads(2))) == {0, 1, 3}


def test_every_store_has_one_worker() -> None:
    assert [worker_of(store, 3) for store in range(7)] == [0, 1, 2, 0, 1, 2, 0]
