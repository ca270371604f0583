"""The durable facts about stages: records with their replay, and the section of a snapshot.

Owns the encodings, and what a fact means for stages in recovery as in service. Records are made
while a fragment serves; replay happens before that.
"""

import struct
from typing import Final

from partibus.domain.errors import StoreCorrupt
from partibus.fragment.message import NEVER_MS
from partibus.fragment.outbox.state import TRANSFER_SEQUENCES, Purpose
from partibus.fragment.paging import NewPages
from partibus.fragment.queue.history import Part
from partibus.fragment.records import (
    STAGE_DEPARTED,
    STAGED,
    STAGED_MESSAGE,
    STAGES_DROPPED,
    STAGES_PUBLISHED,
    pack_sequences,
    unpack_sequences,
)
from partibus.fragment.stages.state import (
    Stage,
    Stages,
    Writer,
    dump_head,
    dump_stage,
    durable_stages,
    load_head,
    load_stage,
    pack_text,
    unpack_text,
)
from partibus.fragment.state import State
from partibus.fragment.table_snapshot import TableReader, dump_table
from partibus.store.record import Record

KINDS: Final[tuple[int, ...]] = (
    STAGED,
    STAGED_MESSAGE,
    STAGES_PUBLISHED,
    STAGES_DROPPED,
    STAGE_DEPARTED,
)
_STAGED: Final = struct.Struct("<QQQI")
STAGED_MESSAGE_META: Final = struct.Struct("<QQ")
_PUBLISHED: Final = struct.Struct("<QQQI")
_DROPPED: Final = struct.Struct("<QB")
_DEPARTED: Final = struct.Struct("<QQI")


def stages_of(state: State) -> Stages:
    """The stages of a fragment."""
    if state.stages is None:
        state.stages = Stages()
    return state.stages


# --- records -------------------------------------------------------------------------------------


def staged(fragment_id: int, stage: Stage, chunk: int, now_ms: int) -> Record:
    """A chunk of a stage."""
    texts = [pack_text(text) for text in (stage.writer, stage.name, stage.path)]
    meta = _STAGED.pack(stage.number, stage.epoch, now_ms, chunk) + b"".join(texts)
    return Record(fragment_id, STAGED, meta)


def published(
    fragment_id: int,
    writer: str,
    series: str,
    epoch: int,
    batch: int,
    now_ms: int,
    leaving: list[int],
    dropped: list[int],
) -> Record:
    """Stages are being sent, and others are void."""
    head = _PUBLISHED.pack(epoch, batch, now_ms, len(leaving))
    texts = pack_text(writer) + pack_text(series)
    return Record(fragment_id, STAGES_PUBLISHED, head + texts + pack_sequences(leaving + dropped))


def dropped(fragment_id: int, writer: str, epoch: int, forget: bool, numbers: list[int]) -> Record:
    """Stages are gone."""
    head = _DROPPED.pack(epoch, forget)
    return Record(fragment_id, STAGES_DROPPED, head + pack_text(writer) + pack_sequences(numbers))


def stage_departed(fragment_id: int, stage: Stage, first_number: int, count: int) -> Record:
    """Messages of a published stage are in the outbox."""
    return Record(fragment_id, STAGE_DEPARTED, _DEPARTED.pack(stage.number, first_number, count))


# --- replay --------------------------------------------------------------------------------------


def replay_stage(state: State, kind: int, meta: bytes, position: int, length: int) -> None:
    """Apply one record about stages."""
    stages = stages_of(state)
    if kind == STAGED_MESSAGE:
        number, place = STAGED_MESSAGE_META.unpack(meta)
        stage = _stage(stages, number)
        stage.table.push(place, position, length, stage.touched_ms, NEVER_MS, 0)
        stage.byte_count += length
        stage.next_place = place + 1
    elif kind == STAGED:
        _replay_staged(stages, meta)
    elif kind == STAGES_PUBLISHED:
        _replay_published(stages, meta)
    elif kind == STAGES_DROPPED:
        epoch, forget = _DROPPED.unpack_from(meta, 0)
        name, offset = unpack_text(meta, _DROPPED.size)
        for number in unpack_sequences(meta, offset):
            _stage(stages, number)
            stages.take(number)
        if name:
            close(stages.writer(name), epoch)
        if forget:
            stages.writers.pop(name, None)
    else:
        number, first, count = _DEPARTED.unpack(meta)
        if not stages.published or stages.published[0].number != number:
            raise StoreCorrupt(f"a record names stage {number}, which was not published")
        depart(state, stages, first, count)
        state.outbox.next_number = first + count


