"""Sending the messages of one task to the bus.

Owns batches by target, answers row by row, and the retries: a row is accepted when the bus reports
that it is durable, a bad row when it is permanently refused, and anything else is retried until the
time is up. A row without an outcome fails the task; nothing is ever dropped silently.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from partibus.client.message_columns import MessageColumns
from partibus.domain import conditions
from partibus.domain.errors import ArgumentError
from partibus.domain.partition_key import fragment_index
from pyspark_servicebus.access import Access
from pyspark_servicebus.bus import Entity, discover
from pyspark_servicebus.errors import Backoff, BulkError
from pyspark_servicebus.source.tasks import flight_of

BAD_ROW_CONDITIONS: Final = frozenset(
    (
        conditions.LINK_MESSAGE_SIZE_EXCEEDED,
        conditions.DECODE_ERROR,
        conditions.NOT_ALLOWED,
        ArgumentError.condition,
    )
)
"""Refusals that are the row's own fault; it would be refused again."""
BATCHES_PER_CALL: Final = 8


@dataclass(frozen=True, slots=True)
class RowMessage:
    """One message and the row it was made of."""

    payload: bytes
    origin: object


Refuse = Callable[[RowMessage, str, str], None]
"""What to do with a message that is permanently refused: condition and text say why."""


@dataclass(eq=False)
class Target:
    """One entity that a task writes to."""

    path: str
    access: Access
    batch_bytes: int
    needs_ids: bool
    refuse: Refuse

    def __post_init__(self) -> None:
        self._backoff = Backoff(self.access.retry_s)
        self._entity: Entity | None = None
        self._messages: list[RowMessage] = []
        self._byte_count = 0
        self.accepted = 0
        self.duplicates = 0
        self.refused = 0

    def add(self, message: RowMessage) -> None:
        """Add a message; many are sent at once."""
        self._messages.append(message)
        self._byte_count += len(message.payload)
        if self._byte_count >= self.batch_bytes * BATCHES_PER_CALL:
            self.flush()

    def flush(self) -> None:
        """Send what waits, and return when all of it has an outcome."""
        messages, self._messages, self._byte_count = self._messages, [], 0
        self._backoff.reset()
        while messages:
            try:
                entity = self._found()
                messages = [message for message in messages if self._fits(message, entity)]
                self._send(entity, messages)
                messages = []
            except Broken as broken:
                messages = broken.messages
                self._entity = None
                self._backoff.wait_or_raise(broken.error)
            except BulkError as error:
                if error.condition == conditions.NOT_FOUND:
                    # A missing entity that a row names is the row's fault.
                    for message in messages:
                        self._refuse_one(message, error.condition, error.text)
                    messages = []
                else:
                    self._backoff.wait_or_raise(error)

    def _found(self) -> Entity:
        if self._entity is None:
            self._entity = discover(self.access, self.path)
            if self.needs_ids and not self._entity.detects_duplicates:
                raise no_detection(self._entity.path)
        return self._entity

    def _fits(self, message: RowMessage, entity: Entity) -> bool:
        if len(message.payload) <= entity.message_bytes_max:
            return True
        self._refuse_one(message, *too_large(message, entity))
        return False

    def _send(self, entity: Entity, messages: list[RowMessage]) -> None:
        """Put all of them; Broken has those to retry after a pause."""
        again: list[RowMessage] = []
        error: BulkError | None = None
        owners = by_owner(entity, messages)
        # Not for a server with one process, which may be older than this.
        fields = {"keyless_here": True} if len(owners) > 1 else {}
        for location, mine in owners.items():
            try:
                self._put(entity, location, mine, fields)
            except Broken as broken:
                again += broken.messages
                error = broken.error
        if error is not None:
            raise Broken(again, error)

    def _put(
        self, entity: Entity, location: str, messages: list[RowMessage], fields: dict[str, bool]
    ) -> None:
        """Put messages at one place; Broken has those to retry after a pause."""
        flight = flight_of(entity.path, self.access)
        batches = list(self._batches(messages))
        again: list[RowMessage] = []
        error: BulkError | None = None
        done = 0
        try:
            payloads = ([message.payload for message in batch] for batch in batches)
            for answer in flight.put(location, payloads, **fields):
                batch = batches[done]
                done += 1
                self.accepted += answer["accepted"]
                self.duplicates += answer["duplicates"]
                if answer["accepted"]:
                    self._backoff.reset()
                for row, condition, text, retryable in answer["refused"]:
                    if retryable:
                        again.append(batch[row])
                        error = BulkError(condition, text, True)
                    else:
                        self._refuse_one(batch[row], condition, text)
        except BulkError as broken:
            unanswered = [message for batch in batches[done:] for message in batch]
            raise Broken(again + unanswered, broken) from None
        if error is not None:
            raise Broken(again, error)

    def _batches(self, messages: list[RowMessage]) -> Iterator[list[RowMessage]]:
        batch: list[RowMessage] = []
        byte_count = 0
        for message in messages:
            batch.append(message)
            byte_count += len(message.payload)
            if byte_count >= self.batch_bytes:
                yield batch
                batch, byte_count = [], 0
        if batch:
            yield batch

    def _refuse_one(self, message: RowMessage, condition: str, text: str) -> None:
        self.refused += 1
        refuse_for_good(self.refuse, message, condition, text)


