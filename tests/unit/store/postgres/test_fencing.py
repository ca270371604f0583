"""Two writers of one lane: the later one has it, whatever the earlier one has under way."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from partibus.domain.errors import BusError, OperationTimeout, StoreUnavailable
from partibus.store.interface import StoreState
from partibus.store.postgres.appending import LaneWriter
from partibus.store.postgres.pipeline import StatementPipeline, Wakeup
from partibus.store.postgres.store import PostgresStore
from partibus.store.record import Record

pytestmark = pytest.mark.group("postgres")


def ready(store: PostgresStore) -> list[bytes]:
    return [record.meta for record in store.open().records]


@pytest.fixture
def leased(lanes: Any, pump: Any) -> Iterator[Callable[[], PostgresStore]]:
    """Makes writers that run under a lease: each takes the lane from the one before."""
    made: list[PostgresStore] = []

    def make() -> PostgresStore:
        made.append(lanes.make(pump.notify, takes_over=False))
        return made[-1]

    yield make
    for store in made:
        store.close()


class Paused:
    """Lets the commit thread of one writer sleep before a row is appended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_asleep = threading.Event()
        self.wake = threading.Event()
        self._sleeper: int | None = None
        begin = LaneWriter.begin

        def begin_late(writer: LaneWriter, group: list[Any]) -> None:
            if self._sleeper in (None, id(writer)):
                self._sleeper = id(writer)
                self.is_asleep.set()
                assert self.wake.wait(20)
            begin(writer, group)

        monkeypatch.setattr(LaneWriter, "begin", begin_late)


def test_a_writer_that_slept_past_its_lease_is_fenced_with_all_that_waits(
    leased: Callable[[], PostgresStore], pump: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = leased()
    assert ready(first) == []
    assert pump.append(first, [Record(1, 1, b"before")]) is None
    states: list[tuple[StoreState, bool]] = []
    first.on_state = lambda state: states.append((state, first.fenced))
    paused = Paused(monkeypatch)
    told: list[tuple[int, BusError | None]] = []
    first.append([Record(1, 1, b"asleep", b"body")], lambda error: told.append((0, error)))
    assert paused.is_asleep.wait(20)
    for number in (1, 2, 3):
        done = lambda error, number=number: told.append((number, error))  # noqa: E731
        first.append([Record(1, 1, b"waiting", b"body")], done)
    second = leased()
    assert ready(second) == [b"before"]
    assert pump.append(second, [Record(1, 1, b"of the second")]) is None
    paused.wake.set()
    pump.until(lambda: first.fenced)
    assert [number for number, _ in told] == [0, 1, 2, 3]
    assert all(isinstance(error, StoreUnavailable) for _, error in told)
    assert (first.state, states[-1]) == (StoreState.DOWN, (StoreState.DOWN, True))
    assert first.live_bytes == 0
    assert isinstance(pump.append(first, [Record(1, 1, b"late")]), StoreUnavailable)
    assert isinstance(pump.checkpoint(first, {1: b"late"}), StoreUnavailable)
    assert pump.append(second, [Record(1, 1, b"and more")]) is None
    second.close()
    assert ready(leased()) == [b"before", b"of the second", b"and more"]


def test_an_idle_writer_notices_that_it_was_fenced(
    leased: Callable[[], PostgresStore], pump: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LaneWriter, "idle_s", 0.001)
    first = leased()
    assert ready(first) == []
    second = leased()
    assert ready(second) == []
    pump.until(lambda: first.fenced)
    assert first.state is StoreState.DOWN
    assert not second.fenced


def test_a_lane_under_a_lease_is_opened_again_and_not_taken_back(
    leased: Callable[[], PostgresStore], lanes: Any, pump: Any
) -> None:
    first = leased()
    assert ready(first) == []
    assert pump.append(first, [Record(1, 1, b"kept")]) is None
    before = epoch(lanes)
    lanes.fail()
    assert isinstance(pump.append(first, [Record(1, 1, b"lost")]), StoreUnavailable)
    lanes.heal()
    pump.until(lambda: first.fenced)
    assert epoch(lanes) == before
    again = leased()
    assert ready(again) == [b"kept"]
    assert epoch(lanes) == before + 1
    assert pump.append(again, [Record(1, 1, b"goes on")]) is None


def test_an_entry_whose_answer_was_lost_may_be_there_for_the_next_writer(
    leased: Callable[[], PostgresStore], pump: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody takes the lane back under a lease: so its sender must not read that it is not
    stored, or it would send it elsewhere."""
    receive = StatementPipeline.receive

    def receive_and_lose(self: StatementPipeline, wakeup: Wakeup) -> int:
        monkeypatch.setattr(StatementPipeline, "receive", receive)
        while receive(self, wakeup) is None:
            pass
        raise psycopg.OperationalError("the connection was lost")

    first = leased()
    assert ready(first) == []
    monkeypatch.setattr(StatementPipeline, "receive", receive_and_lose)
    answer = pump.append(first, [Record(1, 1, b"stored")])
    assert isinstance(answer, OperationTimeout) and "is unknown" in answer.text
    pump.until(lambda: first.fenced)
    assert ready(leased()) == [b"stored"]


def test_a_checkpoint_in_which_an_earlier_writer_sleeps_does_not_stop_a_takeover(
    leased: Callable[[], PostgresStore],
    lanes: Any,
    pump: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("partibus.store.postgres.lane.ROW_LOCK_MS", 10)
    first = leased()
    assert ready(first) == []
    assert pump.append(first, [Record(1, 1, b"before")]) is None
    asleep = f"partibus-checkpoint-{lanes.lane}"
    with psycopg.connect(lanes.dsn, application_name=asleep) as sleeper:
        sleeper.execute("SELECT 1 FROM partibus.lane WHERE lane = %s FOR KEY SHARE", (lanes.lane,))
        second = leased()
        assert ready(second) == [b"before"]
        with pytest.raises(psycopg.OperationalError):
            sleeper.execute("SELECT 1")
    assert pump.append(second, [Record(1, 1, b"after")]) is None


def test_a_database_that_went_back_to_an_earlier_state_is_not_written_to(
    lanes: Any, pump: Any
) -> None:
    store = lanes.make(pump.notify)
    assert ready(store) == []
    assert pump.append(store, [Record(1, 1, b"acknowledged")]) is None
    with psycopg.connect(lanes.dsn) as connection:
        connection.execute(
            "UPDATE partibus.lane SET tail = checkpoint WHERE lane = %s", (lanes.lane,)
        )
    assert isinstance(pump.append(store, [Record(1, 1, b"next")]), StoreUnavailable)
    pump.until(lambda: store.fenced)
    store.close()


def epoch(lanes: Any) -> int:
    with psycopg.connect(lanes.dsn) as connection:
        row = connection.execute(
            "SELECT epoch FROM partibus.lane WHERE lane = %s", (lanes.lane,)
        ).fetchone()
    assert row is not None
    return int(row[0])
