"""Sending the messages of a replay, in the executors, one after the other.

Owns the order and the pace within a task: a group of messages is confirmed before the next one is
sent, so that messages of one key stay in order, and a message is sent when its time has come. A
message that the bus refuses permanently ends the replay with its number. `once` makes each arrive
once.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from partibus.domain import conditions
from partibus.domain.sequence import fragment_of
from pyspark_servicebus.access import Access
from pyspark_servicebus.errors import BulkError
from pyspark_servicebus.pipelines.replay.once import FragmentWriter, ReplayRun
from pyspark_servicebus.pipelines.run.progress import PipelineFailed
from pyspark_servicebus.schema import arrow_of
from pyspark_servicebus.sink.delivery import RowMessage, Target
from pyspark_servicebus.sink.encode import BadRow, RowEncoder
from pyspark_servicebus.sink.plan import SinkPlan

BATCH_BYTES: Final = 1024 * 1024
GROUP_BYTES: Final = 8 * BATCH_BYTES
"""What is published at once, at full pace."""
NAP_S: Final = 0.005
"""Shorter waits are skipped: messages that are due together are sent together."""
DUE_COLUMN: Final = "_due_ms"
SENT_DDL: Final = "rows bigint, duplicates bigint"
SENT_SCHEMA: Final = arrow_of(SENT_DDL)


@dataclass(frozen=True, slots=True)
class Pace:
    """When a message is sent: a multiple of the original pace."""

    first_ms: int
    """The enqueued time that corresponds to `start_ms`."""
    start_ms: int
    speed: float

    def leaves_ms(self, due_ms: int) -> float:
        """The time at which a message is sent."""
        return self.start_ms + (due_ms - self.first_ms) / self.speed


class ExactlyOnceSender:
    """Messages are sent in groups that are published once, whatever is retried."""

    def __init__(self, path: str, access: Access, pace: Pace | None, run: ReplayRun) -> None:
        self._path, self._access, self._pace, self._run = path, access, pace, run
        self._writers: dict[int, FragmentWriter] = {}
        self._waiting_bytes = 0

    def send(self, payload: bytes, number: int, due_ms: int | None) -> None:
        """Add a message; it is sent with others, when its time has come."""
        writer = self._writer(fragment_of(number))
        if writer.has(number):
            return
        if number != writer.last:
            wait_s = _wait_s(self._pace, due_ms)
            if wait_s > NAP_S or self._waiting_bytes >= GROUP_BYTES:
                self.flush()
            _sleep_until_due(self._pace, due_ms)
        writer.add(RowMessage(payload, number), number)
        self._waiting_bytes += len(payload)

    def _writer(self, fragment: int) -> FragmentWriter:
        writer = self._writers.get(fragment)
        if writer is None:
            home = self._run.home(self._path, fragment, self._access)
            writer = self._writers[fragment] = FragmentWriter(home, self._run.series, _refuse)
        return writer

    def flush(self) -> None:
        """Send everything that waits, and wait for the confirmation."""
        for writer in self._writers.values():
            writer.publish()
        self._waiting_bytes = 0

    def reported(self) -> dict[str, int]:
        """How many messages the bus has, and how many of them it had before."""
        rows = sum(writer.rows for writer in self._writers.values())
        return {"rows": rows, "duplicates": 0}


class DirectSender:
    """Messages are sent as by any sender; retries may duplicate them."""

    def __init__(self, path: str, access: Access, pace: Pace | None) -> None:
        self._target = Target(path, access, BATCH_BYTES, False, _refuse)
        self._pace = pace
        self._waiting_bytes = 0

    def send(self, payload: bytes, number: int, due_ms: int | None) -> None:
        if _wait_s(self._pace, due_ms) > NAP_S:
            self.flush()
            _sleep_until_due(self._pace, due_ms)
        self._target.add(RowMessage(payload, number))
        self._waiting_bytes += len(payload)
        if self._waiting_bytes >= BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        self._target.flush()
        self._waiting_bytes = 0

    def reported(self) -> dict[str, int]:
        target = self._target
        return {"rows": target.accepted, "duplicates": target.duplicates}


def _wait_s(pace: Pace | None, due_ms: int | None) -> float:
    """How long a message still has to wait; negative when it is late."""
    if pace is None or due_ms is None:
        return 0.0
    return pace.leaves_ms(due_ms) / 1000 - time.time()


def _sleep_until_due(pace: Pace | None, due_ms: int | None) -> None:
    wait_s = _wait_s(pace, due_ms)
    if wait_s > NAP_S:
        time.sleep(wait_s)


def batch_sender(
    path: str, access: Access, plan: SinkPlan, pace: Pace | None, run: ReplayRun | None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow`: messages in, counts out. With a run each is sent once."""

    def send(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sender: DirectSender | ExactlyOnceSender = DirectSender(path, access, pace)
        if run is not None:
            sender = ExactlyOnceSender(path, access, pace, run)
        encoder = RowEncoder(plan)
        for batch in batches:
            numbers: list[Any] = batch.column("sequence_number").to_pylist()
            dues = batch.column(DUE_COLUMN).to_pylist() if pace is not None else None
            for row, (_, message) in enumerate(encoder.rows(batch)):
                if isinstance(message, BadRow):
                    raise _refusal(numbers[row], str(message))
                sender.send(message, numbers[row], dues[row] if dues is not None else None)
        sender.flush()
        yield pa.RecordBatch.from_pylist([sender.reported()], schema=SENT_SCHEMA)

    return send


def _refuse(message: RowMessage, condition: str, text: str) -> None:
    if condition == conditions.NOT_FOUND:
        raise BulkError(condition, text, False)
    raise _refusal(message.origin, f"{text} ({condition})")


def _refusal(number: object, text: str) -> PipelineFailed:
    return PipelineFailed(
        f"The message with the sequence number {number} was refused: {text} Leave it out with the "
        f"filter sequence_number <> {number}, and run the same command again: it continues."
    )