def _stage(stages: Stages, number: int) -> Stage:
    stage = stages.by_number.get(number)
    if stage is None:
        raise StoreCorrupt(f"a record names stage {number}, which does not exist")
    return stage


def _replay_staged(stages: Stages, meta: bytes) -> None:
    number, epoch, staged_ms, chunk = _STAGED.unpack_from(meta, 0)
    stage = stages.by_number.get(number)
    if stage is None:
        writer, offset = unpack_text(meta, _STAGED.size)
        name, offset = unpack_text(meta, offset)
        path, offset = unpack_text(meta, offset)
        stage = Stage(number, writer, epoch, name, path)
        stages.add(stage)
    touch(stages.writer(stage.writer), stage, chunk, staged_ms)
    stage.next_chunk = stage.chunk_count


def _replay_published(stages: Stages, meta: bytes) -> None:
    epoch, batch, published_ms, count = _PUBLISHED.unpack_from(meta, 0)
    name, offset = unpack_text(meta, _PUBLISHED.size)
    series, offset = unpack_text(meta, offset)
    for at, number in enumerate(unpack_sequences(meta, offset)):
        stage = _stage(stages, number)
        stages.take(number)
        if at < count and len(stage.table):
            stages.published.append(stage)
    writer = stages.writer(name)
    writer.note(series, batch)
    writer.used_ms = published_ms
    close(writer, epoch)


# --- what facts mean, in recovery as in service ------------------------------------------------


def touch(writer: Writer, stage: Stage, chunk: int, staged_ms: int) -> None:
    """A chunk was added."""
    stage.chunk_count = chunk + 1
    stage.touched_ms = writer.used_ms = staged_ms
    writer.epoch = max(writer.epoch, stage.epoch)


def close(writer: Writer, epoch: int) -> None:
    """Everything that a writer wrote up to an epoch is over."""
    writer.epoch = max(writer.epoch, epoch)
    writer.closed_epoch = max(writer.closed_epoch, epoch)


def depart(state: State, stages: Stages, first_number: int, count: int) -> None:
    """Take messages of the next published stage and put them into the outbox."""
    stage = stages.published[0]
    for number in range(first_number, first_number + count):
        if not len(stage.table):
            raise StoreCorrupt(f"more messages left stage {stage.number} than it had")
        held = stage.table.pop()
        held.sequence = TRANSFER_SEQUENCES | number
        state.outbox.enter(number, held, Purpose.TRANSFER, stage.path)
        stage.byte_count -= held.length
    if not len(stage.table):
        stages.published.popleft()


# --- snapshots -----------------------------------------------------------------------------------


def dump_stages(state: State, pages: NewPages | None) -> list[Part] | None:
    """The writers, then each stage, followed by the table of its messages."""
    stages = state.stages
    if stages is None:
        return None
    parts: list[Part] = [dump_head(stages)]
    for stage, is_published in durable_stages(stages):
        parts.append(dump_stage(stage, is_published))
        dump_table(stage.table, [], parts, pages)
    return parts


def load_stages(state: State, data: bytes, tables: TableReader) -> None:
    """The stages that `dump_stages` wrote."""
    state.stages, count, offset = load_head(data)
    for _ in range(count):
        stage, offset = load_stage(state.stages, data, offset)
        offset = tables.load(stage.table, data, offset)
        stage.byte_count = stage.table.byte_count()
        stage.next_place = stage.table.last_sequence + 1
