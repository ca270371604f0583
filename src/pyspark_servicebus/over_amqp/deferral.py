"""Messages deferred for a query, and deleted when its batch is done.

Owns the steps over AMQP of `mode=deferclaim`: receive with locks, record, defer with a property
that names the claim, and delete by number. Each may be repeated after a crash or a broken
connection: the records say which messages were intended, the property which of them were deferred
by us.
"""

import itertools
from collections.abc import Iterable, Sequence
from uuid import UUID

from partibus.amqp.delivery import modified
from partibus.client.message_columns import MessageColumns
from partibus.domain import conditions
from pyspark_servicebus.errors import Backoff, BulkError
from pyspark_servicebus.over_amqp.browse import Page, walk_set
from pyspark_servicebus.over_amqp.by_number import look_by_number
from pyspark_servicebus.over_amqp.holding import CLAIM_PROPERTY, DEFERRED, Holding
from pyspark_servicebus.over_amqp.portions import portions
from pyspark_servicebus.over_amqp.receiving import Received
from pyspark_servicebus.over_amqp.wire import Wire


class Deferral:
    """The deferred messages of one owner in one entity."""

    def __init__(self, wire: Wire, path: str, owner: str) -> None:
        self._wire = wire
        self._path = path
        self._owner = owner

    # --- holding --------------------------------------------------------------------------

    def defer(self, received: Sequence[Received], claim: str) -> list[Holding]:
        """Defer messages that were just received and recorded; returns those that are held."""
        properties: dict[str, object] = {CLAIM_PROPERTY: f"{self._owner}/{claim}"}
        outcome = modified(False, True, properties)

        async def settle(wire: Wire) -> None:
            receiver = await wire.receiver(self._path)
            await receiver.settle([one.delivery for one in received], outcome)

        held = [one.holding for one in received]
        try:
            self._wire.call(settle)
        except BulkError:
            # Some are deferred, but which is unknown; the locks are valid on any connection.
            return self.secure(held, claim)
        return held

    def secure(self, meant: Sequence[Holding], claim: str) -> list[Holding]:
        """The messages that are deferred, after deferring the others as far as possible.

        For what an earlier run has recorded, or a broken connection left undecided.
        """
        ours = self._ours(meant)
        missing = [one for one in meant if one.number not in ours and one.token]
        if missing:
            for some in portions(missing):
                self._defer_by_token(some, claim)
            ours |= self._ours(missing)
        return [one for one in meant if one.number in ours]

    def _defer_by_token(self, some: Sequence[Holding], claim: str) -> None:
        properties: dict[str, object] = {CLAIM_PROPERTY: f"{self._owner}/{claim}"}
        tokens = [UUID(one.token) for one in some]

        async def settle(wire: Wire) -> None:
            node = await wire.management(self._path)
            await node.settle(tokens, "defered", properties=properties)

        try:
            self._wire.ask(settle)
        except BulkError as error:
            if error.condition != conditions.MICROSOFT_MESSAGE_LOCK_LOST:
                raise
            # Those whose locks have ended are back in the queue; each must be tried separately.
            for one in some if len(some) > 1 else ():
                self._defer_by_token([one], claim)

    def _ours(self, meant: Iterable[Holding]) -> set[int]:
        """Which of these are deferred by this owner."""
        missing = {one.number for one in meant}
        ours: set[int] = set()
        for page in walk_set(self._wire, self._path, sorted(missing)):
            missing.difference_update(number for number, _ in page)
            ours |= self._claimed(page, DEFERRED)
        # A message that is not returned may still exist.
        return ours | self._claimed(look_by_number(self._wire, self._path, sorted(missing)), None)

    def _claimed(self, page: Page, wanted: str | None) -> set[int]:
        """Those with our claim and in a certain state; a locked message shows no state."""
        columns = MessageColumns(frozenset(("state", "application_properties")))
        for _, message in page:
            columns.add(message)
        ends = itertools.pairwise(columns.property_ends)
        rows = zip(page, columns.lists["state"], ends, strict=True)
        return {
            number
            for (number, _), state, (first, last) in rows
            if wanted in (None, state)
            and _property(columns, first, last).rpartition("/")[0] == self._owner
        }

    # --- the end --------------------------------------------------------------------------

    def delete(self, held: Sequence[Holding]) -> list[int]:
        """Delete deferred messages; missing ones count as deleted. Returns what is left."""
        stayed: list[int] = []
        for some in portions(held):
            if self._delete([one.number for one in some]):
                continue
            # The bus deletes all of a request or none: some were deleted by an earlier attempt.
            there = self._ours(some)
            stayed += [n for n in sorted(there) if not self._delete_one(n)]
        return stayed

    def _delete(self, numbers: Sequence[int]) -> bool:
        async def delete(wire: Wire) -> bool:
            return await (await wire.management(self._path)).delete_deferred(numbers)

        return self._wire.ask(delete)

    def _delete_one(self, number: int) -> bool:
        """A locked one is waited for."""
        backoff = Backoff(self._wire.access.retry_s)
        while not self._delete([number]):
            if not self._ours([Holding(number, 0)]):
                return True
            if not backoff.wait():
                return False
        return True


def _property(columns: MessageColumns, first: int, last: int) -> str:
    """The claim that a message belongs to, from its properties."""
    for place in range(first, last):
        if columns.property_names[place] == CLAIM_PROPERTY:
            return columns.property_texts[place] or ""
    return ""
