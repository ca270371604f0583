"""The stages of a fragment: what pipelines have written and not published, and who they are.

Owns the data and its form in snapshots. Plain structures with no idea of durability: `behaviour`
decides what may change and when. A stage that is published waits in the order of publication until
all of its messages are in the outbox. A writer is remembered when it has no stages, because its
published batches must not be published again.
"""

import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from partibus.domain.errors import StoreCorrupt
from partibus.fragment.queue.table import MessageTable
from partibus.fragment.stages.commands import StageSummary, WriterSummary

WRITERS_MAX: Final = 1000
"""How many writers a fragment remembers; each costs little, but nobody needs more."""
SERIES_MAX: Final = 1000
"""How many series are remembered per writer; the least recently used goes first."""
STAGE_LIFE_MS: Final = 24 * 3600 * 1000
"""A stage to which nothing was added for this long is abandoned."""
_SIZE: Final = struct.Struct("<H")
_HEAD: Final = struct.Struct("<QII")
_WRITER: Final = struct.Struct("<QQQI")
_BATCH: Final = struct.Struct("<Q")
_STAGE: Final = struct.Struct("<QQQIB")


@dataclass(eq=False)
class Stage:
    """Messages of one task, by their place in it."""

    number: int
    writer: str
    epoch: int
    name: str
    path: str
    table: MessageTable = field(default_factory=MessageTable)
    byte_count: int = 0
    touched_ms: int = 0
    chunk_count: int = 0
    """Chunks that are durable."""
    next_chunk: int = 0
    """What `chunk_count` will be when the pending chunks are durable."""
    next_place: int = 1
    is_closing: bool = False
    """Its publication or end is being made durable; nothing can be added any more."""
    departing: int = 0
    """Of a published stage: messages whose entry into the outbox is not durable yet."""

    @property
    def is_at_rest(self) -> bool:
        """Whether no change of it is being made durable."""
        return not self.is_closing and self.next_chunk == self.chunk_count

    def summary(self) -> StageSummary:
        """What its writer and operators see."""
        return StageSummary(
            self.name, self.epoch, self.path, len(self.table), self.byte_count, self.touched_ms
        )


class Writer:
    """A pipeline that stages and publishes."""

    __slots__ = ("batches", "busy", "closed_epoch", "epoch", "name", "stages", "used_ms")

    def __init__(self, name: str) -> None:
        self.name = name
        self.epoch = 0
        """The latest known epoch; earlier ones are refused."""
        self.closed_epoch = 0
        """Everything up to this epoch is over: published or given up."""
        self.used_ms = 0
        self.batches: dict[str, int] = {}
        """The last batch of each series that was published, the latest at the end."""
        self.stages: dict[str, Stage] = {}
        self.busy = False
        """A publication or a drop is being made durable; no other may begin."""

    def has_published(self, series: str, batch: int) -> bool:
        """Whether a batch was already published."""
        last = self.batches.get(series)
        return last is not None and batch <= last

    def note(self, series: str, batch: int) -> None:
        """A batch was published."""
        self.batches.pop(series, None)
        self.batches[series] = batch
        while len(self.batches) > SERIES_MAX:
            del self.batches[next(iter(self.batches))]


class Stages:
    """Every writer and every stage of a fragment."""

    __slots__ = ("by_number", "next_number", "published", "writers")

    def __init__(self) -> None:
        self.next_number = 1
        self.writers: dict[str, Writer] = {}
        self.by_number: dict[int, Stage] = {}
        """Stages that are not published."""
        self.published: deque[Stage] = deque()

    def writer(self, name: str) -> Writer:
        """A writer; created when there is none."""
        writer = self.writers.get(name)
        if writer is None:
            writer = self.writers[name] = Writer(name)
        return writer

    def add(self, stage: Stage) -> None:
        """Add a stage."""
        self.by_number[stage.number] = stage
        self.writer(stage.writer).stages[stage.name] = stage
        self.next_number = max(self.next_number, stage.number + 1)

    def take(self, number: int) -> Stage:
        """Take a stage out."""
        stage = self.by_number.pop(number)
        writer = self.writers.get(stage.writer)
        if writer is not None and writer.stages.get(stage.name) is stage:
            del writer.stages[stage.name]
        return stage

    @property
    def message_count(self) -> int:
        """Messages that are staged, and those that are published and not in the outbox yet."""
        stages = [*self.by_number.values(), *self.published]
        return sum([len(stage.table) for stage in stages])

    def next_expiry_ms(self) -> int | None:
        """When the first stage is abandoned; None when there is none."""
        times = [stage.touched_ms for stage in self.by_number.values() if stage.is_at_rest]
        first_ms = min(times, default=None)
        return None if first_ms is None else first_ms + STAGE_LIFE_MS

    def abandoned(self, now_ms: int) -> list[Stage]:
        """Stages whose time is up and that are not being changed at the moment."""
        return [
            stage
            for stage in self.by_number.values()
            if stage.is_at_rest and stage.touched_ms + STAGE_LIFE_MS <= now_ms
        ]

    def shift_ms(self, delta_ms: int) -> None:
        """The clock was set: stages keep their age."""
        for stage in self.by_number.values():
            stage.touched_ms += delta_ms

    def bodies(self) -> Iterator[tuple[int, int]]:
        """(position, length) of every message."""
        for stage in [*self.by_number.values(), *self.published]:
            yield from stage.table.bodies()

    def summaries(self) -> list[WriterSummary]:
        """Every writer with its stages."""
        leaving: dict[str, int] = {}
        for stage in self.published:
            leaving[stage.writer] = leaving.get(stage.writer, 0) + len(stage.table)
        found: list[WriterSummary] = []
        for writer in self.writers.values():
            series, batch = "", -1
            for series, batch in writer.batches.items():  # noqa: B007 - the last one
                pass
            stages = [stage.summary() for stage in writer.stages.values() if stage.chunk_count]
            found.append(
                WriterSummary(
                    writer.name,
                    writer.epoch,
                    series,
                    batch,
                    writer.used_ms,
                    stages,
                    leaving.get(writer.name, 0),
                )
            )
        return found


