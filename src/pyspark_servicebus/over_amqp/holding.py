"""What the driver holds: places, messages, and their division into tasks.

Owns the small records that pass between receiving, notes, deferral and tasks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark_servicebus.access import Access
from pyspark_servicebus.options import SourceOptions
from pyspark_servicebus.over_amqp.wire import DEAD_LETTERS
from pyspark_servicebus.source.planning import TASK_BYTES, TASK_MESSAGES

CLAIM_PROPERTY: Final = "x-claim"
"""The property of a deferred message that names its holder; not shown in rows."""
DEFERRED: Final = "deferred"
"""The state of such a message."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the messages of a read are."""

    entity: str
    """The path as shown in rows."""
    sub_queue: str
    access: Access

    @property
    def path(self) -> str:
        """The path used by links."""
        return self.entity + (DEAD_LETTERS if self.sub_queue == "deadletter" else "")


def place_of(options: SourceOptions) -> Place:
    """Where these options read, with a token for it."""
    access = Access(options.credentials, options.entity, options.retry_s)
    return Place(options.entity, options.sub_queue, access)


@dataclass(frozen=True, slots=True)
class Holding:
    """A message that the driver holds: deferred or locked."""

    number: int
    byte_count: int
    token: str = ""


def portioned(held: Sequence[Holding], tasks_min: int) -> Iterator[Sequence[Holding]]:
    """Held messages grouped into tasks, in the order of their numbers."""
    ordered = sorted(held, key=lambda one: one.number)
    byte_count = sum(one.byte_count for one in ordered)
    wanted = max(tasks_min, -(-byte_count // TASK_BYTES), -(-len(ordered) // TASK_MESSAGES), 1)
    size = -(-len(ordered) // wanted)
    for at in range(0, len(ordered), size or 1):
        yield ordered[at : at + size]
