"""The owner's end of fragments that another process uses.

Owns the receivers and the open requests of one far process: rows become commands for the fragments
here, and the fragments' answers become rows again. Back-pressure: it reports how much is
unanswered, so that no more is read from a process that sends faster than the stores write. When the
far process is gone its receivers are detached, and what was in flight to them is unlocked (DLV-5).
It knows no socket: `cluster.peers` carries the rows.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final

from partibus.cluster import codes
from partibus.cluster.command_rows import DECODERS
from partibus.cluster.rows import (
    ROW_BYTES,
    VERSION,
    PeerWriter,
    Row,
    StoreFacts,
    error_row,
    held_row,
)
from partibus.domain.errors import BusError, EntityNotFound
from partibus.fragment.commands import (
    Consumer,
    Demand,
    Detach,
    Interest,
    Outcome,
    Settle,
    SubQueueType,
)
from partibus.fragment.handle import Fragment
from partibus.fragment.message import Held
from partibus.fragment.sessions.commands import AcceptSession, SessionConsumer

UNANSWERED_BYTES_MAX: Final = 32 * 1024 * 1024
"""Unconfirmed sends of one far process at which reading from it stops."""


Answerer = Callable[[str, bytes], bytes | asyncio.Future[bytes]]
"""Answers administrative questions, at once or later: a name and a JSON object in, a JSON object
out."""


class Host:
    """Serves the fragments of this process to one far process."""

    def __init__(
        self,
        writer: PeerWriter,
        find: Callable[[int], Fragment | None],
        answer: Answerer,
        store_facts: Callable[[], Sequence[StoreFacts]] = tuple,
        version: int = VERSION,
    ) -> None:
        self._writer = writer
        self._find = find
        self._answer = answer
        self._store_facts = store_facts
        """The state of each store of this process; sent with every pong."""
        self._version = version
        """The newest version of the rows that the far process reads."""
        self._receivers: dict[int, FarReceiver] = {}
        self.is_closed = False
        self.is_quiet = False
        """The far process has announced that it asks for nothing more."""
        self.unanswered_bytes = 0
        self._handlers: dict[int, Callable[[Row], None]] = {
            codes.OPEN: self._open,
            codes.OPEN_SESSION: self._open_session,
            codes.ACCEPT: self._accept,
            codes.DEMAND: self._demand,
            codes.INTEREST: self._interest,
            codes.DETACH: self._detach,
            codes.PING: self._pong,
            codes.QUIET: self._be_quiet,
            codes.ASK: self._question,
        }

    def receive(self, rows: Sequence[Row]) -> None:
        """Requests of the far process, in order."""
        handlers = self._handlers
        for row in rows:
            handler = handlers.get(row[0])
            if handler is None:
                self._submit(row)
            else:
                handler(row)

    def post(self, row: Row, byte_count: int = ROW_BYTES) -> None:
        """Answer, unless the far process is gone."""
        if not self.is_closed:
            self._writer.post(row, byte_count)

    def error_row(self, error: BusError) -> Row:
        """An error as the far process reads it."""
        return error_row(error, self._version)

    def unsendable(self, row: Row) -> None:
        """A row could not be encoded: answer its request, or return its messages."""
        if row[0] == codes.DELIVERED:
            receiver = self._receivers.get(row[1])
            if receiver is not None:
                receiver.hand_back([held[5] for held in row[2] if held[5]])
        elif codes.CONFIRMED <= row[0] <= codes.LISTED or row[0] == codes.RESERVED:
            text = (
                "The answer holds a value that the workers of this server cannot pass to each "
                "other; the outcome is unknown. See the server's log."
            )
            self.post((codes.UNSENDABLE, row[1], self.error_row(BusError(text))))

    def close(self) -> None:
        """The far process is gone."""
        self.is_closed = True
        receivers, self._receivers = self._receivers, {}
        for receiver in receivers.values():
            receiver.leave()

    def let_go(self, fragment_ids: Collection[int]) -> None:
        """These fragments are no longer served here; the far process is notified in another way."""
        for number, receiver in list(self._receivers.items()):
            if receiver.fragment.fragment_id in fragment_ids:
                del self._receivers[number]
                receiver.leave()

    @property
    def is_behind(self) -> bool:
        """Whether too many sends wait for the stores, so that reading should pause."""
        return self.unanswered_bytes > UNANSWERED_BYTES_MAX

    # --- requests -----------------------------------------------------------------------------

    def _submit(self, row: Row) -> None:
        fragment = self._find(row[2])
        sends = row[0] in (codes.ENQUEUE, codes.TRANSFER)
        byte_count = row[5] if sends else row[4] if row[0] == codes.TRANSACT else 0
        reply = Reply(self, row[1], row[4] if sends else 0, byte_count)
        self.unanswered_bytes += byte_count
        command = DECODERS[row[0]](row, reply)
        if fragment is None:
            command.refuse(no_such_fragment(row[2]))
        else:
            fragment.submit(command)

    def _question(self, row: Row) -> None:
        try:
            answer = self._answer(row[3], row[4])
        except BusError as error:
            self.post((codes.FAILED, row[1], self.error_row(error)))
            return
        if isinstance(answer, bytes):
            self.post((codes.ANSWERED, row[1], answer))
        else:
            answer.add_done_callback(partial(self._answered_later, row[1]))

    def _answered_later(self, request: int, answer: "asyncio.Future[bytes]") -> None:
        if answer.cancelled():
            return
        error = answer.exception()
        if error is None:
            self.post((codes.ANSWERED, request, answer.result()))
        else:
            assert isinstance(error, BusError), "the answerer reports no other error"
            self.post((codes.FAILED, request, self.error_row(error)))

    def _be_quiet(self, row: Row) -> None:
        self.is_quiet = True

    def _pong(self, row: Row) -> None:
        self.post((codes.PONG, row[1], self._store_facts()))

    # --- receivers ----------------------------------------------------------------------------

    def _open(self, row: Row) -> None:
        _, number, fragment_id, subqueue, deletes = row
        fragment = self._find(fragment_id)
        if fragment is not None:
            self._receivers[number] = FarReceiver(
                self, number, fragment, SubQueueType(subqueue), deletes
            )

    def _open_session(self, row: Row) -> None:
        _, number, fragment_id, deletes = row
        fragment = self._find(fragment_id)
        if fragment is not None:
            self._receivers[number] = FarSessionReceiver(self, number, fragment, deletes)

    def _accept(self, row: Row) -> None:
        _, number, session_id, waits, is_exclusive, lock = row
        receiver = self._receivers.get(number)
        if isinstance(receiver, FarSessionReceiver):
            consumer = receiver.session_consumer
            receiver.fragment.submit(AcceptSession(consumer, session_id, waits, is_exclusive, lock))
        else:
            self.post((codes.NOT_ACCEPTED, number, self.error_row(no_such_fragment(None))))

    def _demand(self, row: Row) -> None:
        _, number, limit, drain = row
        receiver = self._receivers.get(number)
        if receiver is not None:
            receiver.fragment.submit(Demand(receiver.consumer, limit, drain))
        elif drain:
            self.post((codes.DRAINED, number))

    def _interest(self, row: Row) -> None:
        receiver = self._receivers.get(row[1])
        if receiver is not None:
            receiver.fragment.submit(Interest(receiver.consumer))

    def _detach(self, row: Row) -> None:
        receiver = self._receivers.pop(row[1], None)
        if receiver is not None:
            receiver.leave()
        self.post((codes.DETACHED, row[1]))


def no_such_fragment(fragment_id: int | None) -> EntityNotFound:
    """The error for a fragment that is not in this catalog: the far process is behind."""
    which = "of this receiver" if fragment_id is None else str(fragment_id)
    return EntityNotFound(
        f"The messaging entity could not be found: its fragment {which} was deleted."
    )


class FarReceiver:
    """A receiver in another process."""

    __slots__ = ("_host", "_is_gone", "_number", "_subqueue", "consumer", "fragment")

    def __init__(
        self, host: Host, number: int, fragment: Fragment, subqueue: SubQueueType, deletes: bool
    ) -> None:
        self._host = host
        self._number = number
        self._subqueue = subqueue
        self._is_gone = False
        self.fragment = fragment
        self.consumer: Consumer = self._new_consumer(deletes)

    def _new_consumer(self, deletes: bool) -> Consumer:
        return self.fragment.consumer(self, self._subqueue, deletes)

    def leave(self) -> None:
        """Detach it."""
        self._is_gone = True
        self.fragment.submit(Detach(self.consumer))

    def deliver(self, messages: Sequence[Held], bodies: Sequence[bytes]) -> None:
        if self._is_gone:
            tokens = [held.token for held in messages if held.token]
            self.fragment.submit(Settle(None, None, self._subqueue, tokens, Outcome.RELEASE))
            return
        rows = [held_row(held) for held in messages]
        byte_count = sum([held.length for held in messages])
        self._host.post((codes.DELIVERED, self._number, rows, bodies), byte_count + ROW_BYTES)

    def hand_back(self, tokens: Sequence[int]) -> None:
        """Return messages that cannot be sent; each attempt counts, so that they are dead-lettered
        in the end."""
        self.fragment.submit(Settle(None, None, self._subqueue, list(tokens), Outcome.ABANDON))

    def drained(self) -> None:
        if not self._is_gone:
            self._host.post((codes.DRAINED, self._number))

    def available(self) -> None:
        if not self._is_gone:
            self._host.post((codes.AVAILABLE, self._number))

    def interrupted(self) -> None:
        """A fragment of this process is never unreachable."""

    def resumed(self) -> None:
        """A fragment of this process is never unreachable."""


class FarSessionReceiver(FarReceiver):
    """A receiver of one session in another process."""

    __slots__ = ("session_consumer",)

    def __init__(self, host: Host, number: int, fragment: Fragment, deletes: bool) -> None:
        self.session_consumer: SessionConsumer
        super().__init__(host, number, fragment, SubQueueType.MAIN, deletes)

    def _new_consumer(self, deletes: bool) -> Consumer:
        self.session_consumer = self.fragment.session_consumer(self, deletes)
        return self.session_consumer

    def accepted(self, session_id: str, locked_until_ms: int, lock: int) -> None:
        if not self._is_gone:
            self._host.post((codes.ACCEPTED, self._number, session_id, locked_until_ms, lock))

    def not_accepted(self, error: BusError) -> None:
        if not self._is_gone:
            self._host.post((codes.NOT_ACCEPTED, self._number, self._host.error_row(error)))

    def session_lost(self, error: BusError) -> None:
        if not self._is_gone:
            self._host.post((codes.SESSION_LOST, self._number, self._host.error_row(error)))


class Reply:
    """The port of one command from the far process."""

    __slots__ = ("_byte_count", "_host", "_number", "_request_count")

    def __init__(self, host: Host, number: int, request_count: int, byte_count: int) -> None:
        self._host = host
        self._number = number
        self._request_count = request_count
        self._byte_count = byte_count

    def _post(self, row: Row, byte_count: int = ROW_BYTES) -> None:
        if self._byte_count:
            self._host.unanswered_bytes -= self._byte_count
            self._byte_count = 0
        self._host.post(row, byte_count)

    def _places(self, requests: Sequence[int]) -> Sequence[int] | None:
        return None if len(requests) == self._request_count else requests

    def confirmed(
        self, requests: Sequence[int], first_sequence: int, dropped: Sequence[int] = ()
    ) -> None:
        self._post((codes.CONFIRMED, self._number, first_sequence, self._places(requests), dropped))

    def refused(self, requests: Sequence[int], error: BusError) -> None:
        self._post(
            (codes.REFUSED, self._number, self._host.error_row(error), self._places(requests))
        )

    def settled(self, request: object, lost: Sequence[int], error: BusError | None) -> None:
        failure = None if error is None else self._host.error_row(error)
        self._post((codes.SETTLED, self._number, lost, failure))

    def renewed(self, until_ms: Sequence[int]) -> None:
        self._post((codes.RENEWED, self._number, until_ms))

    def done(self, count: int) -> None:
        self._post((codes.DONE, self._number, count))

    def found(self, messages: Sequence[Held], bodies: Sequence[bytes]) -> None:
        byte_count = sum([len(body) for body in bodies])
        rows: list[Any] = [held_row(held) for held in messages]
        self._post((codes.FOUND, self._number, rows, bodies), byte_count + ROW_BYTES)

    def failed(self, error: BusError) -> None:
        self._post((codes.FAILED, self._number, self._host.error_row(error)))

    def reserved(self, first_sequence: int, incarnation: int) -> None:
        self._post((codes.RESERVED, self._number, first_sequence, incarnation))

    def state_found(self, state: bytes | None) -> None:
        self._post((codes.STATE_FOUND, self._number, state), len(state or b"") + ROW_BYTES)

    def listed(self, session_ids: Sequence[str], passed_over: int) -> None:
        byte_count = sum([len(session_id) for session_id in session_ids])
        self._post((codes.LISTED, self._number, session_ids, passed_over), byte_count + ROW_BYTES)
