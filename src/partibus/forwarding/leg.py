"""One leg of a courier: from its outbox to one fragment of a destination.

Owns the order in which the parcels for that fragment are handed over: one batch at a time, by
outbox number, so that the fragment has always taken everything up to a mark. A parcel that is not
delivered there is disposed of before any later one is sent; one that may have been sent before,
only after the fragment has fenced its mark, so that there is never a second copy. Legs do not wait
for each other: a fragment that is down delays only its own parcels.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from partibus.domain.errors import BusError, ParcelSealed, QuotaExceeded, StoreCorrupt
from partibus.forwarding.outcomes import ParcelOutcome, reason_of, waits_for_room
from partibus.forwarding.parcels import Item
from partibus.fragment.commands import Enqueue
from partibus.fragment.handle import Fragment
from partibus.fragment.message import NewMessage
from partibus.fragment.outbox.commands import Fence
from partibus.fragment.outbox.marks import Origin
from partibus.fragment.outbox.state import Parcel
from partibus.gateway.namespace import Entity

if TYPE_CHECKING:
    from partibus.forwarding.courier import Courier

BATCH_MESSAGES_MAX: Final = 500
BATCH_BYTES_MAX: Final = 1024 * 1024
BACK_OFF_MS_MIN: Final = 50
BACK_OFF_MS_MAX: Final = 2000


@dataclass(eq=False, slots=True)
class Reply:
    """The port of a command: its end, or its failure, calls a function."""

    on_end: Callable[[int], None]
    on_failure: Callable[[], None]

    def done(self, count: int) -> None:
        self.on_end(count)

    def failed(self, error: BusError) -> None:
        self.on_failure()


class Leg:
    """The way to one fragment."""

    def __init__(self, courier: "Courier", fragment: Fragment, path: str) -> None:
        self.fragment = fragment
        self.path = path
        self._courier = courier
        self._items: deque[Item] = deque()
        """The next parcels, in order."""
        self._numbers: deque[int] = deque()
        """Later parcels, whose bodies are read again when needed."""
        self._is_busy = False
        self._is_pausing = False
        self._failures = 0
        self._batch: list[Item] = []
        self._batch_max = BATCH_MESSAGES_MAX
        self._sent_up_to = 0
        """Parcels up to this number may have been handed over, now or before a restart."""
        self._fenced_up_to = 0
        """Parcels up to this number will never be accepted there under their numbers."""
        self._read_max = BATCH_MESSAGES_MAX
        self._verdict: tuple[list[int], ParcelOutcome] | None = None
        self._begun_ns = 0
        """When the current batch was handed over, where messages are traced."""

    def put(self, item: Item, maybe_sent: bool) -> None:
        """Add a parcel, with a higher number than all before it."""
        if maybe_sent:
            self._sent_up_to = item.number
        if self._is_pausing or self._numbers:
            self._numbers.append(item.number)
        else:
            self._items.append(item)
            self._courier.buffered_bytes += item.size

    def is_part_of(self, entity: Entity | None) -> bool:
        """Whether this fragment still belongs to the entity of its path."""
        if entity is None or self.fragment.index >= len(entity.fragments):
            return False
        return entity.fragments[self.fragment.index].fragment_id == self.fragment.fragment_id

    # --- the next step --------------------------------------------------------------------------

    def go(self) -> None:
        """Take the next step, unless one is in progress."""
        if self._is_busy or self._is_pausing or self._courier.is_stopped:
            return
        if not self._items:
            self._read_again()
            return
        entity = self._courier.entity(self.path)
        outcome = self._outcome(self._items[0], entity)
        run = self._run(outcome, entity)
        self._is_busy = True
        if outcome is None:
            self._send(run)
        else:
            self._dispose(run, outcome)

    def _read_again(self) -> None:
        if self._numbers:
            self._is_busy = True
            count = min(len(self._numbers), self._read_max)
            self._courier.refetch(self, [self._numbers[at] for at in range(count)])
        elif not self.is_part_of(self._courier.entity(self.path)):
            self._courier.forget(self)

    def _outcome(self, item: Item, entity: Entity | None) -> ParcelOutcome | None:
        outcome = self._courier.outcome(item, self, entity)
        if outcome is None and item.number <= self._fenced_up_to:
            return ParcelOutcome(path=self.path)
        return outcome

    def _run(self, outcome: ParcelOutcome | None, entity: Entity | None) -> list[Item]:
        """The parcels at the front with the same outcome, as many as fit into one step."""
        run: list[Item] = []
        byte_count = 0
        for item in self._items:
            byte_count += item.size
            if run and (
                len(run) >= self._batch_max
                or byte_count > BATCH_BYTES_MAX
                or item.purpose is not run[0].purpose
                or self._outcome(item, entity) != outcome
            ):
                break
            run.append(item)
        return run

    def _drop(self, count: int) -> None:
        """The parcels at the front are done, as far as this leg is concerned."""
        for _ in range(count):
            self._courier.buffered_bytes -= self._items.popleft().size

    def _done(self) -> None:
        self._is_busy = False
        self._failures = 0
        self.go()
        self._courier.collect()

    def _pause(self) -> None:
        """Try again later; bodies in memory are dropped meanwhile."""
        self._is_busy = False
        self._is_pausing = True
        self._numbers.extendleft([item.number for item in reversed(self._items)])
        self._drop(len(self._items))
        delay_ms = min(BACK_OFF_MS_MIN << min(self._failures, 16), BACK_OFF_MS_MAX)
        self._failures += 1
        self._courier.later(delay_ms, self._resume)
        self._courier.collect()

    def _resume(self) -> None:
        self._is_pausing = False
        self.go()

    # --- reading again ----------------------------------------------------------------------------

    def collected(self, parcels: Sequence[Parcel], bodies: Sequence[bytes]) -> None:
        """Parcels whose bodies this leg had dropped."""
        self._is_busy = False
        entity = self._courier.entity(self.path)
        for parcel, body in zip(parcels, bodies, strict=True):
            assert self._numbers.popleft() == parcel.number
            item = self._courier.prepare(parcel, body, entity)
            self._items.append(item)
            self._courier.buffered_bytes += item.size
        self.go()

    def unreadable(self, parcels: Sequence[Parcel], error: BusError) -> None:
        """Their store does not answer; or one of them is damaged and is not delivered."""
        if not isinstance(error, StoreCorrupt):
            self._pause()
            return
        self._is_busy = False
        if len(parcels) > 1:
            self._read_max = 1
        else:
            (parcel,) = parcels
            item = Item(self._numbers.popleft(), NewMessage(b"", -1), parcel.purpose)
            item.refusal = reason_of(error)
            self._items.append(item)
        self.go()

    # --- handing over -----------------------------------------------------------------------------

    def _send(self, run: list[Item]) -> None:
        self._batch = run
        numbers = [item.number for item in run]
        self._sent_up_to = max(self._sent_up_to, numbers[-1])
        messages = [item.message for item in run]
        byte_count = sum([item.size for item in run])
        origin = Origin(self._courier.fragment.fragment_id, numbers)
        tracing = self._courier.namespace.tracing
        if tracing is not None:
            self._begun_ns = tracing.now_ns()
        self.fragment.submit(Enqueue(self, messages, [0], byte_count, origin))

    def confirmed(
        self, requests: Sequence[int], first_sequence: int, dropped: Sequence[int] = ()
    ) -> None:
        """The batch is durable there, or was before."""
        tracing = self._courier.namespace.tracing
        if tracing is not None:
            bodies = [item.message.body for item in self._batch]
            index, origin = self.fragment.index, self._courier.path
            tracing.forwarded(origin, self.path, index, bodies, self._begun_ns)
        numbers = [item.number for item in self._batch]
        self._drop(len(numbers))
        self._batch = []
        self._batch_max = min(2 * self._batch_max, BATCH_MESSAGES_MAX)
        self._courier.delivered(numbers)
        self._done()

    def refused(self, requests: Sequence[int], error: BusError) -> None:
        """The batch was not stored; if the outcome is unknown, it is sent again all the same."""
        batch, self._batch = self._batch, []
        if error.retryable or waits_for_room(batch[0].purpose, error):
            self._pause()
        elif isinstance(error, ParcelSealed):
            # An earlier incarnation had them fenced and ended before the outcome was durable. All
            # that waits here gets new numbers with them, so that the order is kept.
            self._fenced_up_to = self._numbers[-1] if self._numbers else self._items[-1].number
            self._done()
        elif len(batch) > 1:
            # One of them is at fault, or there is no room for all of them.
            self._batch_max = len(batch) // 2
            self._is_busy = False
            self.go()
        else:
            self._refuse(batch[0], error)
            self._done()

    def _refuse(self, first: Item, error: BusError) -> None:
        """The fragment refuses a parcel; when it is full, also every other that is as large."""
        first.refusal = reason = reason_of(error)
        if isinstance(error, QuotaExceeded):
            for item in self._items:
                if item.size < first.size or waits_for_room(item.purpose, error):
                    return
                item.refusal = item.refusal or reason

    # --- disposing ------------------------------------------------------------------------------

    def _dispose(self, run: list[Item], outcome: ParcelOutcome) -> None:
        """Parcels are not delivered there: make sure that none of them already is."""
        numbers = [item.number for item in run]
        self._verdict = (numbers, outcome)
        if numbers[0] <= self._sent_up_to and self.is_part_of(self._courier.entity(self.path)):
            origin_id = self._courier.fragment.fragment_id
            port = Reply(self._fenced, self._undecided)
            self.fragment.submit(Fence(port, origin_id, numbers[-1]))
        else:
            self._decide(numbers, outcome)

    def _decide(self, numbers: list[int], outcome: ParcelOutcome) -> None:
        self._courier.decide(numbers, outcome, Reply(self._decided, self._undecided))

    def _fenced(self, mark: int) -> None:
        """Everything up to the mark is there, and the rest of the run never will be."""
        assert self._verdict is not None
        numbers, outcome = self._verdict
        self._fenced_up_to = numbers[-1]
        there = [number for number in numbers if number <= mark]
        rest = numbers[len(there) :]
        if there:
            self._courier.delivered(there)
            self._drop(len(there))
        self._verdict = (rest, outcome)
        if rest:
            self._decide(rest, outcome)
        else:
            self._done()

    def _decided(self, count: int) -> None:
        """The outcome is durable."""
        assert self._verdict is not None
        self._drop(len(self._verdict[0]))
        self._verdict = None
        self._done()

    def _undecided(self) -> None:
        """A store failed: start this step again."""
        self._verdict = None
        self._pause()
