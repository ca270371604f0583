"""Submission of sends to the fragments of an entity.

Owns which fragment each message of a sender goes to, what one command carries, and what to try
when a fragment's store is down. Messages without a key go to another fragment, so that the
send succeeds in spite of the outage (SEED-40); messages with a key fail at once with an
error that names their fragment (SEED-29, SEED-43). Used by sending links, by sends over HTTP and
by the bulk path, so that all three choose and fail in the same way.
"""

from collections.abc import Sequence
from typing import Protocol

from partibus.domain.errors import BusError, StoreFull, StoreUnavailable
from partibus.fragment.commands import Enqueue
from partibus.fragment.handle import Fragment
from partibus.fragment.message import NewMessage, key_of
from partibus.fragment.ports import SendPort
from partibus.gateway.router import Router
from partibus.gateway.tracing import SendTraces, Tracing


class Sender(SendPort, Protocol):
    """A link, one request over HTTP, or a batch of the bulk path."""

    path: str
    router: Router


class Submission:
    """Messages of one sender for one fragment, all with a key or all without."""

    __slots__ = (
        "_byte_count",
        "_fragment",
        "_is_keyed",
        "_messages",
        "_requests",
        "_sender",
        "_traces",
        "_tried",
    )

    def __init__(
        self, sender: Sender, fragment: Fragment, is_keyed: bool, traces: SendTraces | None
    ) -> None:
        self._sender = sender
        self._fragment = fragment
        self._is_keyed = is_keyed
        self._messages: list[NewMessage] = []
        self._requests: list[int] = []
        self._byte_count = 0
        self._tried: frozenset[int] = frozenset()
        self._traces = traces
        """None unless the server exports traces."""

    def add(self, messages: list[NewMessage], request: int, byte_count: int) -> None:
        """Add the messages of one send, or of one part of a batch."""
        self._messages += messages
        self._requests.append(request)
        self._byte_count += byte_count
        if self._traces is not None:
            self._traces.add(messages)

    def submit(self) -> None:
        """Submit to the fragment."""
        if self._traces is not None:
            self._traces.storing(self._fragment.index)
        command = Enqueue(self, self._messages, self._requests, self._byte_count)
        self._fragment.submit(command)

    def confirmed(
        self, requests: Sequence[int], first_sequence: int, dropped: Sequence[int] = ()
    ) -> None:
        """All of it is durable."""
        if self._traces is not None:
            self._traces.answered(None)
        self._sender.confirmed(requests, first_sequence, dropped)
        if self._traces is not None:
            self._traces.ended()

    def refused(self, requests: Sequence[int], error: BusError) -> None:
        """Try another fragment for messages without a key; report the error otherwise."""
        if self._traces is not None:
            self._traces.answered(error)
        if not isinstance(error, StoreUnavailable):
            self._give_up(requests, error)
        elif self._is_keyed:
            if not isinstance(error, StoreFull):
                error = fragment_unavailable(self._fragment, self._sender.path)
            self._give_up(requests, error)
        else:
            self._tried |= {self._fragment.index}
            other = self._sender.router.next_keyless(self._tried)
            if other is None:
                self._give_up(requests, error)
            else:
                self._fragment = other
                self.submit()

    def _give_up(self, requests: Sequence[int], error: BusError) -> None:
        self._sender.refused(requests, error)
        if self._traces is not None:
            self._traces.ended(error)


class Submissions:
    """What a sender has gathered: a command for each fragment, with keyed and keyless apart."""

    __slots__ = ("_by_place", "_fragments", "_sender", "_tracing")

    def __init__(
        self, sender: Sender, fragments: Sequence[Fragment], tracing: Tracing | None = None
    ) -> None:
        self._sender = sender
        self._fragments = fragments
        self._tracing = tracing
        self._by_place: dict[int, Submission] = {}

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to submit."""
        return not self._by_place

    def route(self, messages: list[NewMessage], request: int, byte_count: int) -> int:
        """Put the messages of one send with others for the same fragment.

        Returns the number of parts, each of which is confirmed or refused separately.
        """
        if len(self._fragments) == 1:
            self._to(self._fragments[0], False).add(messages, request, byte_count)
            return 1
        router = self._sender.router
        if len(messages) == 1:
            self._one(router, messages, request, byte_count)
            return 1
        groups = router.group(messages)
        if len(groups) > 1:
            self._require_available(groups)
        for key, group in groups:
            fragment = router.keyed(key) if key is not None else router.next_keyless()
            assert fragment is not None
            size = sum([len(message.body) for message in group])
            self._to(fragment, key is not None).add(group, request, size)
        return len(groups)

    def _one(
        self, router: Router, messages: list[NewMessage], request: int, byte_count: int
    ) -> None:
        """A send of one message, as nearly all are."""
        key = key_of(messages[0])
        fragment = router.keyed(key) if key is not None else router.next_keyless()
        assert fragment is not None
        self._to(fragment, key is not None).add(messages, request, byte_count)

    def _to(self, fragment: Fragment, is_keyed: bool) -> Submission:
        place = fragment.index * 2 + is_keyed
        submission = self._by_place.get(place)
        if submission is None:
            tracing = self._tracing
            traces = None if tracing is None else tracing.sends(self._sender.path)
            submission = Submission(self._sender, fragment, is_keyed, traces)
            self._by_place[place] = submission
        return submission

    def _require_available(self, groups: list[tuple[str | None, list[NewMessage]]]) -> None:
        """A batch is split only when every part can be stored: a retry would duplicate the rest."""
        router = self._sender.router
        for key, _ in groups:
            if key is not None and not router.keyed(key).is_available:
                raise fragment_unavailable(router.keyed(key), self._sender.path)

    def submit(self) -> None:
        """Submit everything, as one command for each destination."""
        if self._by_place:
            submissions, self._by_place = self._by_place, {}
            for submission in submissions.values():
                submission.submit()


def fragment_unavailable(fragment: Fragment, path: str) -> StoreUnavailable:
    """The error for a message whose key selects a fragment that cannot store it (SEED-29)."""
    return StoreUnavailable(
        f"Fragment {fragment.index} of '{path}', which the message's key selects, is not "
        f"available: {fragment.obstacle}"
    )
