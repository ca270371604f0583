"""Live bodies move out of old tables, so that their space comes back; references stay valid."""

import random
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from partibus.domain.errors import BusError
from partibus.store.postgres.lane import Lane
from partibus.store.postgres.store import PostgresStore
from partibus.store.record import Record

pytestmark = pytest.mark.group("postgres")

SEGMENT = 1 << 16
BODY = 3000


class Rig:
    """A lane without a ring of recent entries, so that every body is read from its table."""

    def __init__(self, lanes: Any, pump: Any) -> None:
        self.lanes = lanes
        self.pump = pump
        self.live: dict[int, bytes] = {}
        self.store: PostgresStore = self._make()
        assert list(self.store.open().records) == []

    def _make(self) -> PostgresStore:
        made: PostgresStore = self.lanes.make(
            self.pump.notify, recent_bytes=1, segment_bytes=SEGMENT
        )
        return made

    def append(self, count: int) -> list[int]:
        """Messages of which each has a body of its own."""
        records = [
            Record(1, 1, b"m", b"%08d" % (len(self.live) + n) * (BODY // 8)) for n in range(count)
        ]
        for record in records:
            assert self.pump.append(self.store, [record]) is None
            self.live[record.position] = record.body
        return [record.position for record in records]

    def release(self, positions: list[int]) -> None:
        for position in positions:
            self.store.release(position, len(self.live.pop(position)))

    def compact(self) -> list[BusError]:
        """As the broker's upkeep does, until nothing is left to do; returns what failed."""
        assert self.pump.checkpoint(self.store, {}) is None
        failures: list[BusError] = []
        while not failures:
            told: list[BusError | None] = []
            if not self.store.compact(told.append):
                break
            self.pump.until(lambda told=told: bool(told))
            failures += [error for error in told if error is not None]
        return failures

    def reopen(self) -> None:
        self.store.close()
        self.store = self._make()
        assert list(self.store.open().records) == []
        for position, body in self.live.items():
            self.store.retain(position, len(body))

    def check(self) -> None:
        refs = [(position, len(body)) for position, body in self.live.items()]
        assert self.pump.read(self.store, refs) == list(self.live.values())
        assert self.store.live_bytes == sum(map(len, self.live.values()))

    def tables(self) -> set[str]:
        with psycopg.connect(self.lanes.dsn) as connection:
            rows = connection.execute(
                "SELECT tablename FROM pg_tables WHERE tablename LIKE %s",
                (f"entry\\_{self.lanes.lane}\\_%",),
            ).fetchall()
        return {row[0] for row in rows}


@pytest.fixture
def rig(lanes: Any, pump: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    monkeypatch.setattr("partibus.store.compaction.compactor.REST_FACTOR", 0.0)
    made = Rig(lanes, pump)
    yield made
    made.store.close()


def test_one_live_body_keeps_no_table(rig: Rig) -> None:
    positions = rig.append(100)
    before = rig.tables()
    rig.release([p for p in positions[:-1] if p != positions[3]])
    assert rig.compact() == []
    assert positions[3] in rig.live
    rig.check()
    assert len(rig.tables()) == 2 < len(before)
    assert not rig.tables() - {max(before)} & before
    assert rig.store.disk_bytes <= 2 * rig.store.live_bytes + SEGMENT
    rig.reopen()
    rig.check()
    rig.release([positions[3]])
    assert rig.compact() == []
    assert len(rig.tables()) == 1


@pytest.mark.parametrize("seed", range(4))
def test_references_stay_valid_over_many_compactions(rig: Rig, seed: int) -> None:
    chance = random.Random(seed)
    for round_number in range(6):
        rig.append(60)
        gone = chance.sample(sorted(rig.live), int(len(rig.live) * chance.choice((0.3, 0.9))))
        rig.release(gone)
        shared = chance.choice(sorted(rig.live))
        rig.store.retain(shared, len(rig.live[shared]))
        assert rig.compact() == []
        rig.store.release(shared, len(rig.live[shared]))
        rig.check()
        if round_number % 2:
            rig.reopen()
            rig.check()
    assert rig.compact() == []
    assert rig.store.disk_bytes <= 2 * rig.store.live_bytes + 4 * SEGMENT


@pytest.mark.parametrize("step", ["keep", "swap", "drop_segments"])
def test_a_compaction_that_is_cut_off_leaves_nothing_behind(
    rig: Rig, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions = rig.append(100)
    rig.release([p for p in positions if positions.index(p) % 9])
    with monkeypatch.context() as patched:
        patched.setattr(Lane, step, lost)
        failed = rig.compact()
    assert bool(failed) is (step != "drop_segments")
    rig.check()
    rig.reopen()
    assert garbage(rig) == []
    rig.check()
    assert rig.compact() == []
    rig.check()
    assert rig.store.disk_bytes <= 2 * rig.store.live_bytes + 2 * SEGMENT


def lost(*_: Any) -> None:
    raise psycopg.OperationalError("the connection was lost")


def garbage(rig: Rig) -> list[str]:
    with psycopg.connect(rig.lanes.dsn) as connection:
        rows = connection.execute(
            "SELECT table_name FROM partibus.garbage WHERE lane = %s", (rig.lanes.lane,)
        ).fetchall()
    return [row[0] for row in rows]


def test_a_body_that_is_being_read_is_not_lost_to_a_compaction(rig: Rig) -> None:
    positions = rig.append(60)
    held = rig.live[positions[5]]
    rig.store.hold([positions[5]])
    rig.release([p for p in positions if p != positions[7]])
    assert rig.compact() == []
    assert rig.pump.read(rig.store, [(positions[5], len(held))]) == [held]
    rig.store.let_go([positions[5]])
    rig.check()


def test_a_writer_that_was_fenced_drops_no_table(rig: Rig) -> None:
    positions = rig.append(60)
    assert rig.pump.checkpoint(rig.store, {}) is None
    second = rig.lanes.make(rig.pump.notify, takes_over=False, segment_bytes=SEGMENT)
    assert list(second.open().records) == []
    before = rig.tables()
    rig.release(positions[:-1])
    told: list[BusError | None] = []
    if rig.store.compact(told.append):
        rig.pump.until(lambda: bool(told))
    assert rig.tables() == before
    second.close()
