"""The contract of a store, over every engine that claims to keep it."""

import errno
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from partibus.domain.errors import BusError, StoreCorrupt, StoreUnavailable
from partibus.sealing.seal import OVERHEAD_BYTES, Sealer
from partibus.simulation.cluster.lane import LaneServer
from partibus.simulation.cluster.seams import store_stand_ins
from partibus.simulation.seams import simulated, standing_in
from partibus.simulation.threads import Threads
from partibus.simulation.world import World
from partibus.store.fault_injection import FaultyDisk
from partibus.store.files.disk import OsDisk
from partibus.store.files.log import SegmentStore
from partibus.store.interface import Recovered, Store, StoreState
from partibus.store.memory import MemoryStore
from partibus.store.postgres.store import PostgresStore
from partibus.store.record import Record
from partibus.store.sealed import SEALED_KIND, SealedStore


class Engine:
    """A store under test, with ways to break, heal and reopen it."""

    def __init__(
        self,
        store: Store,
        *,
        fail: Callable[[], None],
        heal: Callable[[], None],
        reopen: Callable[["Engine"], Recovered],
        overhead: int = 0,
        kind_max: int = 255,
    ) -> None:
        self.store = store
        self.overhead = overhead
        """What a live body takes beyond its length."""
        self.kind_max = kind_max
        self.fail = fail
        self.heal = heal
        self._reopen = reopen

    def reopen(self) -> Recovered:
        return self._reopen(self)


POSTGRES = pytest.param("postgres", marks=pytest.mark.group("postgres"))


@pytest.fixture(params=["memory", "segment", "sealed", "simulated", POSTGRES])
def engine(request: pytest.FixtureRequest, pump: Any, stores: Any) -> Iterator[Engine]:
    if request.param == "memory":
        memory = MemoryStore(notify=pump.notify, replayable=True)
        memory.open()
        yield Engine(memory, fail=memory.fail, heal=memory.heal, reopen=lambda _: memory.open())
    elif request.param == "simulated":
        with simulated_engine(pump) as ready:
            yield ready
    elif request.param == "postgres":
        with postgres_engine(request.getfixturevalue("lanes"), pump) as ready:
            yield ready
    else:
        yield file_engine(request.param, stores)


@contextmanager
def postgres_engine(lanes: Any, pump: Any) -> Iterator[Engine]:
    def make() -> Store:
        store: Store = lanes.make(pump.notify)
        return store

    with database_engine(make, lanes.fail, lanes.heal) as ready:
        yield ready


@contextmanager
def simulated_engine(pump: Any) -> Iterator[Engine]:
    """The store in a database, over a database that is simulated."""
    world = pump.world = World(1)
    threads = Threads(world)
    threads.joins_take_time = True
    server = LaneServer(world, threads, "database")

    def make() -> Store:
        return PostgresStore("postgresql://database", 0, notify=pump.notify, segment_bytes=1 << 16)

    stand_ins = store_stand_ins({"postgresql://database": server}, threads)
    with (
        simulated(world, threads),
        standing_in(stand_ins),
        database_engine(
            make,
            fail=lambda: setattr(server, "is_full", True),
            heal=lambda: setattr(server, "is_full", False),
        ) as ready,
    ):
        yield ready


@contextmanager
def database_engine(
    make: Callable[[], Store], fail: Callable[[], None], heal: Callable[[], None]
) -> Iterator[Engine]:
    def reopen(engine: Engine) -> Recovered:
        engine.store.close()
        engine.store = make()
        return engine.store.open()

    ready = make()
    for _ in ready.open().records:
        pass
    made = Engine(ready, fail=fail, heal=heal, reopen=reopen)
    yield made
    made.store.close()


def file_engine(kind: str, stores: Any) -> Engine:
    disk = FaultyDisk(OsDisk())

    def fail() -> None:
        disk.sync_errno = errno.EIO

    def make() -> Store:
        store: SegmentStore = stores.make(disk=disk)
        if kind == "segment":
            return store
        return SealedStore(stores.directory, store, Sealer(bytes(32)))

    def reopen(engine: Engine) -> Recovered:
        engine.store.close()
        engine.store = make()
        return engine.store.open()

    ready = make()
    for _ in ready.open().records:
        pass
    if kind == "segment":
        return Engine(ready, fail=fail, heal=disk.heal, reopen=reopen)
    return Engine(
        ready,
        fail=fail,
        heal=disk.heal,
        reopen=reopen,
        overhead=OVERHEAD_BYTES,
        kind_max=SEALED_KIND - 1,
    )


def batch(*bodies: bytes, fragment: int = 7) -> list[Record]:
    return [Record(fragment, 1, b"meta of " + body[:8], body) for body in bodies]


