"""What may have become of every message, as far as its clients can know.

Before an operation the places where the message may be afterwards are noted, after its answer
the place where it is. What a restarted server shows is held against this. Sequence numbers
and delivery counts are kept the same way.
"""

import enum
import itertools

from azure.servicebus import ServiceBusReceivedMessage


class Place(enum.Enum):
    """Where a message can be."""

    ABSENT = enum.auto()
    ACTIVE = enum.auto()
    SCHEDULED = enum.auto()
    DEFERRED = enum.auto()
    DEAD = enum.auto()


class Ledger:
    """The knowledge of all clients of one queue."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self.places: dict[str, set[Place]] = {}
        self.number_of: dict[str, int] = {}
        self._name_of: dict[int, str] = {}
        self._scheduled_numbers: dict[str, int] = {}
        self._ends_asked: dict[str, int] = {}
        self._ends_answered: dict[str, int] = {}
        self.deferred: list[str] = []
        """Known to be deferred and in nobody's hands."""
        self.cancellable: list[tuple[str, int]] = []
        """Known to be scheduled for a time that never comes, with their numbers."""
        self.never_due: set[str] = set()
        """Scheduled, if at all, for a time that never comes."""

    # --- what clients do --------------------------------------------------------------------

    def new_name(self) -> str:
        return f"m{next(self._numbers)}"

    def may_become(self, name: str, *places: Place) -> None:
        """An operation begins: until it is answered, any of these."""
        self.places[name] = set(places)

    def has_become(self, name: str, *places: Place) -> None:
        """An operation was answered."""
        self.places[name] = set(places)

    def ends_delivery(self, name: str) -> None:
        self._ends_asked[name] = self._ends_asked.get(name, 0) + 1

    def ended_delivery(self, name: str) -> None:
        self._ends_answered[name] = self._ends_answered.get(name, 0) + 1

    def scheduled(self, name: str, number: int) -> None:
        """The number that a message has while it is scheduled."""
        self._own(name, number)
        self._scheduled_numbers[name] = number

    def received(self, message: ServiceBusReceivedMessage) -> None:
        """A client got the message under a lock."""
        name = str(message.message_id)
        assert Place.ACTIVE in self.places[name], f"{name} came but is {self.places[name]}"
        self.places[name] = {Place.ACTIVE}
        self._check(message, Place.ACTIVE)

    # --- what the server shows ----------------------------------------------------------------

    def shown(self, message: ServiceBusReceivedMessage, place: Place) -> None:
        """After a restart a message is at this place; from now on that is certain."""
        name = str(message.message_id)
        assert place in self.places[name], f"{name} is {place}, not one of {self.places[name]}"
        self._check(message, place)

    def settle(self, found: dict[str, Place]) -> None:
        """All was shown: what was not must be possibly absent; nothing is in doubt any more."""
        for name, places in self.places.items():
            assert name in found or Place.ABSENT in places, f"{name} is lost; it was {places}"
            place = found.get(name, Place.ABSENT)
            is_due_soon = place is Place.SCHEDULED and name not in self.never_due
            self.places[name] = {place, Place.ACTIVE} if is_due_soon else {place}
        self.deferred = [name for name, place in found.items() if place is Place.DEFERRED]
        self.cancellable = [
            (name, self._scheduled_numbers[name])
            for name, place in found.items()
            if place is Place.SCHEDULED and name in self.never_due
        ]

    def _check(self, message: ServiceBusReceivedMessage, place: Place) -> None:
        name = str(message.message_id)
        assert str(message) == f"body of {name}"
        number = message.sequence_number
        assert number is not None
        self._own(name, number)
        # Only becoming active gives a scheduled message a new number (SEQ-8).
        numbers = self._scheduled_numbers if place is Place.SCHEDULED else self.number_of
        known = numbers.setdefault(name, number)
        assert known == number, f"{name} had the number {known} and has {number}"
        if place is not Place.SCHEDULED:
            assert number != self._scheduled_numbers.get(name), f"{name} kept its number (SCH-4)"
        count = message.delivery_count or 0
        least = self._ends_answered.get(name, 0)
        most = self._ends_asked.get(name, 0)
        assert least <= count <= most, (
            f"{name} was abandoned or deferred {least} to {most} times, not {count}"
        )
        self._ends_answered[name] = count
        if place is Place.DEAD:
            assert message.dead_letter_reason == f"reason of {name}"
            assert message.dead_letter_error_description == f"description of {name}"

    def _own(self, name: str, number: int) -> None:
        owner = self._name_of.setdefault(number, name)
        assert owner == name, f"the number {number} of {owner} was given to {name}"
