"""Stages: a pipeline writes a batch unseen, and publishes all of it at once and once.

Owns what a writer may do with its stages, and when they are abandoned. Staged messages count for
the size of the fragment and for nothing else. A publication is one record: the stages leave through
the outbox, the batch is remembered, and everything else that the writer has staged is void. A
writer has one publication or drop at a time.
"""

from dataclasses import dataclass
from typing import Final

from partibus.domain.errors import (
    BusError,
    EntityNotFound,
    InvalidOperation,
    QuotaExceeded,
    ServerBusy,
    StageFenced,
    StageLost,
    StoreUnavailable,
)
from partibus.fragment.changes import Change
from partibus.fragment.commands import Command
from partibus.fragment.effects import Answered, Confirmed, Done, Effect, Effects, Failed, Refused
from partibus.fragment.message import NEVER_MS
from partibus.fragment.queue.arrivals import full
from partibus.fragment.records import STAGED_MESSAGE
from partibus.fragment.stages.changes import StageArrival, StageDrop, StagePublication
from partibus.fragment.stages.commands import (
    DropStages,
    ListWriters,
    PublishPort,
    PublishStages,
    StageMessages,
)
from partibus.fragment.stages.departures import depart_published
from partibus.fragment.stages.records import (
    STAGED_MESSAGE_META,
    close,
    dropped,
    published,
    staged,
    stages_of,
    touch,
)
from partibus.fragment.stages.state import WRITERS_MAX, Stage, Stages, Writer
from partibus.fragment.state import State
from partibus.fragment.upkeep.slices import Allowance
from partibus.store.record import Record

_BUSY: Final = "Another change to this writer's stages is under way; try again."


@dataclass(eq=False)
class StagesPublished(Effect):
    """A batch is being sent, now or by an earlier request."""

    port: PublishPort
    count: int
    is_repeated: bool

    def carry_out(self) -> None:
        self.port.published(self.count, self.is_repeated)


# --- adding ---------------------------------------------------------------------------------------


