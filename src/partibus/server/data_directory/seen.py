"""How far each store had come, recorded beside the catalog: an older copy put back is recognised.

Owns a file `seen-N` for each store: the namespace, the id of the store's log, how far that log was
durable, and how far the catalog had come. Only what is durable is recorded, so after a power loss a
note is never ahead of its store; a note that is behind, lost or torn only detects less. Written off
the loop, every few seconds and after a change of the catalog, and synced at the start and the end
of the server. Compared by `belonging`, forgotten by an adoption.
"""

import logging
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from partibus.domain.scheduler import Scheduler, Timer
from partibus.files.private import open_private, sync_file
from partibus.fragment.broker import Broker
from partibus.store.record import crc32c
from partibus.store.worker import Worker

NOTE_MS: Final = 5000
"""How often the notes are updated."""
_MAGIC: Final = b"PBSEEN01"
_LAYOUT: Final = struct.Struct("<8s16s16sQQ")
_CHECKSUM: Final = struct.Struct("<I")

_log: Final = logging.getLogger(__name__)


@dataclass(slots=True, frozen=True)
class Seen:
    """The note of one store."""

    namespace: bytes
    log_id: bytes
    position: int
    generation: int


def seen_file(data: Path, number: int) -> Path:
    """Where the note of a store is."""
    return data / f"seen-{number}"


def read_seen(data: Path, number: int) -> Seen | None:
    """The note of a store; None when there is none, or it is torn."""
    file = seen_file(data, number)
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return None
    packed, checksum = content[: _LAYOUT.size], content[_LAYOUT.size :]
    if not packed.startswith(_MAGIC) or checksum != _CHECKSUM.pack(crc32c(packed)):
        _log.warning("%s is damaged and is ignored", file)
        return None
    _, namespace, log_id, position, generation = _LAYOUT.unpack(packed)
    return Seen(namespace, log_id, position, generation)


def write_seen(data: Path, number: int, seen: Seen, *, syncs: bool) -> None:
    """Replace the note of a store."""
    packed = _LAYOUT.pack(_MAGIC, seen.namespace, seen.log_id, seen.position, seen.generation)
    with open_private(seen_file(data, number)) as file:
        file.write(packed + _CHECKSUM.pack(crc32c(packed)))
        file.flush()
        if syncs:
            sync_file(file)


def forget_seen(data: Path) -> None:
    """An operator has accepted the current data, however old it is."""
    for file in data.glob("seen-*"):
        file.unlink()


@dataclass(eq=False)
class SeenNotes:
    """The notes of the stores of this process."""

    data: Path
    namespace: bytes
    brokers: Mapping[int, Broker]
    generation: Callable[[], int]
    scheduler: Scheduler

    def __post_init__(self) -> None:
        self._timer: Timer | None = None
        self._worker = Worker("seen")
        self._noted: dict[int, Seen] = {}

    def start(self) -> None:
        """Record the current positions, and follow the stores from now on."""
        self._write_all(self._new_entries(), syncs=True)
        self._timer = self.scheduler.call_later_ms(NOTE_MS, self._look)

    def stop(self) -> None:
        """Record the final positions; the stores are closed."""
        if self._timer is not None:
            self._timer.cancel()
        self._worker.close()
        self._write_all(self._new_entries(), syncs=True)

    def note(self) -> None:
        """Record what is new; returns at once."""
        new = self._new_entries()
        if new:
            self._worker.submit(partial(self._write_all, new, syncs=False))

    def _look(self) -> None:
        self._timer = self.scheduler.call_later_ms(NOTE_MS, self._look)
        self.note()

    def _new_entries(self) -> dict[int, Seen]:
        new: dict[int, Seen] = {}
        for number, broker in self.brokers.items():
            end = broker.store.log_end
            if end is None:
                continue
            seen = Seen(self.namespace, *end, self.generation())
            if self._noted.get(number) != seen:
                self._noted[number] = new[number] = seen
        return new

    def _write_all(self, new: Mapping[int, Seen], *, syncs: bool) -> None:
        for number, seen in new.items():
            try:
                write_seen(self.data, number, seen, syncs=syncs)
            except OSError as error:
                # The server works without notes; an older store would just not be recognised.
                _log.warning("%s cannot be written: %s", seen_file(self.data, number), error)
