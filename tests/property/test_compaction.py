"""Compaction, against a model: whatever is live is there, and nothing else takes space for long.

Random appends, releases, shared bodies, checkpoints, compactions that are stopped at any of their
file operations, and crashes at every such moment. What the model holds must be read back, byte by
byte, from the running store and from the files as a crash left them; and when compaction has
nothing left to do, the files are at most twice what is live, and some segments.
"""

import queue
import random
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from partibus.domain.errors import BusError
from partibus.store.files.disk import OsDisk
from partibus.store.files.log import SegmentStore
from partibus.store.files.watermark import WATERMARK_BYTES
from partibus.store.record import Record

SEGMENT_BYTES = 4096
PATIENCE_S = 30


class SteppedDisk(OsDisk):
    """Stops the compacting thread before each change of a file, until it may go on."""

    def __init__(self) -> None:
        self.stepping = False
        self.steps: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.go_on = threading.Semaphore(0)

    def _stop(self, what: str) -> None:
        if self.stepping and threading.current_thread().name.startswith("store-compact"):
            self.steps.put(what)
            assert self.go_on.acquire(timeout=PATIENCE_S)

    def write(self, fd: int, parts: list[bytes], offset: int) -> int:
        self._stop("write")
        return super().write(fd, parts, offset)

    def replace(self, source: Path, target: Path) -> None:
        self._stop("replace")
        super().replace(source, target)
        self._stop("replaced")

    def remove(self, path: Path) -> None:
        self._stop("remove")
        super().remove(path)


class Bench:
    """A store and the model of what it holds."""

    def __init__(self, place: Path, seed: int) -> None:
        self.place = place
        self.random = random.Random(seed)
        self.disk = SteppedDisk()
        self.callbacks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.bodies: dict[tuple[int, int], bytes] = {}
        self.holders: dict[tuple[int, int], int] = {}
        self.number = 0
        self.compacting: list[BusError | None] | None = None
        self.store = self.open(place / "store")

    def open(self, directory: Path) -> SegmentStore:
        store = SegmentStore(
            directory, notify=self.callbacks.put, segment_bytes=SEGMENT_BYTES, disk=self.disk
        )
        for _ in store.open().records:
            pass
        for (position, length), count in self.holders.items():
            for _ in range(count):
                store.retain(position, length)
        return store

    def until(self, condition: Callable[[], bool]) -> None:
        """Turn the loop; a compacting thread that waits for a step is let on."""
        while not condition():
            try:
                self.callbacks.get(timeout=0.01)()
            except queue.Empty:
                self.step()

    def step(self) -> None:
        """Let the compacting thread do one thing."""
        if not self.disk.steps.empty():
            self.disk.steps.get()
            self.disk.go_on.release()

    # --- what may happen ----------------------------------------------------------------

    def append(self) -> None:
        records = []
        for _ in range(self.random.randrange(1, 5)):
            self.number += 1
            body = b"%08d" % self.number * self.random.choice([15, 40, 90, 700])
            records.append(Record(1, 1, b"m", self.random.choice([body, body, b""])))
        told: list[BusError | None] = []
        self.store.append(records, told.append)
        self.until(lambda: bool(told))
        assert told == [None]
        for record in records:
            if record.body:
                ref = (record.position, len(record.body))
                self.bodies[ref] = record.body
                self.holders[ref] = 1

    def share(self) -> None:
        if self.holders:
            ref = self.random.choice(list(self.holders))
            self.store.retain(*ref)
            self.holders[ref] += 1

    def release(self) -> None:
        share = self.random.choice([0.1, 0.5, 0.95])
        for ref in list(self.holders):
            if self.random.random() < share:
                self.store.release(*ref)
                self.holders[ref] -= 1
                if not self.holders[ref]:
                    del self.holders[ref]

    def checkpoint(self) -> None:
        told: list[BusError | None] = []
        self.store.checkpoint({1: b"state"}, told.append)
        self.until(lambda: bool(told))
        assert told == [None]

    def begin_compaction(self) -> None:
        if self.compacting is None:
            told: list[BusError | None] = []
            self.disk.stepping = self.random.random() < 0.7
            if self.store.compact(told.append):
                self.compacting = told

    def end_compaction(self) -> None:
        told = self.compacting
        if told is not None:
            self.until(lambda: bool(told))
            assert told == [None]
            self.compacting = None

    def crash(self) -> None:
        """What a kill at this moment leaves must hold all that the model holds."""
        if self.compacting is not None and not self.compacting and self.disk.stepping:
            self.until(lambda: bool(self.compacting) or not self.disk.steps.empty())
        elif self.compacting is not None:
            self.end_compaction()
        stepping, self.disk.stepping = self.disk.stepping, False
        target = self.place / "crashed"
        shutil.copytree(self.place / "store", target)
        other = self.open(target)
        try:
            self.check(other)
        finally:
            other.close()
            shutil.rmtree(target)
            self.disk.stepping = stepping

    def grind(self) -> None:
        """What makes a compaction likely, with changes while it runs."""
        for _ in range(8):
            self.append()
        self.release()
        self.checkpoint()
        self.begin_compaction()
        if self.random.random() < 0.5:
            self.share()
            self.release()

    def restart(self) -> None:
        self.end_compaction()
        self.disk.stepping = False
        self.store.close()
        self.store = self.open(self.place / "store")

    # --- what must hold -----------------------------------------------------------------

    def check(self, store: SegmentStore) -> None:
        refs = list(self.holders)
        self.random.shuffle(refs)
        assert store.read_now(refs) == [self.bodies[ref] for ref in refs]
        expected = sum(length * count for (_, length), count in self.holders.items())
        assert store.live_bytes == expected

    def settle(self) -> None:
        """Compact until there is nothing to do; then the bound holds."""
        self.end_compaction()
        self.disk.stepping = False
        self.checkpoint()
        while True:
            self.begin_compaction()
            if self.compacting is None:
                break
            self.disk.stepping = False
            self.until(lambda: not self.disk.steps.empty() or bool(self.compacting))
            self.end_compaction()
        self.check(self.store)
        files = list((self.place / "store").iterdir())
        used = sum(path.stat().st_size for path in files) - WATERMARK_BYTES
        unique = sum(length for _, length in self.holders)
        last = max(path for path in files if path.suffix == ".seg").stat().st_size
        # The last segment is written to, and as large as its largest entry.
        assert used <= 2 * unique + 2 * SEGMENT_BYTES + last, [path.name for path in files]
        assert self.store.disk_bytes == used + WATERMARK_BYTES - len(str(self.pid_bytes()))

    def pid_bytes(self) -> str:
        return (self.place / "store" / "lock").read_text()


steps = st.lists(
    st.sampled_from(
        ["grind"] * 4
        + ["append"] * 3
        + ["release"] * 3
        + ["begin_compaction"] * 3
        + ["share", "checkpoint", "step", "end_compaction", "crash", "crash", "restart"]
    ),
    min_size=5,
    max_size=30,
)


@given(steps=steps, seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=60)
def test_what_is_live_survives_compaction_and_every_crash_in_it(
    steps: list[str], seed: int
) -> None:
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(Path(place), seed)
        try:
            for step in steps:
                getattr(bench, step)()
            bench.check(bench.store)
            bench.settle()
            bench.crash()
        finally:
            bench.disk.stepping = False
            bench.disk.go_on.release(1000)
            bench.store.close()