def refs_of(records: list[Record]) -> list[tuple[int, int]]:
    return [(record.position, len(record.body)) for record in records]


def test_positions_are_set_before_append_returns(engine: Engine) -> None:
    records = batch(b"one", b"two", b"three")
    engine.store.append(records, lambda error: None)
    positions = [record.position for record in records]
    assert all(positions)
    assert positions == sorted(set(positions))


def test_a_body_is_there_until_its_last_holder_lets_go(engine: Engine, pump: Any) -> None:
    (record,) = batch(b"shared")
    assert pump.append(engine.store, [record]) is None
    for _ in range(3):
        engine.store.retain(record.position, 6)
    each = 6 + engine.overhead
    assert engine.store.live_bytes == 4 * each
    for left in (3, 2, 1):
        engine.store.release(record.position, 6)
        assert engine.store.live_bytes == left * each
        assert engine.store.read_now([(record.position, 6)]) in ([b"shared"], None)
    engine.store.release(record.position, 6)
    assert engine.store.live_bytes == 0


def test_a_record_without_a_body_has_no_position(engine: Engine, pump: Any) -> None:
    record = Record(1, 2, b"settled")
    assert pump.append(engine.store, [record]) is None
    assert record.position == 0


def test_done_is_told_later_and_in_order(engine: Engine, pump: Any) -> None:
    told: list[int] = []
    for number in range(5):
        engine.store.append(batch(b"body"), lambda error, number=number: told.append(number))
    assert told == []
    pump.until(lambda: len(told) == 5)
    assert told == [0, 1, 2, 3, 4]


def test_bodies_come_back_in_the_order_asked_for(engine: Engine, pump: Any) -> None:
    records = batch(*[b"body %d" % number * 50 for number in range(40)])
    pump.append(engine.store, records[:20])
    pump.append(engine.store, records[20:])
    shuffled = records[::-3] + records[5:9] + records[5:6]
    expected = [record.body for record in shuffled]
    assert engine.store.read_now(refs_of(shuffled)) == expected
    assert pump.read(engine.store, refs_of(shuffled)) == expected


def test_reading_nothing_gives_nothing(engine: Engine, pump: Any) -> None:
    assert engine.store.read_now([]) == []
    assert pump.read(engine.store, []) == []


def test_a_reopened_store_gives_the_records_back(engine: Engine, pump: Any) -> None:
    first = [Record(1, 10, b"a", b"body a"), Record(2, 20, b""), Record(1, 30, b"c", b"body c")]
    second = [Record(4_000_000_000, engine.kind_max, b"d" * 300, b"d" * 9000)]
    pump.append(engine.store, first)
    pump.append(engine.store, second)
    recovered = engine.reopen()
    assert recovered.states == {}
    found = [
        (record.fragment, record.kind, record.meta, record.position, record.body_length)
        for record in recovered.records
    ]
    assert found == [
        (record.fragment, record.kind, record.meta, record.position, len(record.body))
        for record in first + second
    ]
    bodies = [record for record in first + second if record.body]
    assert engine.store.read_now(refs_of(bodies)) == [record.body for record in bodies]


def test_an_entry_without_records_is_durable_and_says_nothing(engine: Engine, pump: Any) -> None:
    """What a health probe writes, between messages and at the end of the log."""
    first, second = batch(b"body a"), batch(b"body b")
    pump.append(engine.store, first)
    assert pump.append(engine.store, []) is None
    pump.append(engine.store, second)
    assert pump.append(engine.store, []) is None
    found = [record.position for record in engine.reopen().records]
    assert found == [record.position for record in first + second]
    assert engine.store.read_now(refs_of(first + second)) == [b"body a", b"body b"]
    third = batch(b"body c")
    assert pump.append(engine.store, third) is None
    assert engine.store.read_now(refs_of(third)) == [b"body c"]


def test_a_checkpoint_replaces_the_records_before_it(engine: Engine, pump: Any) -> None:
    pump.append(engine.store, batch(b"before"))
    assert pump.checkpoint(engine.store, {7: b"state", 9: b""}) is None
    assert engine.store.bytes_since_checkpoint == 0
    pump.append(engine.store, batch(b"after"))
    assert engine.store.bytes_since_checkpoint > 0
    recovered = engine.reopen()
    assert recovered.states == {7: b"state", 9: b""}
    assert [record.meta for record in recovered.records] == [b"meta of after"]


