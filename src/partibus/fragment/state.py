"""The whole state of a fragment: its lanes, what is scheduled, its counters.

Owns no decision. The modules beside it change it, one subject each; `snapshot` writes it
down and `replay` builds it up again. One owner: the machine that holds it.
"""

from dataclasses import dataclass

from partibus.fragment.commands import Lane
from partibus.fragment.message import Held
from partibus.fragment.spec import FragmentSpec
from partibus.fragment.subqueue import SubQueue
from partibus.fragment.table import MessageTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many messages a fragment holds, by state (CNT-1, CNT-3)."""

    active: int
    """Waiting and locked messages of the main queue."""
    dead_letter: int
    transfer_dead_letter: int
    scheduled: int
    deferred: int
    locked: int
    size_bytes: int


class State:
    """Everything a fragment knows."""

    __slots__ = (
        "dead",
        "departing",
        "fragment_id",
        "lanes",
        "main",
        "next_sequence",
        "next_sequence_durable",
        "next_token",
        "scheduled",
        "size_bytes",
        "spec",
        "suspended",
        "transfer",
    )

    def __init__(self, fragment_id: int, spec: FragmentSpec) -> None:
        self.fragment_id = fragment_id
        self.spec = spec
        self.main = SubQueue(Lane.MAIN)
        self.dead = SubQueue(Lane.DEAD_LETTER)
        self.transfer = SubQueue(Lane.TRANSFER_DEAD_LETTER)
        self.lanes = (self.main, self.dead, self.transfer)
        self.scheduled = MessageTable()
        self.departing: dict[int, Held] = {}
        """Scheduled messages whose activation or cancellation is not durable yet."""
        self.next_sequence = 1
        self.next_sequence_durable = 1
        """What `next_sequence` would be without arrivals that are not durable yet."""
        self.next_token = 1
        self.size_bytes = 0
        self.suspended = False
        """The store is down: nothing is handed out."""

    @property
    def lock_count(self) -> int:
        """The locks of all lanes."""
        return sum([len(lane.locks) for lane in self.lanes])

    def counts(self) -> Counts:
        """The counts at this moment, without looking at any message."""
        main = self.main
        return Counts(
            active=len(main.ready) + main.locked_count + len(main.leaving),
            dead_letter=self.dead.message_count,
            transfer_dead_letter=self.transfer.message_count,
            scheduled=len(self.scheduled) + len(self.departing),
            deferred=len(main.deferred) + main.deferred_locked_count,
            locked=len(main.locks),
            size_bytes=self.size_bytes,
        )
