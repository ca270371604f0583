"""What the tests of the stores share: a loop thread that is pumped by hand."""

import itertools
import queue
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest

from partibus.domain.errors import BusError
from partibus.simulation.world import World
from partibus.store.files.disk import Disk
from partibus.store.files.log import SegmentStore
from partibus.store.interface import Increment, Notify, Ref, Store
from partibus.store.postgres.store import PostgresStore
from partibus.store.record import Record
from support.postgres import PostgresServer

PATIENCE_S = 20.0


class Pump:
    """Stands for the loop: callbacks wait here until the test runs them."""

    def __init__(self) -> None:
        self._callbacks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.world: World | None = None
        """What has to go on for a callback to come, where time is simulated."""

    def notify(self, callback: Callable[[], None]) -> None:
        self._callbacks.put(callback)

    def take(self) -> Callable[[], None]:
        """The next callback, not run."""
        while self.world is not None and self._callbacks.empty():
            self.world.step()
        return self._callbacks.get(timeout=PATIENCE_S)

    def step(self) -> None:
        self.take()()

    def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.step()

    def idle(self) -> bool:
        return self._callbacks.empty()

    def append(self, store: Store, records: list[Record]) -> BusError | None:
        """Append and wait until it is told."""
        told: list[BusError | None] = []
        store.append(records, told.append)
        self.until(lambda: bool(told))
        return told[0]

    def checkpoint(
        self, store: Store, states: dict[int, bytes], increment: Increment | None = None
    ) -> BusError | None:
        told: list[BusError | None] = []
        store.checkpoint(states, told.append, increment)
        self.until(lambda: bool(told))
        return told[0]

    def read(self, store: Store, refs: list[Ref]) -> list[bytes] | BusError:
        told: list[list[bytes] | BusError] = []
        store.read(refs, told.append)
        self.until(lambda: bool(told))
        return told[0]


@pytest.fixture
def pump() -> Pump:
    return Pump()


class Stores:
    """Makes stores and closes them when the test is over."""

    def __init__(self, directory: Path, pump: Pump) -> None:
        self.directory = directory
        self._pump = pump
        self._open: list[SegmentStore] = []

    def make(
        self,
        directory: Path | None = None,
        *,
        disk: Disk | None = None,
        segment_bytes: int = 1 << 16,
        probe_interval_s: float = 0.001,
        slow_commit_s: float = 1000.0,
    ) -> SegmentStore:
        store = SegmentStore(
            directory or self.directory,
            notify=self._pump.notify,
            segment_bytes=segment_bytes,
            disk=disk,
            probe_interval_s=probe_interval_s,
            slow_commit_s=slow_commit_s,
        )
        self._open.append(store)
        return store

    def ready(
        self,
        directory: Path | None = None,
        *,
        disk: Disk | None = None,
        segment_bytes: int = 1 << 16,
        probe_interval_s: float = 0.001,
    ) -> SegmentStore:
        """A store that is open and has been replayed."""
        store = self.make(
            directory, disk=disk, segment_bytes=segment_bytes, probe_interval_s=probe_interval_s
        )
        for _ in store.open().records:
            pass
        return store

    def crashed_copy(self, name: str = "crashed") -> Path:
        """The files as a process that was killed at this moment leaves them."""
        target = self.directory.parent / name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self.directory, target)
        return target

    def close(self) -> None:
        for store in self._open:
            store.close()


@pytest.fixture
def stores(tmp_path: Path, pump: Pump) -> Iterator[Stores]:
    made = Stores(tmp_path / "store", pump)
    yield made
    made.close()


class Lanes:
    """Stores in one lane of a database that can be made to fail."""

    def __init__(self, server: PostgresServer, lane: int) -> None:
        self._server = server
        self.dsn = server.dsn
        self.lane = lane

    def make(self, notify: Notify, **settings: Any) -> PostgresStore:
        """A store, not open yet."""
        settings.setdefault("segment_bytes", 1 << 16)
        return PostgresStore(self.dsn, self.lane, notify=notify, probe_interval_s=0.001, **settings)

    def fail(self) -> None:
        """Commits fail from now on."""
        self._execute("ALTER TABLE partibus.lane ADD CONSTRAINT broken CHECK (lane < 0) NOT VALID")

    def heal(self) -> None:
        """They succeed again."""
        self._execute("ALTER TABLE partibus.lane DROP CONSTRAINT broken")

    def _execute(self, statement: LiteralString) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(statement)


_lane_numbers = itertools.count()


@pytest.fixture
def lanes(postgres: PostgresServer) -> Lanes:
    """A lane that no other test uses."""
    return Lanes(postgres, next(_lane_numbers))


@pytest.fixture
def new_lanes(postgres: PostgresServer) -> Callable[[], Lanes]:
    """Makes lanes that no other test uses."""
    return lambda: Lanes(postgres, next(_lane_numbers))
