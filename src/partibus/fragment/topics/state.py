"""What a topic's fragment has besides its own state: the subscriptions that it fills.

Owns the join of a topic's fragment with the fragments of its subscriptions that have the same index
and live in the same store, and their total size: messages of a subscription count against the
topic's size (ENT-5). Decides nothing about messages; made and kept up to date by the node, used by
`publishing`.
"""

from collections import deque
from typing import TYPE_CHECKING, Final

from partibus.fragment.message import Held
from partibus.fragment.topics.selection import Selector

if TYPE_CHECKING:
    from partibus.fragment.state import State

WEIGH_INTERVAL_MS: Final = 1000
"""In between only what is published is added: at most one sum over all subscriptions a second,
unless the topic is nearly full."""


class Topic:
    """One fragment of a topic and its subscriptions."""

    __slots__ = (
        "_weighed_bytes",
        "_weighed_ms",
        "due",
        "filter_errors",
        "index",
        "reading",
        "selector",
        "subscriptions",
    )

    def __init__(self, index: int, selector: Selector) -> None:
        self.index = index
        """Its number within the topic."""
        self.selector = selector
        self.subscriptions: dict[int, State] = {}
        """The states of the subscriptions' fragments, by the keys of the selector."""
        self.due: deque[Held] = deque()
        """Scheduled messages that are due and whose bodies are not read yet."""
        self.reading = 0
        """Pending reads of such bodies, until the messages are published."""
        self.filter_errors = 0
        """Filters and actions that failed since the start of the process (FLT-9)."""
        self._weighed_bytes = 0
        self._weighed_ms = 0

    def weigh(self, state: "State") -> int:
        """The bytes of all messages: those that are scheduled here, and every copy."""
        copies = sum([subscription.size_bytes for subscription in self.subscriptions.values()])
        return state.size_bytes + copies

    def shift_ms(self, delta_ms: int) -> None:
        """The clock was set: the sum keeps its age."""
        self._weighed_ms += delta_ms

    def has_room(self, state: "State", byte_count: int, now_ms: int) -> bool:
        """Whether this many more bytes fit; the sum is computed only when they might not."""
        most = state.spec.size_bytes_max
        if not most:
            return True
        is_stale = now_ms - self._weighed_ms >= WEIGH_INTERVAL_MS
        if is_stale or self._weighed_bytes + byte_count > most:
            self._weighed_bytes = self.weigh(state)
            self._weighed_ms = now_ms
            if self._weighed_bytes + byte_count > most:
                return False
        self._weighed_bytes += byte_count
        return True
