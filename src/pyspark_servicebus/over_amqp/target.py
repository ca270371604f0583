"""Sending the messages of one task to any Service Bus, over AMQP.

Owns what differs from the bulk path: rows travel in the vendor's batches, those of one session or
key together, a few batches unconfirmed at a time. A batch that is refused for a row is sent again
row by row to find it. Where duplicates of rows must be detected (deliver=dedup), rows without a key
are sent one by one: a partitioned entity finds the fragment by the id of a message, not of a batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from partibus.amqp.errors import AmqpError
from partibus.client.links import Outcomes
from partibus.client.message import BATCH_FORMAT, OutgoingMessage, encode_batch
from partibus.client.message_columns import MessageColumns
from partibus.domain import conditions
from pyspark_servicebus.access import Access
from pyspark_servicebus.bus import Entity
from pyspark_servicebus.errors import BulkError
from pyspark_servicebus.over_amqp.wire import RETRYABLE, Wire, bus_error, wire_of
from pyspark_servicebus.sink.delivery import Broken, RowMessage, Target

WINDOW: Final = 16
"""Batches that are sent and not yet confirmed."""
SINGLES_WINDOW: Final = 200
BATCH_MESSAGES_MAX: Final = 4500
"""The cloud's own limit."""
ENVELOPE_BYTES: Final = 1024
"""Space for the properties of a batch: a session or a key of up to 128 characters."""
SECTION_BYTES: Final = 8
NO_LIMIT: Final = 1 << 40

Key = tuple[str | None, str | None]
"""The session and the partition key of a message."""


def describe(access: Access, path: str) -> Entity:
    """What a link reports about its entity; duplicate detection is not part of it."""

    async def attach(wire: Wire) -> int:
        return (await wire.sender(path)).usable().remote_max_message_size

    bytes_max = wire_of(access).call(attach) or NO_LIMIT
    return Entity(path, 0, "", False, True, bytes_max, {})


@dataclass(eq=False, slots=True)
class Batch:
    """Messages that are sent in one transfer."""

    key: Key
    messages: list[RowMessage] = field(init=False, default_factory=list)
    byte_count: int = field(init=False, default=0)

    def has_room(self, message: RowMessage, bytes_max: int) -> bool:
        size = self.byte_count + len(message.payload) + SECTION_BYTES
        return size <= bytes_max and len(self.messages) < BATCH_MESSAGES_MAX

    def add(self, message: RowMessage) -> None:
        self.messages.append(message)
        self.byte_count += len(message.payload) + SECTION_BYTES

    def encode(self) -> tuple[bytes, int]:
        """The payload and its message format."""
        if len(self.messages) == 1:
            return self.messages[0].payload, 0
        session_id, partition_key = self.key
        hints = OutgoingMessage(session_id=session_id, partition_key=partition_key)
        return encode_batch(hints, [message.payload for message in self.messages]), BATCH_FORMAT


class AmqpTarget(Target):
    """One entity that a task writes to, over AMQP."""

    def _found(self) -> Entity:
        if self._entity is None:
            self._entity = describe(self.access, self.path)
        return self._entity

    def _send(self, entity: Entity, messages: list[RowMessage]) -> None:
        """Send all of them; Broken has those to retry after a pause."""
        batches = self._grouped(entity, messages)
        again: list[RowMessage] = []
        error: BulkError | None = None
        while batches:
            outcomes, fault = self._offer(batches)
            refused: list[RowMessage] = []
            for place, batch in enumerate(batches):
                outcome = outcomes.get(place, _UNKNOWN)
                if outcome is None:
                    self.accepted += len(batch.messages)
                    self._backoff.reset()
                elif outcome is _UNKNOWN or outcome.condition in RETRYABLE:
                    again += batch.messages
                    error = fault or bus_error(outcome)
                elif len(batch.messages) > 1:
                    refused += batch.messages
                else:
                    reported = bus_error(outcome)
                    self._refuse_one(batch.messages[0], reported.condition, reported.text)
            batches = [_single(message) for message in refused]
        if error is not None:
            raise Broken(again, error)

    def _offer(self, batches: Sequence[Batch]) -> tuple[Outcomes, BulkError | None]:
        """The outcome of each batch; those without one got the error."""
        outcomes: Outcomes = {}
        window = WINDOW if any(len(batch.messages) > 1 for batch in batches) else SINGLES_WINDOW

        async def offer(wire: Wire) -> None:
            sender = await wire.sender(self.path)
            await sender.offer((batch.encode() for batch in batches), outcomes, window=window)

        try:
            wire_of(self.access).call(offer)
        except BulkError as error:
            if not error.retryable:
                raise
            return outcomes, error
        return outcomes, None

    def _grouped(self, entity: Entity, messages: list[RowMessage]) -> list[Batch]:
        """Messages grouped by key, keeping the order within each."""
        bytes_max = min(self.batch_bytes, entity.message_bytes_max) - ENVELOPE_BYTES
        columns = MessageColumns(frozenset(("session_id", "partition_key")))
        for message in messages:
            columns.add(message.payload)
        done: list[Batch] = []
        filling: dict[Key, Batch] = {}
        sessions, keys = columns.lists["session_id"], columns.lists["partition_key"]
        for message, session_id, partition_key in zip(messages, sessions, keys, strict=True):
            key = (_text(session_id), _text(partition_key))
            if self.needs_ids and key == (None, None):
                done.append(_single(message))
                continue
            batch = filling.get(key)
            if batch is None or not batch.has_room(message, bytes_max):
                batch = filling[key] = Batch(key)
                done.append(batch)
            batch.add(message)
        return done


_UNKNOWN: Final = AmqpError(conditions.PARTIBUS_UNREACHABLE, "The bus gave no answer.")


def _single(message: RowMessage) -> Batch:
    batch = Batch((None, None))
    batch.add(message)
    return batch


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