def by_owner(entity: Entity, messages: list[RowMessage]) -> dict[str, list[RowMessage]]:
    """Messages by where the fragment of each is served, the order of each key kept.

    A place passes on what belongs elsewhere, so a message always arrives correctly; it only takes
    longer. Messages without a key are spread evenly over the fragments.
    """
    locations = entity.locations
    places = [place for place in locations.values() if place is not None]
    if not places:
        raise BulkError(
            conditions.PARTIBUS_UNREACHABLE, f"No worker of '{entity.path}' answers.", True
        )
    if len(set(places)) == 1:
        return {places[0]: messages}
    found: dict[str, list[RowMessage]] = {}
    turn = random.randrange(len(places))  # noqa: S311
    for message, key in zip(messages, _keys(entity, messages), strict=True):
        place = None
        if key is not None:
            place = locations.get(fragment_index(key, len(locations)))
        if place is None:
            turn += 1
            place = places[turn % len(places)]
        found.setdefault(place, []).append(message)
    return found


def _keys(entity: Entity, messages: list[RowMessage]) -> list[str | None]:
    """The key that selects the fragment of each message; None if it has none."""
    names = ["session_id", "partition_key"]
    if entity.detects_duplicates:
        names.append("message_id")
    columns = MessageColumns(frozenset(names))
    for message in messages:
        columns.add(message.payload)
    rows = zip(*(columns.lists[name] for name in names), strict=True)
    return [next((value for value in row if isinstance(value, str)), None) for row in rows]


class Broken(Exception):
    """These messages have no answer yet, since a call was interrupted, or a temporary refusal."""

    def __init__(self, messages: list[RowMessage], error: BulkError) -> None:
        super().__init__(str(error))
        self.messages = messages
        self.error = error


def refuse_for_good(refuse: Refuse, message: RowMessage, condition: str, text: str) -> None:
    """Pass on a message that is a bad row; any other refusal raises its error."""
    if condition not in BAD_ROW_CONDITIONS and condition != conditions.NOT_FOUND:
        raise BulkError(condition, text, False)
    refuse(message, condition, text)


def too_large(message: RowMessage, entity: Entity) -> tuple[str, str]:
    """Condition and text for a message that an entity does not accept."""
    text = (
        f"The message has {len(message.payload)} bytes; '{entity.path}' accepts "
        f"{entity.message_bytes_max}."
    )
    return conditions.LINK_MESSAGE_SIZE_EXCEEDED, text


def no_detection(path: str) -> BulkError:
    """The error for deliver=dedup where nothing detects duplicates."""
    return BulkError(
        conditions.NOT_ALLOWED,
        f"deliver=dedup: '{path}' does not detect duplicates. Make it with "
        "requires_duplicate_detection, or write deliver=atLeastOnce.",
        False,
    )
