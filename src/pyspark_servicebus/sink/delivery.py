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
from partibus.domain.errors import ArgumentError
from partibus.domain.partition_key import fragment_index
from pyspark_servicebus.access import Access
from pyspark_servicebus.bus import Entity, discover
from pyspark_servicebus.errors import NOT_FOUND, UNREACHABLE, BulkError, Patience
from pyspark_servicebus.source.tasks import flight_of

BAD_ROW_CONDITIONS: Final = frozenset(
    (
        "amqp:link:message-size-exceeded",
        "amqp:decode-error",
        "amqp:not-allowed",
        ArgumentError.condition,
    )
)
"""Refusals that are the row's own fault; it would be refused again."""
BATCHES_PER_CALL: Final = 8


@dataclass(frozen=True, slots=True)
class Letter:
    """One message and the row it was made of."""

    payload: bytes
    origin: object


Refuse = Callable[[Letter, str, str], None]
"""What to do with a letter that is permanently refused: condition and text say why."""


@dataclass(eq=False)
class Target:
    """One entity that a task writes to."""

    path: str
    access: Access
    batch_bytes: int
    needs_ids: bool
    refuse: Refuse

    def __post_init__(self) -> None:
        self._patience = Patience(self.access.patience_s)
        self._entity: Entity | None = None
        self._letters: list[Letter] = []
        self._byte_count = 0
        self.accepted = 0
        self.duplicates = 0
        self.refused = 0

    def add(self, letter: Letter) -> None:
        """Add a message; many are sent at once."""
        self._letters.append(letter)
        self._byte_count += len(letter.payload)
        if self._byte_count >= self.batch_bytes * BATCHES_PER_CALL:
            self.flush()

    def flush(self) -> None:
        """Send what waits, and return when all of it has an outcome."""
        letters, self._letters, self._byte_count = self._letters, [], 0
        self._patience.renew()
        while letters:
            try:
                entity = self._found()
                letters = [letter for letter in letters if self._fits(letter, entity)]
                self._send(entity, letters)
                letters = []
            except Broken as broken:
                letters = broken.letters
                self._entity = None
                self._patience.bear(broken.error)
            except BulkError as error:
                if error.condition == NOT_FOUND:
                    # A missing entity that a row names is the row's fault.
                    for letter in letters:
                        self._refuse_one(letter, error.condition, error.text)
                    letters = []
                else:
                    self._patience.bear(error)

    def _found(self) -> Entity:
        if self._entity is None:
            self._entity = discover(self.access, self.path)
            if self.needs_ids and not self._entity.detects_duplicates:
                raise no_detection(self._entity.path)
        return self._entity

    def _fits(self, letter: Letter, entity: Entity) -> bool:
        if len(letter.payload) <= entity.message_bytes_max:
            return True
        self._refuse_one(letter, *too_large(letter, entity))
        return False

    def _send(self, entity: Entity, letters: list[Letter]) -> None:
        """Put all of them; Broken has those to retry after a pause."""
        again: list[Letter] = []
        error: BulkError | None = None
        owners = by_owner(entity, letters)
        # Not for a server with one process, which may be older than this.
        fields = {"keyless_here": True} if len(owners) > 1 else {}
        for location, mine in owners.items():
            try:
                self._put(entity, location, mine, fields)
            except Broken as broken:
                again += broken.letters
                error = broken.error
        if error is not None:
            raise Broken(again, error)

    def _put(
        self, entity: Entity, location: str, letters: list[Letter], fields: dict[str, bool]
    ) -> None:
        """Put letters at one place; Broken has those to retry after a pause."""
        flight = flight_of(entity.path, self.access)
        batches = list(self._batches(letters))
        again: list[Letter] = []
        error: BulkError | None = None
        done = 0
        try:
            payloads = ([letter.payload for letter in batch] for batch in batches)
            for answer in flight.put(location, payloads, **fields):
                batch = batches[done]
                done += 1
                self.accepted += answer["accepted"]
                self.duplicates += answer["duplicates"]
                if answer["accepted"]:
                    self._patience.renew()
                for row, condition, text, retryable in answer["refused"]:
                    if retryable:
                        again.append(batch[row])
                        error = BulkError(condition, text, True)
                    else:
                        self._refuse_one(batch[row], condition, text)
        except BulkError as broken:
            unanswered = [letter for batch in batches[done:] for letter in batch]
            raise Broken(again + unanswered, broken) from None
        if error is not None:
            raise Broken(again, error)

    def _batches(self, letters: list[Letter]) -> Iterator[list[Letter]]:
        batch: list[Letter] = []
        byte_count = 0
        for letter in letters:
            batch.append(letter)
            byte_count += len(letter.payload)
            if byte_count >= self.batch_bytes:
                yield batch
                batch, byte_count = [], 0
        if batch:
            yield batch

    def _refuse_one(self, letter: Letter, condition: str, text: str) -> None:
        self.refused += 1
        refuse_for_good(self.refuse, letter, condition, text)


def by_owner(entity: Entity, letters: list[Letter]) -> dict[str, list[Letter]]:
    """Letters by where the fragment of each is served, the order of each key kept.

    A place passes on what belongs elsewhere, so a letter always arrives correctly; it only takes
    longer. Letters without a key are spread evenly over the fragments.
    """
    locations = entity.locations
    places = [place for place in locations.values() if place is not None]
    if not places:
        raise BulkError(UNREACHABLE, f"No worker of '{entity.path}' answers.", True)
    if len(set(places)) == 1:
        return {places[0]: letters}
    found: dict[str, list[Letter]] = {}
    turn = random.randrange(len(places))  # noqa: S311
    for letter, key in zip(letters, _keys(entity, letters), strict=True):
        place = None
        if key is not None:
            place = locations.get(fragment_index(key, len(locations)))
        if place is None:
            turn += 1
            place = places[turn % len(places)]
        found.setdefault(place, []).append(letter)
    return found


def _keys(entity: Entity, letters: list[Letter]) -> list[str | None]:
    """The key that selects the fragment of each letter; None if it has none."""
    names = ["session_id", "partition_key"]
    if entity.detects_duplicates:
        names.append("message_id")
    columns = MessageColumns(frozenset(names))
    for letter in letters:
        columns.add(letter.payload)
    rows = zip(*(columns.lists[name] for name in names), strict=True)
    return [next((value for value in row if isinstance(value, str)), None) for row in rows]


class Broken(Exception):
    """These letters have no answer yet, since a call was interrupted, or a temporary refusal."""

    def __init__(self, letters: list[Letter], error: BulkError) -> None:
        super().__init__(str(error))
        self.letters = letters
        self.error = error


def refuse_for_good(refuse: Refuse, letter: Letter, condition: str, text: str) -> None:
    """Pass on a letter that is a bad row; any other refusal raises its error."""
    if condition not in BAD_ROW_CONDITIONS and condition != NOT_FOUND:
        raise BulkError(condition, text, False)
    refuse(letter, condition, text)


def too_large(letter: Letter, entity: Entity) -> tuple[str, str]:
    """Condition and text for a message that an entity does not accept."""
    text = (
        f"The message has {len(letter.payload)} bytes; '{entity.path}' accepts "
        f"{entity.message_bytes_max}."
    )
    return "amqp:link:message-size-exceeded", text


def no_detection(path: str) -> BulkError:
    """The error for deliver=dedup where nothing detects duplicates."""
    return BulkError(
        "amqp:not-allowed",
        f"deliver=dedup: '{path}' does not detect duplicates. Make it with "
        "requires_duplicate_detection, or write deliver=atLeastOnce.",
        False,
    )
