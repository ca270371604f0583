"""Messages of a replay on their way to the bus, in the executors, one after the other.

Owns the order and the pace within a task: a batch of messages is confirmed before the next one
leaves, so that messages of one key stay in line, and a message leaves when its time has come. A
message that the bus refuses for good ends the replay with its number.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from pyspark_servicebus.access import Access
from pyspark_servicebus.delivery import Letter, Target
from pyspark_servicebus.encode import BadRow, RowEncoder
from pyspark_servicebus.errors import BulkError
from pyspark_servicebus.pipelines.progress import PipelineFailed
from pyspark_servicebus.sink_plan import SinkPlan

BATCH_BYTES: Final = 1024 * 1024
NAP_S: Final = 0.005
"""Less than this is not waited for: messages that are due together travel together."""
DUE_COLUMN: Final = "_due_ms"
SENT_SCHEMA: Final = pa.schema([("rows", pa.int64()), ("duplicates", pa.int64())])
SENT_DDL: Final = "rows bigint, duplicates bigint"


@dataclass(frozen=True, slots=True)
class Pace:
    """When a message leaves: so many times as fast as it came."""

    first_ms: int
    """The enqueued time that is now at `start_ms`."""
    start_ms: int
    speed: float

    def leaves_ms(self, due_ms: int) -> float:
        """The time on the clock at which a message leaves."""
        return self.start_ms + (due_ms - self.first_ms) / self.speed


class Sender:
    """One task's way to an entity."""

    def __init__(self, path: str, access: Access, pace: Pace | None) -> None:
        self._target = Target(path, access, BATCH_BYTES, False, _refuse)
        self._pace = pace
        self._waiting_bytes = 0

    def send(self, payload: bytes, number: int, due_ms: int | None) -> None:
        """Take a message; it leaves with others, when its time has come."""
        if self._pace is not None and due_ms is not None:
            wait_s = self._pace.leaves_ms(due_ms) / 1000 - time.time()
            if wait_s > NAP_S:
                self.flush()
                time.sleep(max(self._pace.leaves_ms(due_ms) / 1000 - time.time(), 0.0))
        self._target.add(Letter(payload, number))
        self._waiting_bytes += len(payload)
        if self._waiting_bytes >= BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """All that waits, confirmed."""
        self._target.flush()
        self._waiting_bytes = 0

    def told(self) -> dict[str, int]:
        target = self._target
        return {"rows": target.accepted, "duplicates": target.duplicates}


def batch_sender(
    path: str, access: Access, plan: SinkPlan, pace: Pace | None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow`: messages in, counts out."""

    def send(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sender = Sender(path, access, pace)
        encoder = RowEncoder(plan)
        for batch in batches:
            numbers: list[Any] = batch.column("sequence_number").to_pylist()
            dues = batch.column(DUE_COLUMN).to_pylist() if pace is not None else None
            for row, (_, message) in enumerate(encoder.rows(batch)):
                if isinstance(message, BadRow):
                    raise _refusal(numbers[row], str(message))
                sender.send(message, numbers[row], dues[row] if dues is not None else None)
        sender.flush()
        yield pa.RecordBatch.from_pylist([sender.told()], schema=SENT_SCHEMA)

    return send


def _refuse(letter: Letter, condition: str, text: str) -> None:
    if condition == "amqp:not-found":
        raise BulkError(condition, text, False)
    raise _refusal(letter.origin, f"{text} ({condition})")


def _refusal(number: object, text: str) -> PipelineFailed:
    return PipelineFailed(
        f"The message with the sequence number {number} is refused: {text} Leave it out with the "
        f"filter sequence_number <> {number}, and run the same command again: it goes on."
    )
