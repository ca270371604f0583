"""The whole state of a fragment: its subqueues, what is scheduled, its counters.

Decides nothing. The features change it, one subject each; `snapshot` writes it and `replay`
rebuilds it. One owner: the machine that holds it.
"""

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from partibus.fragment.commands import SubQueueType
from partibus.fragment.message import Held
from partibus.fragment.outbox.marks import Marks
from partibus.fragment.outbox.state import Outbox
from partibus.fragment.queue.history import History
from partibus.fragment.queue.subqueue import SubQueue
from partibus.fragment.queue.table import MessageTable
from partibus.fragment.sessions.state import Sessions
from partibus.fragment.sessions.subqueue import AsideTable, SessionSubQueue
from partibus.fragment.spec import FragmentSpec
from partibus.fragment.tally import Tally

if TYPE_CHECKING:
    from partibus.fragment.claims.state import Claims
    from partibus.fragment.cursors.retention import Retention
    from partibus.fragment.stages.state import Stages
    from partibus.fragment.topics.state import Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many messages a fragment holds, by state (CNT-1, CNT-3)."""

    active: int
    """Waiting, locked and claimed messages of the main queue."""
    dead_letter: int
    transfer_dead_letter: int
    transfer: int
    """Messages on their way to another entity (TDQ-2)."""
    scheduled: int
    deferred: int
    locked: int
    """Locked messages, including dead letters."""
    dead_letter_locked: int
    """Locked dead letters."""
    claimed: int
    """Active messages that pipelines hold."""
    retained: int
    """Settled messages that are kept for cursors; in no other count."""
    staged: int
    """Messages that pipelines have written and not published; in no other count."""
    size_bytes: int
    duplicates_dropped: int
    """Messages that were accepted and dropped since the start of the process (DUP-10)."""
    filter_errors: int
    """Filters and actions of a topic that failed since the start of the process (FLT-9)."""


class State:
    """Everything a fragment knows."""

    __slots__ = (
        "claims",
        "dead",
        "departing",
        "due",
        "duplicates_dropped",
        "fragment_id",
        "history",
        "is_behind",
        "kept_locks",
        "main",
        "marks",
        "next_sequence",
        "next_sequence_durable",
        "next_token",
        "outbox",
        "reserved_until",
        "retention",
        "scheduled",
        "sessions",
        "size_bytes",
        "spec",
        "stages",
        "subqueues",
        "suspended",
        "tally",
        "topic",
        "transfer",
    )

    def __init__(self, fragment_id: int, spec: FragmentSpec) -> None:
        self.fragment_id = fragment_id
        self.spec = spec
        self.main: SubQueue = SubQueue(SubQueueType.MAIN)
        self.dead = SubQueue(SubQueueType.DEAD_LETTER)
        self.transfer = SubQueue(SubQueueType.TRANSFER_DEAD_LETTER)
        self.subqueues: tuple[SubQueue, SubQueue, SubQueue] = (self.main, self.dead, self.transfer)
        self.scheduled: MessageTable = MessageTable()
        self.departing: dict[int, Held] = {}
        """Scheduled messages whose activation or cancellation is not durable yet."""
        self.next_sequence = 1
        self.next_sequence_durable = 1
        """What `next_sequence` would be without arrivals that are not durable yet."""
        self.reserved_until = 0
        """Numbers below this that no message has may be set aside for a transaction."""
        self.due: deque[int] = deque()
        """The numbers of scheduled messages that are due, in order of their due times."""
        self.is_behind = False
        """More is due than the last turn could handle."""
        self.next_token = 1
        self.size_bytes = 0
        self.history = History()
        """The ids of messages within the window, where duplicates are detected."""
        self.outbox = Outbox()
        """Messages on their way to other entities."""
        self.marks = Marks()
        """What was taken from the outboxes of other fragments."""
        self.duplicates_dropped = 0
        self.tally = Tally()
        self.kept_locks = b""
        """Locks of the last clean stop, until they are restored (`kept_locks`)."""
        self.suspended = False
        """The store is down: nothing is delivered."""
        self.topic: Topic | None = None
        """Of a topic: the subscriptions that it fills."""
        self.claims: Claims | None = None
        """The claims; None when there never was one."""
        self.retention: Retention | None = None
        """The cursors and the messages kept for them; None when there never was one."""
        self.stages: Stages | None = None
        """What pipelines have written and not published; None when there never was any."""
        self.sessions: Sessions | None = None
        """The sessions of its messages, where the entity requires them."""
        if spec.requires_session:
            self.require_sessions()

    def require_sessions(self) -> None:
        """Turn the main subqueue into one with sessions; existing messages keep theirs."""
        sessions = self.sessions
        if sessions is None:
            sessions = self.sessions = Sessions()
        main = SessionSubQueue(sessions)
        main.adopt(self.main)
        scheduled = AsideTable(sessions)
        scheduled.adopt(self.scheduled)
        self.main = main
        self.subqueues = (main, self.dead, self.transfer)
        self.scheduled = scheduled

    @property
    def lock_count(self) -> int:
        """The locks of all subqueues."""
        return sum([len(subqueue.locks) for subqueue in self.subqueues])

    def counts(self) -> Counts:
        """The counts at this moment, without looking at any message."""
        main = self.main
        claimed = 0 if self.claims is None else self.claims.message_count
        return Counts(
            active=len(main.ready) + main.locked_count + len(main.leaving) + claimed,
            claimed=claimed,
            retained=0 if self.retention is None else len(self.retention.table),
            staged=0 if self.stages is None else self.stages.message_count,
            dead_letter=self.dead.message_count,
            transfer_dead_letter=self.transfer.message_count,
            transfer=len(self.outbox),
            scheduled=len(self.scheduled) + len(self.departing),
            deferred=len(main.deferred) + main.deferred_locked_count,
            locked=self.lock_count,
            dead_letter_locked=len(self.dead.locks) + len(self.transfer.locks),
            size_bytes=self.size_bytes if self.topic is None else self.topic.weigh(self),
            duplicates_dropped=self.duplicates_dropped,
            filter_errors=0 if self.topic is None else self.topic.filter_errors,
        )
