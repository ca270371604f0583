"""Batch delete: waiting messages are deleted without being received (BAT-6).

Owns `batch-delete-messages`. Locked, deferred and scheduled messages are skipped. The fragments of
a partitioned entity are asked one after the other until enough are deleted.
"""

from collections import deque
from typing import TYPE_CHECKING

from partibus.amqp.codec.types import Int
from partibus.domain.errors import ArgumentError, BusError
from partibus.fragment.commands import Purge
from partibus.fragment.handle import Fragment
from partibus.gateway.namespace import require_receivable

if TYPE_CHECKING:
    from partibus.gateway.management import ManagementRequest


def batch_delete_messages(request: "ManagementRequest") -> None:
    """Delete up to a number of messages that were enqueued before a time."""
    require_receivable(request.entity)
    most = request.node.connection.gateway.namespace.profile.batch_delete_messages_max
    count = request.number("message-count")
    if not 1 <= count <= most:
        raise ArgumentError(f"'message-count' must be 1 to {most}.")
    before_ms = request.number("enqueued-time-utc")
    fragments = [f for f in request.entity.fragments if f.is_available]
    _Deletion(request, fragments or list(request.entity.fragments), count, before_ms).go_on()


class _Deletion:
    """One request while it visits the fragments."""

    __slots__ = ("_before_ms", "_deleted", "_fragments", "_request", "_wanted")

    def __init__(
        self, request: "ManagementRequest", fragments: list[Fragment], count: int, before_ms: int
    ) -> None:
        self._request = request
        self._fragments = deque(fragments)
        self._wanted = count
        self._before_ms = before_ms
        self._deleted = 0

    def go_on(self) -> None:
        """Ask the next fragment, or answer."""
        if self._fragments and self._wanted:
            fragment = self._fragments.popleft()
            subqueue, session_id = self._request.subqueue, self._request.session_id()
            fragment.submit(Purge(self, subqueue, self._wanted, self._before_ms, session_id))
        elif self._deleted:
            self._request.succeed({"message-count": Int(self._deleted)})
        else:
            self._request.succeed_empty()

    def done(self, count: int) -> None:
        """A fragment has deleted this many messages."""
        self._deleted += count
        self._wanted -= count
        self.go_on()

    def failed(self, error: BusError) -> None:
        """A fragment failed; what the others have deleted is still reported."""
        if self._deleted:
            self._wanted = 0
            self.go_on()
        else:
            self._request.fail(error)
