"""How many of those whose entries are durable hear of it in one turn of the loop."""

from typing import Any

from partibus.domain.errors import BusError, StoreUnavailable
from partibus.store.lane.commit import PendingEntry
from partibus.store.lane.log import TOLD_PER_TURN
from partibus.store.record import Record, encode_payload

COUNT = 5
RECORDS = TOLD_PER_TURN // 2


def entries(told: list[tuple[int, BusError | None]], first: int = 0) -> list[PendingEntry]:
    made = []
    for number in range(first, first + COUNT):
        payload = encode_payload([Record(1, 1, b"meta") for _ in range(RECORDS)])
        done = lambda error, number=number: told.append((number, error))  # noqa: E731
        made.append(PendingEntry(0, number, payload, done))
    return made


def test_a_large_group_is_told_over_several_turns(stores: Any, pump: Any) -> None:
    store = stores.ready()
    told: list[tuple[int, BusError | None]] = []
    store.committed(entries(told), 0.0)
    assert len(told) * RECORDS == TOLD_PER_TURN
    store.committed(entries(told, COUNT), 0.0)  # the next group comes before all were told
    assert len(told) * RECORDS == TOLD_PER_TURN
    pump.step()
    assert len(told) * RECORDS == 2 * TOLD_PER_TURN
    pump.until(lambda: len(told) == 2 * COUNT)
    assert told == [(number, None) for number in range(2 * COUNT)]
    assert pump.idle()


def test_a_failure_is_told_after_those_before_it(stores: Any, pump: Any) -> None:
    store = stores.ready()
    told: list[tuple[int, BusError | None]] = []
    store.committed(entries(told), 0.0)
    assert len(told) < COUNT
    store.failed([], StoreUnavailable("It is down."))
    assert told == [(number, None) for number in range(COUNT)]
    pump.step()
    assert len(told) == COUNT