def test_a_checkpoint_covers_only_what_was_told(engine: Engine, pump: Any) -> None:
    pump.append(engine.store, batch(b"told"))
    told: list[str] = []
    engine.store.append(batch(b"untold"), lambda error: told.append("append"))
    engine.store.checkpoint({7: b"state"}, lambda error: told.append("checkpoint"))
    pump.until(lambda: len(told) == 2)
    recovered = engine.reopen()
    assert recovered.states == {7: b"state"}
    assert [record.meta for record in recovered.records] == [b"meta of untold"]


def test_a_checkpoint_taken_in_a_done_covers_that_entry(engine: Engine, pump: Any) -> None:
    told: list[BusError | None] = []
    engine.store.append(
        batch(b"covered"), lambda error: engine.store.checkpoint({7: b"with it"}, told.append)
    )
    pump.until(lambda: bool(told))
    recovered = engine.reopen()
    assert recovered.states == {7: b"with it"}
    assert list(recovered.records) == []


def test_live_bytes_follow_append_release_and_retain(engine: Engine, pump: Any) -> None:
    records = batch(b"x" * 100, b"y" * 50)
    pump.append(engine.store, records)
    assert engine.store.live_bytes == 150 + 2 * engine.overhead
    engine.store.release(records[0].position, 100)
    engine.store.release(0, 0)
    assert engine.store.live_bytes == 50 + engine.overhead
    assert len(list(engine.reopen().records)) == 2
    assert engine.store.live_bytes == 0
    engine.store.retain(records[1].position, 50)
    engine.store.retain(0, 0)
    assert engine.store.live_bytes == 50 + engine.overhead


def test_retaining_what_is_not_there_is_corruption(engine: Engine, pump: Any) -> None:
    pump.append(engine.store, batch(b"body"))
    assert len(list(engine.reopen().records)) == 1
    with pytest.raises(StoreCorrupt):
        engine.store.retain(-1, 4)


def test_a_failing_store_refuses_and_comes_back(engine: Engine, pump: Any) -> None:
    states: list[StoreState] = []
    engine.store.on_state = states.append
    kept = batch(b"kept")
    assert pump.append(engine.store, kept) is None
    engine.fail()
    told: list[tuple[int, BusError | None]] = []
    for number in range(4):
        engine.store.append(
            batch(b"lost"), lambda error, number=number: told.append((number, error))
        )
    pump.until(lambda: len(told) == 4)
    assert [number for number, _ in told] == [0, 1, 2, 3]
    assert all(isinstance(error, StoreUnavailable) for _, error in told)
    assert engine.store.state is StoreState.DOWN
    assert states == [StoreState.DOWN]
    assert engine.store.live_bytes == len(b"kept") + engine.overhead
    assert isinstance(pump.append(engine.store, batch(b"lost too")), StoreUnavailable)
    assert isinstance(pump.checkpoint(engine.store, {}), StoreUnavailable)
    engine.heal()
    pump.until(lambda: engine.store.state is StoreState.UP)
    assert states == [StoreState.DOWN, StoreState.UP]
    again = batch(b"again")
    assert pump.append(engine.store, again) is None
    assert engine.store.read_now(refs_of(kept + again)) == [b"kept", b"again"]
    metas = [record.meta for record in engine.reopen().records]
    assert metas == [b"meta of kept", b"meta of again"]


def test_nobody_appends_before_every_failure_was_told(engine: Engine, pump: Any) -> None:
    """An append that builds on a lost one must be lost too, however soon the disk heals."""
    events: list[str] = []
    engine.fail()
    engine.store.append(batch(b"first"), lambda error: events.append(f"first {error is None}"))
    pump.until(lambda: engine.store.state is StoreState.DOWN)
    engine.store.append(batch(b"second"), lambda error: events.append(f"second {error is None}"))
    engine.store.on_state = lambda state: events.append(state.value)
    engine.heal()
    pump.until(lambda: engine.store.state is StoreState.UP)
    assert events == ["first False", "second False", "up"]


def test_a_done_that_raises_keeps_nobody_from_being_told(
    engine: Engine, pump: Any, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[BusError | None] = []

    def burst(error: BusError | None) -> None:
        raise ZeroDivisionError

    with caplog.at_level(logging.ERROR):
        engine.store.append(batch(b"one"), burst)
        engine.store.append(batch(b"two"), told.append)
        pump.until(lambda: bool(told))
    assert told == [None]
    assert "callback" in caplog.text


def test_an_empty_batch_is_told_too(engine: Engine, pump: Any) -> None:
    assert pump.append(engine.store, []) is None
    assert list(engine.reopen().records) == []


def test_reading_a_lost_place_is_an_error(engine: Engine, pump: Any) -> None:
    assert isinstance(pump.read(engine.store, [(-5, 1)]), StoreCorrupt)
    with pytest.raises(StoreCorrupt):
        engine.store.read_now([(-5, 1)])
