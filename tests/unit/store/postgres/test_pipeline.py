"""Several rows in flight: they follow each other without a gap; a failure fails those behind."""

import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from partibus.domain.errors import BusError, OperationTimeout, StoreUnavailable
from partibus.store.interface import StoreState
from partibus.store.postgres.appending import IN_FLIGHT_MAX
from partibus.store.postgres.pipeline import StatementPipeline
from partibus.store.postgres.schema import segment_table
from partibus.store.postgres.store import FIRST_POSITION, PostgresStore
from partibus.store.record import Record

pytestmark = pytest.mark.group("postgres")

Told = list[tuple[int, BusError | None]]


@pytest.fixture
def sends(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """One for each row that was sent."""
    sent = threading.Semaphore(0)
    send = StatementPipeline.send

    def send_and_count(self: StatementPipeline, *arguments: bytes) -> None:
        send(self, *arguments)
        sent.release()

    monkeypatch.setattr(StatementPipeline, "send", send_and_count)
    return sent


@pytest.fixture
def store(lanes: Any, pump: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresStore]:
    monkeypatch.setattr("partibus.store.postgres.appending.PIPELINE_BYTES", 1)
    made: PostgresStore = lanes.make(pump.notify, segment_bytes=1 << 24)
    assert list(made.open().records) == []
    yield made
    made.close()


def send_each(store: PostgresStore, sends: threading.Semaphore, count: int, told: Told) -> None:
    """One row after the other, none of which is answered yet."""
    for number in range(count):
        done = lambda error, number=number: told.append((number, error))  # noqa: E731
        store.append([Record(1, 1, b"%d" % number, b"body")], done)
        assert sends.acquire(timeout=20)


def held_row(lanes: Any) -> "psycopg.Connection[Any]":
    """The lane's row is locked, so the first append waits in the database."""
    connection = psycopg.connect(lanes.dsn)
    connection.execute(
        "SELECT 1 FROM partibus.lane WHERE lane = %s FOR NO KEY UPDATE", (lanes.lane,)
    )
    return connection


def metas(lanes: Any, pump: Any) -> list[bytes]:
    again = lanes.make(pump.notify, segment_bytes=1 << 24)
    found = [record.meta for record in again.open().records]
    again.close()
    return found


def test_rows_are_sent_before_those_before_them_are_answered(
    store: PostgresStore, lanes: Any, pump: Any, sends: threading.Semaphore
) -> None:
    told: Told = []
    with held_row(lanes):
        send_each(store, sends, IN_FLIGHT_MAX, told)
        assert pump.idle()
        store.append([Record(1, 1, b"behind")], lambda error: told.append((-1, error)))
        assert pump.idle()
    pump.until(lambda: len(told) == IN_FLIGHT_MAX + 1)
    assert told == [*((number, None) for number in range(IN_FLIGHT_MAX)), (-1, None)]
    store.close()
    assert metas(lanes, pump) == [*(b"%d" % n for n in range(IN_FLIGHT_MAX)), b"behind"]


def test_a_row_that_fails_fails_those_behind_it(
    store: PostgresStore, lanes: Any, pump: Any, sends: threading.Semaphore
) -> None:
    states: list[StoreState] = []
    store.on_state = states.append
    told: Told = []
    with held_row(lanes):
        send_each(store, sends, 2, told)
        occupy(lanes, store.tail)
        send_each(store, sends, 4, told)
    pump.until(lambda: len(told) == 6)
    assert [number for number, _ in told] == [0, 1, 0, 1, 2, 3]
    assert [error is None for _, error in told] == [True, True, False, False, False, False]
    assert all(error is None or isinstance(error, StoreUnavailable) for _, error in told)
    assert store.live_bytes == 2 * len(b"body")
    pump.until(lambda: store.state is StoreState.UP)
    assert states == [StoreState.DOWN, StoreState.UP]
    assert pump.append(store, [Record(1, 1, b"goes on")]) is None
    store.close()
    assert metas(lanes, pump) == [b"0", b"1", b"goes on"]


def occupy(lanes: Any, position: int) -> None:
    """A row stands where one of those in flight is to go."""
    table = sql.Identifier("partibus", segment_table(lanes.lane, FIRST_POSITION))
    with psycopg.connect(lanes.dsn) as connection:
        connection.execute(sql.SQL("INSERT INTO {} VALUES (%s, 0, '')").format(table), (position,))


def test_a_lost_connection_fails_all_that_is_in_flight(
    store: PostgresStore, lanes: Any, pump: Any, sends: threading.Semaphore
) -> None:
    told: Told = []
    with held_row(lanes), psycopg.connect(lanes.dsn, autocommit=True) as other:
        send_each(store, sends, 3, told)
        other.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE application_name = %s",
            (f"partibus-append-{lanes.lane}",),
        )
    pump.until(lambda: len(told) == 3)
    assert [number for number, _ in told] == [0, 1, 2]
    assert all(isinstance(error, OperationTimeout) for _, error in told)
    pump.until(lambda: store.state is StoreState.UP)
    store.close()
    assert metas(lanes, pump) == []
