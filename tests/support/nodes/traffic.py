"""Constant traffic through the stock SDK, with books.

Owns a thread that sends and one that receives, each with a client that goes on at the next node
when the one it uses fails. The SDK makes no attempt of its own, so that each error is seen; all of
them must be of those that it would retry. What was promised is for `support.nodes.books` to prove.
"""

import threading
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Final, Self

from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiver,
)
from azure.servicebus.exceptions import (
    MessageLockLostError,
    ServiceBusError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)

from adversity.waiting import wait_until
from support.nodes.books import Books
from support.server import ServerProcess

PACE_S: Final = 0.01
"""Between two sends: the machine has other things to do too."""
ANSWER_S: Final = 10
"""A client gives up on a node that does not answer."""
FLOWS_S: Final = 240.0
"""A limit against hanging: nodes that are short of time lose their leases again and again."""
EMPTY_READS_MAX: Final = 5
"""A receiver that gets nothing connects again: its node may be cut off, which it cannot see."""
_LOST_LOCKS: Final = (MessageLockLostError, SessionLockLostError, SessionCannotBeLockedError)

Nodes = ServerProcess | Sequence[ServerProcess]


class Traffic:
    """Sends and receives without end through one queue."""

    def __init__(
        self,
        queue: str,
        senders: Nodes,
        receivers: Nodes,
        *,
        keys: Sequence[str | None] = (None,),
        sessions: bool = False,
        books: Books | None = None,
    ) -> None:
        self._queue = queue
        self._keys = cycle(keys)
        self._sessions = cycle(keys) if sessions else None
        self.books = Books() if books is None else books
        """Those who share a queue share its books."""
        self.failed_sends: list[Exception] = []
        """What a client without retries of its own had as answers."""
        self.failed_receives: list[Exception] = []
        self._stops_sending, self._ends = threading.Event(), threading.Event()
        self._receivers = _all(receivers)
        self._threads = [
            self._thread(_all(senders), self._send, self._stops_sending, self.failed_sends),
            self._thread(self._receivers, self._receive, self._ends, self.failed_receives),
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stops_sending.set()
        self._ends.set()
        for thread in self._threads:
            thread.join()

    def flows(self, count: int = 30) -> None:
        """Return when so many more were sent and received."""
        sent, seen = len(self.books.acknowledged) + count, self.books.deliveries + count
        wait_until(
            lambda: len(self.books.acknowledged) >= sent,
            f"{count} more are acknowledged",
            seconds=FLOWS_S,
        )
        wait_until(
            lambda: self.books.deliveries >= seen, f"{count} more are received", seconds=FLOWS_S
        )

    def check(self, *others: "Traffic") -> None:
        """Everything that was promised was kept, and errors are retryable. Those that share the
        books are checked together."""
        together = (self, *others)
        for one in together:
            one.stop_sending()
        wait_until(lambda: not self.books.open(), "all that was promised came", seconds=FLOWS_S)
        for one in together:
            one.__exit__()
        self.books.check()
        self._check_rest()
        errors = [e for one in together for e in one.failed_sends + one.failed_receives]
        strange = [error for error in errors if not is_retryable(error)]
        assert not strange, strange

    def stop_sending(self) -> None:
        """Return when nothing more is sent."""
        self._stops_sending.set()
        self._threads[0].join()

    # --- the threads ------------------------------------------------------------------------

    def _thread(
        self,
        nodes: Sequence[ServerProcess],
        work: Callable[[ServiceBusClient], None],
        end: threading.Event,
        errors: list[Exception],
    ) -> threading.Thread:
        return threading.Thread(target=self._run, args=(cycle(nodes), work, end, errors))

    def _run(
        self,
        nodes: "cycle[ServerProcess]",
        work: Callable[[ServiceBusClient], None],
        end: threading.Event,
        errors: list[Exception],
    ) -> None:
        while not end.is_set():
            try:
                with self._client(next(nodes)) as client:
                    work(client)
            except Exception as error:
                errors.append(error)
                end.wait(PACE_S)

    @staticmethod
    def _client(node: ServerProcess) -> ServiceBusClient:
        return ServiceBusClient.from_connection_string(
            node.connection_string, retry_total=0, socket_timeout=ANSWER_S
        )

    def _send(self, client: ServiceBusClient) -> None:
        with client.get_queue_sender(self._queue) as sender:
            while not self._stops_sending.wait(PACE_S):
                name, key = self.books.new_name(), next(self._keys)
                sender.send_messages(self._message(name, key), timeout=2 * ANSWER_S)
                self.books.was_acknowledged(name, key)

    def _message(self, name: str, key: str | None) -> ServiceBusMessage:
        if self._sessions is not None:
            return ServiceBusMessage(name, message_id=name, session_id=key)
        return ServiceBusMessage(name, message_id=name, partition_key=key)

    def _receive(self, client: ServiceBusClient) -> None:
        if self._sessions is None:
            with client.get_queue_receiver(self._queue) as receiver:
                self._take(receiver, None)
            return
        session = next(self._sessions)
        with client.get_queue_receiver(self._queue, session_id=session) as receiver:
            self._take(receiver, self.books.new_hold())

    def _take(self, receiver: ServiceBusReceiver, hold: list[int] | None) -> None:
        """Until nothing comes any more; a session is left to others then."""
        # With more on their way, the SDK gives some back that come late, behind others.
        count, empty = (20 if hold is None else 1), 0
        while not self._ends.is_set() and empty < EMPTY_READS_MAX:
            found = receiver.receive_messages(count, max_wait_time=1)
            empty = 0 if found else empty + 1
            for message in found:
                name, number = str(message.message_id), message.sequence_number
                assert number is not None
                self.books.was_delivered(name, number, hold)
                self._settle(receiver, message, name)

    def _settle(
        self, receiver: ServiceBusReceiver, message: ServiceBusReceivedMessage, name: str
    ) -> None:
        is_new = self.books.is_being_settled(name)
        try:
            receiver.complete_message(message)
        except _LOST_LOCKS:
            if is_new:
                self.books.was_kept(name)
            raise
        self.books.was_settled(name)

    def _check_rest(self) -> None:
        """What lies in the queue now was settled by nobody."""
        if self._sessions is not None:
            return
        with (
            self._client(self._receivers[0]) as client,
            client.get_queue_receiver(self._queue) as receiver,
        ):
            rest = {str(message.message_id) for message in receiver.peek_messages(250)}
        self.books.check_rest(rest)


def _all(nodes: Nodes) -> Sequence[ServerProcess]:
    return [nodes] if isinstance(nodes, ServerProcess) else nodes


def is_retryable(error: Exception) -> bool:
    """Whether the SDK would have tried again by itself, or the application has to receive again."""
    is_lost = isinstance(error, _LOST_LOCKS)
    return is_lost or (isinstance(error, ServiceBusError) and bool(error._retryable))
