"""A lane that an operator breaks: it is down until it is healed, wherever it is opened."""

from collections.abc import Callable
from typing import Any

import pytest

from partibus.domain.errors import StoreUnavailable
from partibus.store.fault_injection import LaneFaults
from partibus.store.interface import StoreState
from partibus.store.lane.commit import Fenced
from partibus.store.postgres.store import PostgresStore
from partibus.store.record import Record
from support.postgres import PostgresServer

pytestmark = pytest.mark.group("postgres")

LANE = 700
"""No other test of the shared server uses this lane or the next ones."""


@pytest.fixture
def opened(postgres: PostgresServer, pump: Any) -> Callable[..., PostgresStore]:
    def make(faults: LaneFaults, lane: int = LANE, *, takes_over: bool = True) -> PostgresStore:
        store = PostgresStore(
            postgres.dsn,
            lane,
            notify=pump.notify,
            takes_over=takes_over,
            faults=faults,
            probe_interval_s=0.001,
        )
        list(store.open().records)
        faults.attach(store)
        return store

    return make


@pytest.mark.parametrize("fault", ["fail", "fill"])
def test_a_lane_without_traffic_notices_that_it_is_down(
    opened: Callable[..., PostgresStore], pump: Any, fault: str
) -> None:
    faults = LaneFaults()
    store = opened(faults)
    getattr(faults, fault)()
    pump.until(lambda: store.state is StoreState.DOWN)
    assert isinstance(pump.append(store, [Record(1, 1, b"m", b"body")]), StoreUnavailable)
    faults.heal()
    pump.until(lambda: store.state is StoreState.UP)
    assert pump.append(store, [Record(1, 1, b"m", b"body")]) is None
    store.close()


def test_it_cannot_be_taken_over_meanwhile(opened: Callable[..., PostgresStore], pump: Any) -> None:
    """As by another node, which was told of the fault too."""
    faults, elsewhere = LaneFaults(), LaneFaults()
    store = opened(faults, LANE + 1)
    assert pump.append(store, [Record(1, 1, b"kept", b"body")]) is None
    store.close()
    elsewhere.fail()
    with pytest.raises(StoreUnavailable, match="on request"):
        opened(elsewhere, LANE + 1)
    elsewhere.heal()
    opened(elsewhere, LANE + 1).close()


def test_a_lane_under_a_lease_goes_on_when_nothing_was_under_way(
    opened: Callable[..., PostgresStore], pump: Any
) -> None:
    faults = LaneFaults()
    store = opened(faults, LANE + 2, takes_over=False)
    epoch = store.epoch
    faults.fail()
    pump.until(lambda: store.state is StoreState.DOWN)
    assert isinstance(pump.append(store, [Record(1, 1, b"no", b"")]), StoreUnavailable)
    faults.heal()
    pump.until(lambda: store.state is StoreState.UP)
    assert pump.append(store, [Record(1, 1, b"yes", b"")]) is None
    assert (store.epoch, store.fenced) == (epoch, False)
    store.close()
    again = PostgresStore(store._lane._dsn, LANE + 2, notify=pump.notify, takes_over=False)
    assert [record.meta for record in again.open().records] == [b"yes"]
    again.close()


def test_a_lane_under_a_lease_is_given_up_when_something_was_under_way(
    opened: Callable[..., PostgresStore],
) -> None:
    """What became of it is not known: only a new writer, which reads the log, may go on."""
    store = opened(LaneFaults(), LANE + 4, takes_over=False)
    lane, tail = store._lane, store.tail
    with lane.connect("append") as connection:
        lane.take_back(connection, tail, 0, is_certain=True)
        with pytest.raises(Fenced):
            lane.take_back(connection, tail, 0, is_certain=False)
        with pytest.raises(Fenced):
            lane.take_back(connection, tail - 1, 0, is_certain=True)
    store.close()


def test_a_delay_is_waited_for_before_each_commit(
    opened: Callable[..., PostgresStore], pump: Any
) -> None:
    faults = LaneFaults()
    store = opened(faults, LANE + 3)
    waited: list[float] = []

    class Waiting:
        def wait(self, delay_s: float) -> None:
            waited.append(delay_s)

    faults._waiting = Waiting()  # type: ignore[assignment]
    faults.delay(50)
    assert pump.append(store, [Record(1, 1, b"m", b"body")]) is None
    assert waited == [0.05]
    faults.delay(0)
    assert pump.append(store, [Record(1, 1, b"m", b"body")]) is None
    assert waited == [0.05]
    store.close()