# --- in records and snapshots --------------------------------------------------------------------


def pack_text(text: str) -> bytes:
    """A short text behind its size."""
    encoded = text.encode()
    return _SIZE.pack(len(encoded)) + encoded


def unpack_text(data: bytes, offset: int) -> tuple[str, int]:
    """The text at an offset, and the offset after it."""
    (size,) = _SIZE.unpack_from(data, offset)
    offset += _SIZE.size
    if offset + size > len(data):
        raise StoreCorrupt("a text in the record of a stage is truncated")
    return data[offset : offset + size].decode(), offset + size


def durable_stages(stages: Stages) -> list[tuple[Stage, bool]]:
    """The stages that a snapshot holds, and whether each is published."""
    found = [(stage, True) for stage in stages.published]
    return found + [(stage, False) for stage in stages.by_number.values() if stage.chunk_count]


def dump_head(stages: Stages) -> bytes:
    """The writers, and how many stages follow."""
    # A writer without an epoch has nothing durable yet.
    writers = [writer for writer in stages.writers.values() if writer.epoch]
    parts = [_HEAD.pack(stages.next_number, len(writers), len(durable_stages(stages)))]
    for writer in writers:
        fields = (writer.epoch, writer.closed_epoch, writer.used_ms, len(writer.batches))
        parts += (_WRITER.pack(*fields), pack_text(writer.name))
        for series, batch in writer.batches.items():
            parts += (_BATCH.pack(batch), pack_text(series))
    return b"".join(parts)


def load_head(data: bytes) -> tuple[Stages, int, int]:
    """The writers, how many stages follow, and where."""
    stages = Stages()
    stages.next_number, writer_count, stage_count = _HEAD.unpack_from(data, 0)
    offset = _HEAD.size
    for _ in range(writer_count):
        epoch, closed_epoch, used_ms, batch_count = _WRITER.unpack_from(data, offset)
        name, offset = unpack_text(data, offset + _WRITER.size)
        writer = stages.writer(name)
        writer.epoch, writer.closed_epoch, writer.used_ms = epoch, closed_epoch, used_ms
        for _ in range(batch_count):
            (batch,) = _BATCH.unpack_from(data, offset)
            series, offset = unpack_text(data, offset + _BATCH.size)
            writer.batches[series] = batch
    return stages, stage_count, offset


def dump_stage(stage: Stage, is_published: bool) -> bytes:
    """Everything of a stage but its messages."""
    fields = (stage.number, stage.epoch, stage.touched_ms, stage.chunk_count, is_published)
    texts = (stage.writer, stage.name, stage.path)
    return _STAGE.pack(*fields) + b"".join([pack_text(text) for text in texts])


def load_stage(stages: Stages, data: bytes, offset: int) -> tuple[Stage, int]:
    """The stage at an offset, without its messages, and the offset after it."""
    number, epoch, touched_ms, chunk_count, is_published = _STAGE.unpack_from(data, offset)
    writer, offset = unpack_text(data, offset + _STAGE.size)
    name, offset = unpack_text(data, offset)
    path, offset = unpack_text(data, offset)
    stage = Stage(number, writer, epoch, name, path)
    stage.touched_ms = touched_ms
    stage.chunk_count = stage.next_chunk = chunk_count
    if is_published:
        stages.published.append(stage)
    else:
        stages.add(stage)
    return stage, offset
