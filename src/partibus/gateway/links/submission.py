"""Sends on their way to a fragment of a partitioned entity.

Owns what one command carries for one sender: which sends it answers for, and what to try when
the fragment's store is down. Messages without a key go to another fragment, so that the
send succeeds in spite of the outage (SEED-40); messages with a key fail at once with an
error that names their fragment (SEED-29, SEED-43).
"""

from collections.abc import Sequence
from typing import Protocol

from partibus.domain.errors import BusError, StoreFull, StoreUnavailable
from partibus.fragment.commands import Enqueue
from partibus.fragment.handle import Fragment
from partibus.fragment.message import NewMessage
from partibus.fragment.ports import SendPort
from partibus.gateway.router import Router


class Sender(SendPort, Protocol):
    """Who sends: a link, or one request over HTTP."""

    path: str
    router: Router


class Submission:
    """Messages of one sender for one fragment, all with a key or all without."""

    __slots__ = ("_fragment", "_is_keyed", "_link", "_messages", "_requests", "_tried")

    def __init__(self, link: Sender, fragment: Fragment, is_keyed: bool) -> None:
        self._link = link
        self._fragment = fragment
        self._is_keyed = is_keyed
        self._messages: list[NewMessage] = []
        self._requests: list[int] = []
        self._tried: frozenset[int] = frozenset()

    def add(self, messages: list[NewMessage], request: int) -> None:
        """Messages of one send, or of one part of a batch."""
        self._messages += messages
        self._requests.append(request)

    def submit(self) -> None:
        """Hand over to the fragment."""
        size = sum([len(message.body) for message in self._messages])
        command = Enqueue(self, self._messages, self._requests, size)
        self._fragment.submit(command)

    def confirmed(
        self, requests: Sequence[int], first_sequence: int, dropped: Sequence[int] = ()
    ) -> None:
        """All is durable."""
        self._link.confirmed(requests, first_sequence)

    def refused(self, requests: Sequence[int], error: BusError) -> None:
        """Try another fragment for what is bound to none; tell the client otherwise."""
        if not isinstance(error, StoreUnavailable):
            self._link.refused(requests, error)
        elif self._is_keyed:
            if not isinstance(error, StoreFull):
                error = fragment_unavailable(self._fragment, self._link.path)
            self._link.refused(requests, error)
        else:
            self._tried |= {self._fragment.index}
            other = self._link.router.next_keyless(self._tried)
            if other is None:
                self._link.refused(requests, error)
            else:
                self._fragment = other
                self.submit()


def fragment_unavailable(fragment: Fragment, path: str) -> StoreUnavailable:
    """The error for a message whose key selects a fragment that cannot store it (SEED-29)."""
    return StoreUnavailable(
        f"Fragment {fragment.index} of '{path}', which the message's key selects, is not "
        f"available: {fragment.obstacle}"
    )