def stage_messages(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Prepare a chunk of a stage."""
    assert isinstance(command, StageMessages)
    stages = stages_of(state)
    writer = stages.writers.get(command.writer)
    stage = None if writer is None else writer.stages.get(command.name)
    is_repeated = stage is not None and command.chunk < stage.next_chunk
    refusal = _fence(state, writer, command.epoch) or _busy(writer)
    if refusal is None and writer is not None and command.epoch <= writer.closed_epoch:
        refusal = _over(writer, command.epoch)
    if refusal is None:
        refusal = _misfit(stage, command)
    if refusal is None and not is_repeated:
        refusal = _no_room(state, stages, writer, command, now_ms)
    if refusal is not None:
        out.outward.append(Refused(command.port, command.requests, refusal))
        return
    if stage is None:
        fields = (command.writer, command.epoch, command.name, command.path)
        stage = Stage(stages.next_number, *fields)
        stages.add(stage)
    first = stage.next_place
    records: list[Record] = []
    if not is_repeated:
        records = _records(state, stage, command, now_ms)
    out.changes.append(StageArrival(records, command, stage, first, now_ms, is_repeated))


def _records(state: State, stage: Stage, command: StageMessages, now_ms: int) -> list[Record]:
    fragment_id, number = state.fragment_id, stage.number
    records = [staged(fragment_id, stage, command.chunk, now_ms)]
    place = stage.next_place
    pack = STAGED_MESSAGE_META.pack
    for message in command.messages:
        records.append(Record(fragment_id, STAGED_MESSAGE, pack(number, place), message.body))
        place += 1
    stage.next_place = place
    stage.next_chunk = command.chunk + 1
    state.size_bytes += command.byte_count
    return records


def _misfit(stage: Stage | None, command: StageMessages) -> BusError | None:
    """Why a chunk does not fit the stage that it names."""
    if command.chunk > (0 if stage is None else stage.next_chunk):
        return StageLost(
            f"Chunk {command.chunk} of the stage '{command.name}' cannot be added: the chunks "
            "before it are missing. Write the batch again."
        )
    if stage is None:
        return None
    if stage.path != command.path or stage.epoch != command.epoch:
        return InvalidOperation(
            f"The stage '{stage.name}' was begun for '{stage.path}' in another batch; give each "
            "attempt of a task its own name."
        )
    return StageLost() if stage.is_closing else None


def _no_room(
    state: State, stages: Stages, writer: Writer | None, command: StageMessages, now_ms: int
) -> BusError | None:
    if writer is None and len(stages.writers) >= WRITERS_MAX:
        return QuotaExceeded(
            f"'{state.spec.path}' has {WRITERS_MAX} writers, the maximum; forget one with "
            "`partibus stage drop --forget`."
        )
    if _fits(state, command.byte_count, now_ms):
        return None
    if stages.published or len(state.outbox):
        return ServerBusy(
            f"'{state.spec.path}' is full, and messages that were published are still on their way "
            "out of it; try again."
        )
    return full(state)


def _fits(state: State, byte_count: int, now_ms: int) -> bool:
    if state.topic is not None:
        return state.topic.has_room(state, byte_count, now_ms)
    most = state.spec.size_bytes_max
    return not most or state.size_bytes + byte_count <= most


def stage_arrived(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """The chunk is durable."""
    assert isinstance(change, StageArrival)
    command, stage = change.command, change.stage
    if not change.is_repeated:
        place = change.first_place
        push, staged_ms = stage.table.push, change.staged_ms
        # The first record is that of the chunk.
        for record in change.records[1:]:
            push(place, record.position, len(record.body), staged_ms, NEVER_MS, 0)
            place += 1
        stage.byte_count += command.byte_count
        touch(stages_of(state).writer(stage.writer), stage, command.chunk, staged_ms)
    out.outward.append(Confirmed(command.port, command.requests, change.first_place))


def abort_stage_arrival(state: State, change: Change, error: BusError, out: Effects) -> None:
    """The store failed: the stage is as before, since everything that came later failed too."""
    assert isinstance(change, StageArrival)
    command, stage = change.command, change.stage
    if not change.is_repeated:
        state.size_bytes -= command.byte_count
        stage.next_chunk = min(stage.next_chunk, command.chunk)
        stage.next_place = min(stage.next_place, change.first_place)
        stages = stages_of(state)
        if not stage.next_chunk and stages.by_number.get(stage.number) is stage:
            stages.take(stage.number)
            _forget_unknown(stages, stage.writer)
    out.outward.append(Refused(command.port, command.requests, error))


def _forget_unknown(stages: Stages, name: str) -> None:
    """Forget a writer of which nothing became durable."""
    writer = stages.writers.get(name)
    if writer is not None and not (writer.epoch or writer.stages or writer.busy):
        del stages.writers[name]


# --- publishing -----------------------------------------------------------------------------------


def publish_stages(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Prepare the departure of a batch, or drop its stages if it was published before."""
    assert isinstance(command, PublishStages)
    stages = stages_of(state)
    writer = stages.writers.get(command.writer)
    refusal = _fence(state, writer, command.epoch, is_end=True) or _busy(writer)
    if refusal is None and writer is not None:
        if writer.has_published(command.series, command.batch):
            void = _open_stages(writer, command.epoch)
            change = _drop(state, writer, void, command.epoch)
            change.publish_port = command.port
            out.changes.append(change)
            return
        if command.epoch <= writer.closed_epoch:
            refusal = _over(writer, command.epoch)
    if refusal is None:
        refusal = _missing(state, writer, command)
    if refusal is not None:
        out.outward.append(Failed(command.port, refusal))
        return
    _publish(state, stages.writer(command.writer), command, now_ms, out)


def _missing(state: State, writer: Writer | None, command: PublishStages) -> BusError | None:
    """Why the stages are not what the writer expects; None when they are."""
    names: set[str] = set()
    for name, count in command.stages:
        stage = None if writer is None else writer.stages.get(name)
        found = -1 if stage is None or not stage.chunk_count else len(stage.table)
        if stage is None or not stage.is_at_rest or found != count or name in names:
            had = "is missing" if found < 0 else f"has {found} messages"
            return StageLost(
                f"The stage '{name}' of the writer '{command.writer}' {had}, but {count} "
                "messages were written. It expired or was dropped; write the batch again."
            )
        if stage.epoch != command.epoch:
            return StageLost(f"The stage '{name}' belongs to another batch of its writer.")
        names.add(name)
    return None


def _publish(
    state: State, writer: Writer, command: PublishStages, now_ms: int, out: Effects
) -> None:
    leaving = [writer.stages[name] for name, _ in command.stages]
    names = {name for name, _ in command.stages}
    void = [s for s in _open_stages(writer, command.epoch) if s.name not in names]
    writer.busy = True
    for stage in [*leaving, *void]:
        stage.is_closing = True
    record = published(
        state.fragment_id,
        writer.name,
        command.series,
        command.epoch,
        command.batch,
        now_ms,
        [stage.number for stage in leaving],
        [stage.number for stage in void],
    )
    out.changes.append(StagePublication([record], command, writer, leaving, void, now_ms))


def stages_published(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """The batch will be sent, whatever happens."""
    assert isinstance(change, StagePublication)
    stages, command, writer = stages_of(state), change.command, change.writer
    count = 0
    for stage in change.published:
        stages.take(stage.number)
        count += len(stage.table)
        if len(stage.table):
            stages.published.append(stage)
    _discard(state, change.dropped, out)
    writer.note(command.series, command.batch)
    writer.used_ms = change.published_ms
    close(writer, command.epoch)
    writer.busy = False
    out.outward.append(StagesPublished(command.port, count, False))
    depart_published(state, out)


def abort_publication(state: State, change: Change, error: BusError, out: Effects) -> None:
    """The store failed: the stages are as before."""
    assert isinstance(change, StagePublication)
    change.writer.busy = False
    for stage in [*change.published, *change.dropped]:
        stage.is_closing = False
    _forget_unknown(stages_of(state), change.writer.name)
    out.outward.append(Failed(change.command.port, error))


# --- ends -----------------------------------------------------------------------------------------


def drop_stages(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Prepare to drop what a writer has staged; stages that do not exist count as dropped."""
    assert isinstance(command, DropStages)
    stages = stages_of(state)
    writer = stages.writers.get(command.writer)
    epoch = command.epoch
    if epoch is None:
        if writer is None:
            error = EntityNotFound(f"'{state.spec.path}' has no writer '{command.writer}'.")
            out.outward.append(Failed(command.port, error))
            return
        epoch = max([writer.epoch, *_epochs(writer)])
    refusal = _fence(state, writer, epoch) or _busy(writer)
    if refusal is not None:
        out.outward.append(Failed(command.port, refusal))
        return
    if writer is None:
        out.outward.append(Done(command.port, 0))
        return
    chosen = _open_stages(writer, epoch)
    closed_epoch = epoch
    if command.names is not None:
        chosen = [stage for stage in chosen if stage.name in command.names]
        closed_epoch = 0
    change = _drop(state, writer, chosen, closed_epoch, command.forget)
    change.port = command.port
    out.changes.append(change)


def _open_stages(writer: Writer, epoch: int) -> list[Stage]:
    """Stages up to an epoch that are not already ending."""
    stages = writer.stages.values()
    return [stage for stage in stages if stage.epoch <= epoch and not stage.is_closing]


def _epochs(writer: Writer) -> list[int]:
    return [stage.epoch for stage in writer.stages.values()]


def _drop(
    state: State,
    writer: Writer | None,
    chosen: list[Stage],
    closed_epoch: int,
    forget: bool = False,
) -> StageDrop:
    if writer is not None:
        writer.busy = True
    for stage in chosen:
        stage.is_closing = True
    # A stage with nothing durable yet will be gone by then, or was never there.
    numbers = [stage.number for stage in chosen]
    name = "" if writer is None else writer.name
    record = dropped(state.fragment_id, name, closed_epoch, forget, numbers)
    return StageDrop([record], writer, chosen, closed_epoch, forget)


def drop_abandoned(state: State, allowance: Allowance, now_ms: int, out: Effects) -> None:
    """Drop stages that have not been touched for long, each as a whole."""
    if state.stages is None:
        return
    stages: list[Stage] = []
    for stage in state.stages.abandoned(now_ms):
        if not allowance.left:
            break
        allowance.spend(len(stage.table) + 1)
        stages.append(stage)
    if stages:
        out.changes.append(_drop(state, None, stages, 0))


def stages_dropped(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """The messages are gone for good."""
    assert isinstance(change, StageDrop)
    count = sum([len(stage.table) for stage in change.stages])
    _discard(state, change.stages, out)
    writer = change.writer
    if writer is not None:
        writer.busy = False
        close(writer, change.closed_epoch)
        if change.forget:
            stages_of(state).writers.pop(writer.name, None)
    if change.port is not None:
        out.outward.append(Done(change.port, count))
    if change.publish_port is not None:
        out.outward.append(StagesPublished(change.publish_port, 0, True))


def abort_drop(state: State, change: Change, error: BusError, out: Effects) -> None:
    """The store failed: the stages are as before."""
    assert isinstance(change, StageDrop)
    if change.writer is not None:
        change.writer.busy = False
    for stage in change.stages:
        stage.is_closing = False
    if change.port is not None:
        out.outward.append(Failed(change.port, error))
    if change.publish_port is not None:
        out.outward.append(Failed(change.publish_port, error))


def _discard(state: State, chosen: list[Stage], out: Effects) -> None:
    for stage in chosen:
        stages_of(state).take(stage.number)
        table = stage.table
        messages = [table.pop() for _ in range(len(table))]
        for held in messages:
            state.size_bytes -= held.length
        out.released.extend(messages)


def list_writers(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Which writers have staged and published what."""
    assert isinstance(command, ListWriters)
    writers = [] if state.stages is None else state.stages.summaries()
    out.outward.append(Answered(command.port.writers_listed, writers))


# --- who may --------------------------------------------------------------------------------------


def _busy(writer: Writer | None) -> BusError | None:
    return ServerBusy(_BUSY) if writer is not None and writer.busy else None


def _fence(
    state: State, writer: Writer | None, epoch: int, is_end: bool = False
) -> BusError | None:
    if state.suspended:
        return StoreUnavailable()
    if writer is None:
        return None
    latest = writer.epoch
    if is_end:
        # A later epoch whose first chunk is not durable yet may already see what was published
        # before it: nothing is published without its knowledge.
        latest = max([latest, *_epochs(writer)])
    if latest > epoch:
        return StageFenced(
            f"Another run of the writer '{writer.name}', or a later batch of it, has begun "
            f"({latest} after {epoch}); this one must stop."
        )
    return None


def _over(writer: Writer, epoch: int) -> StageFenced:
    return StageFenced(
        f"The batch of the writer '{writer.name}' that this belongs to ({epoch}) has ended: it "
        "was published or abandoned."
    )
