"""Lanes that share a transaction: one commit for all, and what is wrong with one is its own."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from partibus.domain.errors import BusError, OperationTimeout, StoreUnavailable
from partibus.store.interface import StoreState
from partibus.store.postgres import sharing
from partibus.store.postgres.pipeline import StatementPipeline
from partibus.store.postgres.schema import segment_table
from partibus.store.postgres.sharing import SharedAppends
from partibus.store.postgres.store import FIRST_POSITION, PostgresStore
from partibus.store.record import Record

pytestmark = pytest.mark.group("postgres")

Told = list[tuple[str, BusError | None]]


class Shared:
    """Two lanes of one server under leases."""

    def __init__(self, new_lanes: Callable[[], Any], pump: Any) -> None:
        self.pump = pump
        self.left, self.right = new_lanes(), new_lanes()
        self.appends = SharedAppends(self.left.dsn, "a server", pump.notify)
        self.made: list[PostgresStore] = []

    def open(self, lanes: Any, **settings: Any) -> tuple[PostgresStore, list[bytes]]:
        """A store that is ready, and what it has found."""
        settings.setdefault("shared", self.appends)
        store: PostgresStore = lanes.make(
            self.pump.notify, takes_over=False, segment_bytes=1 << 24, **settings
        )
        self.made.append(store)
        return store, [record.meta for record in store.open().records]

    def close(self) -> None:
        for store in self.made:
            store.close()


@pytest.fixture
def shared(new_lanes: Callable[[], Any], pump: Any) -> Iterator[Shared]:
    made = Shared(new_lanes, pump)
    yield made
    made.close()


@pytest.fixture
def both(shared: Shared) -> tuple[PostgresStore, PostgresStore]:
    left, right = shared.open(shared.left)[0], shared.open(shared.right)[0]
    assert shared.pump.append(left, [Record(1, 1, b"first")]) is None
    assert shared.pump.append(right, [Record(1, 1, b"first")]) is None
    return left, right


class Gate:
    """Lets the thread that commits for both lanes wait before it begins."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_waiting = threading.Event()
        self.open = threading.Event()
        self.row_counts: list[int] = []
        borrow = SharedAppends._borrow

        def borrow_late(appends: SharedAppends, calling: list[Any]) -> list[Any]:
            self.is_waiting.set()
            assert self.open.wait(20)
            with appends._wake:
                calling += appends._calling
                appends._calling = []
            loans: list[Any] = borrow(appends, calling)
            self.row_counts.append(len(loans))
            return loans

        monkeypatch.setattr(SharedAppends, "_borrow", borrow_late)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch)


def append(store: PostgresStore, name: str, told: Told) -> None:
    store.append([Record(1, 1, name.encode(), b"body")], lambda error: told.append((name, error)))


def found(shared: Shared, lanes: Any) -> list[bytes]:
    return shared.open(lanes, shared=None)[1]


def test_what_waits_in_both_lanes_is_one_transaction(
    both: tuple[PostgresStore, PostgresStore], shared: Shared, gate: Gate
) -> None:
    told: Told = []
    append(both[0], "left", told)
    assert gate.is_waiting.wait(20)
    append(both[1], "right", told)
    append(both[0], "left again", told)
    gate.open.set()
    shared.pump.until(lambda: len(told) == 3)
    assert told == [("left", None), ("left again", None), ("right", None)]
    assert gate.row_counts == [2]
    assert found(shared, shared.left) == [b"first", b"left", b"left again"]
    assert found(shared, shared.right) == [b"first", b"right"]


class WatchedWait(threading.Condition):
    """A wait for more lanes lasts until the test says so."""

    def __init__(self) -> None:
        super().__init__(threading.Lock())
        self.is_gathering = threading.Event()
        self.is_enough = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        if timeout != sharing.GATHER_S:
            return super().wait(timeout)
        self.is_gathering.set()
        self.release()
        try:
            return self.is_enough.wait(20)
        finally:
            self.acquire()


def test_after_a_large_transaction_the_lanes_add_to_the_next_for_a_moment(
    shared: Shared, gate: Gate
) -> None:
    watched = shared.appends._wake = WatchedWait()
    gate.open.set()
    left, right = shared.open(shared.left)[0], shared.open(shared.right)[0]
    told: Told = []
    append(left, "small", told)  # at once, since there was no large one before it
    append(right, "small", told)
    shared.pump.until(lambda: len(told) == 2)
    assert not watched.is_gathering.is_set()
    large = Record(1, 1, b"large", bytes(sharing.BUSY_BYTES))
    assert shared.pump.append(left, [large]) is None
    gate.row_counts.clear()
    append(left, "left", told)
    assert watched.is_gathering.wait(20)
    append(left, "left again", told)
    append(right, "right", told)
    watched.is_enough.set()
    shared.pump.until(lambda: len(told) == 5)
    assert gate.row_counts == [2]
    watched.is_gathering.clear()
    append(right, "after a small one", told)
    shared.pump.until(lambda: len(told) == 6)
    assert not watched.is_gathering.is_set()


