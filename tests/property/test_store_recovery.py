"""Whatever a crash or a failing disk leaves: all that was acknowledged, or an error.

Random batches go into a store with small segments, with checkpoints in between; a last
group is written but never synced. Then the unsynced tail is torn and bits are flipped in
what was durable. Recovery gives back every acknowledged record, perhaps followed by
whole batches that were not, or raises StoreCorrupt with file and offset. Never fewer.
"""

import errno
import queue
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from partibus.domain.errors import BusError, StoreCorrupt
from partibus.store.fault_injection import FaultyDisk
from partibus.store.files.disk import OsDisk
from partibus.store.files.log import SegmentStore
from partibus.store.files.segment import segment_path
from partibus.store.record import Record

SEGMENT_BYTES = 4096
NEVER_S = 1e6

Batch = list[tuple[int, int, bytes, bytes]]

records = st.tuples(
    st.integers(0, 2**32 - 1),
    st.integers(0, 255),
    st.binary(max_size=40),
    st.one_of(st.just(b""), st.binary(max_size=60), st.binary(min_size=500, max_size=900)),
)
batches = st.lists(st.lists(records, max_size=6), max_size=10)
damages = st.lists(st.tuples(st.integers(0, 2**30), st.integers(0, 7)), max_size=3)


class Run:
    """A store that was used and then killed: its files, and what it had promised."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.callbacks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.disk = FaultyDisk(OsDisk())
        self.store = self.open(directory)
        self.acknowledged: list[Batch] = []
        self.unacknowledged: list[Batch] = []
        self.states: dict[int, bytes] = {}
        self.bodies: dict[tuple[int, int], bytes] = {}  # of what was acknowledged, by reference
        self.durable = 0

    def open(self, directory: Path) -> SegmentStore:
        store = SegmentStore(
            directory,
            notify=self.callbacks.put,
            segment_bytes=SEGMENT_BYTES,
            disk=self.disk,
            probe_interval_s=NEVER_S,
        )
        for _ in store.open().records:
            pass
        return store

    def append(self, group: list[Batch]) -> list[BusError | None]:
        told: list[BusError | None] = []
        made = [Record(*fields) for batch in group for fields in batch]
        rest = iter(made)
        for batch in group:
            self.store.append([next(rest) for _ in batch], told.append)
        while len(told) < len(group):
            self.callbacks.get(timeout=20)()
        if told == [None]:
            self.bodies.update({(r.position, len(r.body)): r.body for r in made if r.body})
        return told

    def use(self, durable: list[Batch], checkpoint_after: int, unsynced: list[Batch]) -> None:
        for number, batch in enumerate(durable):
            assert self.append([batch]) == [None]
            self.acknowledged.append(batch)
            if number == checkpoint_after:
                told: list[BusError | None] = []
                self.states = {1: b"%d" % number, 2**32 - 1: b"x" * number}
                self.store.checkpoint(self.states, told.append)
                while not told:
                    self.callbacks.get(timeout=20)()
                self.acknowledged = []
        self.durable = self.store._tail
        self.disk.sync_errno = errno.EIO
        self.unacknowledged = unsynced
        assert None not in self.append(unsynced)

    def kill(self, target: Path) -> None:
        shutil.copytree(self.directory, target)
        self.store.close()
        self.disk.heal()


@contextmanager
def crashed(
    durable: list[Batch], checkpoint_after: int, unsynced: list[Batch]
) -> Iterator[tuple[Run, Path]]:
    with tempfile.TemporaryDirectory() as place:
        run = Run(Path(place) / "store")
        run.use(durable, checkpoint_after, unsynced)
        target = Path(place) / "crashed"
        run.kill(target)
        yield run, target


def tear(run: Run, target: Path, how: str, at: int, noise: bytes) -> None:
    """Damage what was written after the last durable byte, and nothing before it."""
    for path in target.glob("*.seg"):
        data = path.read_bytes()
        from_offset = max(0, min(len(data), run.durable - int(path.stem, 16)))
        tail = data[from_offset:].rstrip(b"\0")
        cut = from_offset + (at % (len(tail) + 1))
        if how == "truncate":
            path.write_bytes(data[:cut] if cut >= 64 else data)
        elif how == "zero":
            path.write_bytes(data[:cut] + bytes(len(data) - cut) if cut >= 64 else data)
        elif how == "garble" and cut >= 64:
            path.write_bytes((data[:cut] + noise + data[cut + len(noise) :])[: len(data)])


def flip(target: Path, damage: list[tuple[int, int]]) -> None:
    """Flip bits anywhere in any file but the lock."""
    files = sorted(path for path in target.iterdir() if path.name != "lock")
    total = sum(path.stat().st_size for path in files)
    for place, bit in damage:
        offset = place % total
        for path in files:
            data = bytearray(path.read_bytes())
            if offset < len(data):
                data[offset] ^= 1 << bit
                path.write_bytes(data)
                break
            offset -= len(data)


def recover(target: Path) -> tuple[dict[int, bytes], list[tuple[int, int, bytes, bytes]]]:
    """States and records with their bodies, read back the way a server would."""
    callbacks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    store = SegmentStore(target, notify=callbacks.put, segment_bytes=SEGMENT_BYTES)
    try:
        recovered = store.open()
        found = list(recovered.records)
        refs = [(record.position, record.body_length) for record in found if record.body_length]
        bodies = iter(store.read_now(refs) or [])
        return recovered.states, [
            (r.fragment, r.kind, r.meta, next(bodies) if r.body_length else b"") for r in found
        ]
    finally:
        store.close()


def bodies_of(target: Path, run: Run) -> list[bytes]:
    """Every acknowledged body, also those before the checkpoint, retained and read."""
    store = run.open(target)
    try:
        for position, length in run.bodies:
            store.retain(position, length)
        return store.read_now(list(run.bodies)) or []
    finally:
        store.close()


def flat(group: list[Batch]) -> list[tuple[int, int, bytes, bytes]]:
    return [fields for batch in group for fields in batch]


def possible_outcomes(run: Run) -> list[list[tuple[int, int, bytes, bytes]]]:
    """What was acknowledged, followed by none, some or all of the whole batches after it."""
    acknowledged = flat(run.acknowledged)
    return [
        acknowledged + flat(run.unacknowledged[:count])
        for count in range(len(run.unacknowledged) + 1)
    ]


@given(
    durable=batches,
    checkpoint_after=st.integers(-1, 9),
    unsynced=batches,
    how=st.sampled_from(["nothing", "truncate", "zero", "garble"]),
    at=st.integers(0, 2**20),
    noise=st.binary(min_size=1, max_size=300),
)
@settings(deadline=None, max_examples=120)
def test_a_torn_tail_costs_nothing_that_was_acknowledged(
    durable: list[Batch],
    checkpoint_after: int,
    unsynced: list[Batch],
    how: str,
    at: int,
    noise: bytes,
) -> None:
    with crashed(durable, checkpoint_after, unsynced) as (run, target):
        tear(run, target, how, at, noise)
        states, found = recover(target)
        assert states == run.states
        assert found in possible_outcomes(run)
        assert bodies_of(target, run) == list(run.bodies.values())
        assert recover(target) == (states, found), "a second recovery found something else"


@given(
    durable=batches,
    checkpoint_after=st.integers(-1, 9),
    unsynced=batches,
    how=st.sampled_from(["nothing", "truncate", "zero", "garble"]),
    at=st.integers(0, 2**20),
    noise=st.binary(min_size=1, max_size=300),
    damage=damages,
)
@settings(deadline=None, max_examples=200)
def test_damage_is_found_or_harmless_but_never_silent(
    durable: list[Batch],
    checkpoint_after: int,
    unsynced: list[Batch],
    how: str,
    at: int,
    noise: bytes,
    damage: list[tuple[int, int]],
) -> None:
    with crashed(durable, checkpoint_after, unsynced) as (run, target):
        tear(run, target, how, at, noise)
        flip(target, damage)
        try:
            states, found = recover(target)
        except StoreCorrupt as error:
            assert re.search(rf"{re.escape(str(target))}\S*: offset \d+", error.text), error.text
            return
        assert states == run.states
        assert found in possible_outcomes(run)
        try:
            assert bodies_of(target, run) == list(run.bodies.values())
        except StoreCorrupt as error:
            assert damage, error.text  # in what the checkpoint spares recovery from reading


@given(durable=batches.filter(bool), bit=st.integers(0, 2**30))
@settings(deadline=None, max_examples=100)
def test_one_flipped_bit_in_an_acknowledged_entry_is_always_found(
    durable: list[Batch], bit: int
) -> None:
    with crashed(durable, -1, []) as (run, target):
        first = segment_path(target, 0)
        data = bytearray(first.read_bytes())
        used = min(run.durable, len(bytes(data).rstrip(b"\0")))
        index = 64 + (bit >> 3) % (used - 64)
        data[index] ^= 1 << (bit & 7)
        first.write_bytes(data)
        try:
            recover(target)
        except StoreCorrupt as error:
            assert f"{first}: offset" in error.text
        else:
            raise AssertionError("the damage went unnoticed")
