"""How far each store had come, as it is noted beside the catalog."""

from pathlib import Path

import pytest

from partibus.fragment.broker import Broker
from partibus.server.data_directory.seen import (
    NOTE_MS,
    Seen,
    SeenNotes,
    forget_seen,
    read_seen,
    seen_file,
    write_seen,
)
from partibus.store.memory import MemoryStore
from partibus.testing.clock import ManualClock
from partibus.testing.scheduler import ManualScheduler

NOTE = Seen(b"n" * 16, b"l" * 16, 12345, 7)


class Logged(MemoryStore):
    """A store that says how far its log has come."""

    end: tuple[bytes, int] | None = (b"l" * 16, 100)

    @property
    def log_end(self) -> tuple[bytes, int] | None:
        return self.end


def test_a_note_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_seen(tmp_path, 3) is None
    write_seen(tmp_path, 3, NOTE, syncs=True)
    assert read_seen(tmp_path, 3) == NOTE
    assert seen_file(tmp_path, 3).stat().st_mode & 0o777 == 0o600
    forget_seen(tmp_path)
    assert read_seen(tmp_path, 3) is None


@pytest.mark.parametrize("keep", [0, 10, 55])
def test_a_torn_note_says_nothing(tmp_path: Path, keep: int) -> None:
    write_seen(tmp_path, 0, NOTE, syncs=False)
    file = seen_file(tmp_path, 0)
    file.write_bytes(file.read_bytes()[:keep])
    assert read_seen(tmp_path, 0) is None


def test_a_flipped_note_says_nothing(tmp_path: Path) -> None:
    write_seen(tmp_path, 0, NOTE, syncs=False)
    file = seen_file(tmp_path, 0)
    content = bytearray(file.read_bytes())
    content[45] ^= 1
    file.write_bytes(content)
    assert read_seen(tmp_path, 0) is None


def test_notes_follow_stores_and_catalog(tmp_path: Path) -> None:
    clock = ManualClock()
    scheduler = ManualScheduler(clock)
    store = Logged(notify=scheduler.call_soon)
    generation = [1]
    brokers = {2: Broker(store, clock, scheduler)}
    notes = SeenNotes(tmp_path, b"n" * 16, brokers, lambda: generation[0], scheduler)
    notes.start()
    assert read_seen(tmp_path, 2) == Seen(b"n" * 16, b"l" * 16, 100, 1)
    store.end = (b"l" * 16, 200)
    scheduler.advance_ms(NOTE_MS)
    generation[0] = 5
    notes.note()
    notes._worker.close()  # what was handed to the thread is written
    assert read_seen(tmp_path, 2) == Seen(b"n" * 16, b"l" * 16, 200, 5)
    store.end = (b"l" * 16, 300)
    notes.stop()
    assert read_seen(tmp_path, 2) == Seen(b"n" * 16, b"l" * 16, 300, 5)