def test_a_lane_with_another_writer_does_not_hold_up_the_other(
    both: tuple[PostgresStore, PostgresStore], shared: Shared, gate: Gate
) -> None:
    left, right = both
    told: Told = []
    append(left, "left", told)
    assert gate.is_waiting.wait(20)
    append(right, "right", told)
    assert found(shared, shared.left) == [b"first"]
    gate.open.set()
    shared.pump.until(lambda: left.fenced and len(told) == 2)
    errors = dict(told)
    assert errors["right"] is None
    assert isinstance(errors["left"], StoreUnavailable)
    assert shared.pump.append(right, [Record(1, 1, b"goes on")]) is None
    assert found(shared, shared.left) == [b"first"]
    assert found(shared, shared.right) == [b"first", b"right", b"goes on"]


def test_a_row_that_is_refused_is_the_failure_of_its_lane_alone(
    both: tuple[PostgresStore, PostgresStore], shared: Shared, gate: Gate
) -> None:
    left, right = both
    told: Told = []
    append(left, "left", told)
    assert gate.is_waiting.wait(20)
    append(right, "right", told)
    assert left.log_end is not None
    occupy(shared.left, left.log_end[1])
    gate.open.set()
    shared.pump.until(lambda: left.fenced and len(told) == 2)
    errors = dict(told)
    assert errors["right"] is None
    assert isinstance(errors["left"], StoreUnavailable)
    assert right.state is StoreState.UP
    assert found(shared, shared.right) == [b"first", b"right"]


def occupy(lanes: Any, position: int) -> None:
    """A row stands where one is to go."""
    table = sql.Identifier("partibus", segment_table(lanes.lane, FIRST_POSITION))
    with psycopg.connect(lanes.dsn) as connection:
        connection.execute(sql.SQL("INSERT INTO {} VALUES (%s, 0, '')").format(table), (position,))


def test_a_row_that_somebody_holds_stops_its_lane_alone(
    both: tuple[PostgresStore, PostgresStore], shared: Shared, gate: Gate
) -> None:
    left, right = both
    told: Told = []
    with psycopg.connect(shared.left.dsn) as holder:
        holder.execute(
            "SELECT 1 FROM partibus.lane WHERE lane = %s FOR NO KEY UPDATE", (shared.left.lane,)
        )
        append(left, "left", told)
        assert gate.is_waiting.wait(20)
        append(right, "right", told)
        gate.open.set()
        shared.pump.until(lambda: ("right", None) in told)
        assert told == [("right", None)]
    shared.pump.until(lambda: len(told) == 2)
    assert told[1] == ("left", None)
    assert shared.pump.append(left, [Record(1, 1, b"goes on")]) is None


def test_without_an_answer_the_outcome_is_unknown_in_both_lanes(
    both: tuple[PostgresStore, PostgresStore],
    shared: Shared,
    gate: Gate,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    receive = StatementPipeline.receive_all

    def receive_and_lose(pipeline: StatementPipeline, count: int) -> list[int]:
        receive(pipeline, count)
        raise psycopg.OperationalError("the connection was lost")

    monkeypatch.setattr(StatementPipeline, "receive_all", receive_and_lose)
    left, right = both
    told: Told = []
    append(left, "left", told)
    assert gate.is_waiting.wait(20)
    append(right, "right", told)
    gate.open.set()
    shared.pump.until(lambda: left.fenced and right.fenced and len(told) == 2)
    assert all(isinstance(error, OperationTimeout) for _, error in told)
    assert found(shared, shared.left) == [b"first", b"left"]
    assert found(shared, shared.right) == [b"first", b"right"]


def test_a_connection_that_was_lost_meanwhile_is_made_again(
    both: tuple[PostgresStore, PostgresStore], shared: Shared
) -> None:
    with psycopg.connect(shared.left.dsn, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE application_name = 'partibus-appends a server'"
        )
    for store in both:
        assert shared.pump.append(store, [Record(1, 1, b"goes on")]) is None
        assert store.state is StoreState.UP


def test_what_waits_is_committed_when_a_lane_is_closed(
    both: tuple[PostgresStore, PostgresStore], shared: Shared
) -> None:
    told: Told = []
    for number in range(50):
        append(both[0], str(number), told)
    both[0].close()
    shared.pump.until(lambda: len(told) == 50)
    assert told == [(str(number), None) for number in range(50)]
    assert len(found(shared, shared.left)) == 51


def test_many_rows_of_many_threads_keep_their_order(
    both: tuple[PostgresStore, PostgresStore], shared: Shared
) -> None:
    told: Told = []
    sizes = [1, 1000, 300_000, 10]
    names = [f"{number % 2} {number:03}" for number in range(120)]
    for number, name in enumerate(names):
        body = bytes(sizes[number % 3])
        done = lambda error, name=name: told.append((name, error))  # noqa: E731
        both[number % 2].append([Record(1, 1, name.encode(), body)], done)
        if number % 7 == 0:
            shared.pump.until(lambda number=number: len(told) > number - 5)
    shared.pump.until(lambda: len(told) == 120)
    assert all(error is None for _, error in told)
    for side in "01":
        mine = [name for name, _ in told if name.startswith(side)]
        assert mine == sorted(mine)
        assert len(mine) == 60
    assert len(found(shared, shared.left)) == 61
