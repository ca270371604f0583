"""A lane in a real PostgreSQL server: fencing, lost connections, checkpoints, space."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from partibus.domain.errors import BusError, OperationTimeout, StoreCorrupt, StoreUnavailable
from partibus.store.interface import Increment, StoreState
from partibus.store.postgres.pipeline import StatementPipeline, Wakeup
from partibus.store.postgres.store import PostgresStore
from partibus.store.record import Record

pytestmark = pytest.mark.group("postgres")


def ready(store: PostgresStore) -> list[bytes]:
    """Open a store and read what it recovers."""
    return [record.meta for record in store.open().records]


@pytest.fixture
def store(lanes: Any, pump: Any) -> Iterator[PostgresStore]:
    made: PostgresStore = lanes.make(pump.notify)
    assert ready(made) == []
    yield made
    made.close()


def terminate(lanes: Any, purpose: str = "append") -> None:
    """End the connections of a lane, as a database that fails over does."""
    with psycopg.connect(lanes.dsn, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE application_name = %s",
            (f"partibus-{purpose}-{lanes.lane}",),
        )


def test_a_second_server_is_refused_while_the_first_is_connected(
    store: PostgresStore, lanes: Any, pump: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("partibus.store.postgres.lane.LOCK_MS", 10)
    with pytest.raises(StoreUnavailable, match="in use by another server"):
        lanes.make(pump.notify).open()
    assert pump.append(store, [Record(1, 1, b"still the writer")]) is None


def test_a_writer_that_slept_through_a_takeover_changes_nothing(
    store: PostgresStore, lanes: Any, pump: Any
) -> None:
    assert pump.append(store, [Record(1, 1, b"before")]) is None
    terminate(lanes)
    second = lanes.make(pump.notify)
    assert ready(second) == [b"before"]
    assert pump.append(second, [Record(1, 1, b"of the second")]) is None
    assert isinstance(pump.append(store, [Record(1, 1, b"late")]), OperationTimeout)
    assert store.state is StoreState.DOWN
    assert pump.append(second, [Record(1, 1, b"and more")]) is None
    second.close()
    third = lanes.make(pump.notify)
    assert ready(third) == [b"before", b"of the second", b"and more"]
    third.close()


def test_a_checkpoint_of_an_earlier_writer_is_refused(
    store: PostgresStore, lanes: Any, pump: Any
) -> None:
    assert pump.append(store, [Record(1, 1, b"before")]) is None
    terminate(lanes)
    second = lanes.make(pump.notify)
    assert ready(second) == [b"before"]
    assert isinstance(pump.checkpoint(store, {1: b"late"}), StoreUnavailable)
    assert pump.checkpoint(second, {1: b"state"}) is None
    second.close()
    third = lanes.make(pump.notify)
    recovered = third.open()
    assert (recovered.states, list(recovered.records)) == ({1: b"state"}, [])
    third.close()


def test_an_entry_whose_answer_was_lost_is_never_found(
    store: PostgresStore, lanes: Any, pump: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was committed, its sender was told otherwise, and may send it again."""
    receive = StatementPipeline.receive

    def receive_and_lose(self: StatementPipeline, wakeup: Wakeup) -> int:
        monkeypatch.setattr(StatementPipeline, "receive", receive)
        while receive(self, wakeup) is None:
            pass
        raise psycopg.OperationalError("the connection was lost")

    monkeypatch.setattr(StatementPipeline, "receive", receive_and_lose)
    assert isinstance(pump.append(store, [Record(1, 1, b"lost", b"body")]), OperationTimeout)
    pump.until(lambda: store.state is StoreState.UP)
    assert store.live_bytes == 0
    assert pump.append(store, [Record(1, 1, b"again", b"body")]) is None
    store.close()
    second = lanes.make(pump.notify)
    assert ready(second) == [b"again"]
    second.close()


def test_a_lost_connection_is_made_again(store: PostgresStore, lanes: Any, pump: Any) -> None:
    terminate(lanes)
    assert isinstance(pump.append(store, [Record(1, 1, b"lost")]), OperationTimeout)
    pump.until(lambda: store.state is StoreState.UP)
    assert pump.append(store, [Record(1, 1, b"kept")]) is None


def test_tables_without_a_live_body_are_dropped(
    store: PostgresStore, lanes: Any, pump: Any
) -> None:
    records = [Record(1, 1, b"m", b"x" * 30_000) for _ in range(8)]
    for record in records:
        assert pump.append(store, [record]) is None
    before = store.disk_bytes
    assert len(tables(lanes)) == 4
    for record in records[:-1]:
        store.release(record.position, 30_000)
    assert pump.checkpoint(store, {}) is None
    assert len(tables(lanes)) == 1
    assert store.disk_bytes < before / 2
    assert pump.read(store, [(records[-1].position, 30_000)]) == [records[-1].body]


def tables(lanes: Any) -> list[str]:
    with psycopg.connect(lanes.dsn) as connection:
        rows = connection.execute(
            "SELECT tablename FROM pg_tables WHERE tablename LIKE %s", (f"entry_{lanes.lane}_%",)
        ).fetchall()
    return [row[0] for row in rows]


def test_bodies_that_are_not_in_memory_are_read_from_the_database(lanes: Any, pump: Any) -> None:
    store = lanes.make(pump.notify, recent_bytes=1)
    assert ready(store) == []
    records = [Record(1, 1, b"m", b"%d" % number * 100) for number in range(40)]
    for start in range(0, 40, 8):
        assert pump.append(store, records[start : start + 8]) is None
    wanted = [(record.position, len(record.body)) for record in records[::-3]]
    assert store.read_now(wanted) is None
    assert pump.read(store, wanted) == [record.body for record in records[::-3]]
    store.close()


def test_a_damaged_row_is_reported(store: PostgresStore, lanes: Any, pump: Any) -> None:
    assert pump.append(store, [Record(1, 1, b"meta", b"body")]) is None
    store.close()
    (table,) = tables(lanes)
    with psycopg.connect(lanes.dsn) as connection:
        a_byte_of_the_meta = sql.SQL(
            "UPDATE {} SET payload = set_byte(payload, 57, 0) WHERE octet_length(payload) > 57"
        )
        connection.execute(a_byte_of_the_meta.format(sql.Identifier("partibus", table)))
    again = lanes.make(pump.notify)
    with pytest.raises(StoreCorrupt, match="damaged"):
        ready(again)
    again.close()


def test_pages_come_back_and_go_when_no_state_mentions_them(
    store: PostgresStore, lanes: Any, pump: Any
) -> None:
    assert pump.append(store, [Record(1, 1, b"m")]) is None
    first = Increment(store.position, {1: lambda: [b"one"], 2: lambda: [b"t", b"wo"]}, [[1], [2]])
    assert pump.checkpoint(store, {1: b"a"}, first) is None
    second = Increment(store.position, {3: lambda: [b"three"]}, [[2, 3]])
    assert pump.checkpoint(store, {1: b"b"}, second) is None
    store.close()
    again = lanes.make(pump.notify)
    recovered = again.open()
    assert recovered.pages.last == 3
    assert [recovered.pages.read(number) for number in (2, 3)] == [b"two", b"three"]
    with pytest.raises(StoreCorrupt, match="page 1"):
        recovered.pages.read(1)
    again.close()


def test_a_checkpoint_may_lie_within_a_row(store: PostgresStore, lanes: Any, pump: Any) -> None:
    ends: list[int] = []
    for number in range(50):
        store.append([Record(1, 1, b"%d" % number)], lambda error: ends.append(store.position))
    pump.until(lambda: len(ends) == 50)
    for covered in (0, 17, 48):
        assert pump.checkpoint(store, {}, Increment(ends[covered], {}, [])) is None
        store.close()
        store = lanes.make(pump.notify)
        assert ready(store) == [b"%d" % number for number in range(covered + 1, 50)]
    store.close()


def test_what_waits_is_committed_in_one_row(store: PostgresStore, lanes: Any, pump: Any) -> None:
    told: list[BusError | None] = []
    for number in range(50):
        store.append([Record(1, 1, b"%d" % number)], told.append)
    pump.until(lambda: len(told) == 50)
    assert told == [None] * 50
    store.close()
    again = lanes.make(pump.notify)
    assert ready(again) == [b"%d" % number for number in range(50)]
    again.close()
