"""The stock Python client with handlers that live as long as their test.

Closing a handler costs the client half a second, spent waiting for a thread of its own. So
handlers are closed behind the test's back, while the next test runs.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from azure.servicebus import (
    ServiceBusClient,
    ServiceBusReceiveMode,
    ServiceBusReceiver,
    ServiceBusSender,
    ServiceBusSubQueue,
)

RECEIVE_AND_DELETE: Final = ServiceBusReceiveMode.RECEIVE_AND_DELETE
DEAD_LETTER: Final = ServiceBusSubQueue.DEAD_LETTER
TRANSFER_DEAD_LETTER: Final = ServiceBusSubQueue.TRANSFER_DEAD_LETTER


class Closing:
    """Closes clients in threads of its own."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(thread_name_prefix="closing")
        self._pending: list[Future[None]] = []

    def close(self, client: ServiceBusClient) -> None:
        self._pending.append(self._pool.submit(client.close))

    def finish(self) -> None:
        """Wait for every client, and show the first error."""
        for pending in self._pending:
            pending.result()
        self._pool.shutdown()


class Bus:
    """Senders and receivers of one stock client, which shows the first error at once."""

    def __init__(self, connection_string: str) -> None:
        # An error is the point of many tests, so nothing is tried again.
        self.client = ServiceBusClient.from_connection_string(connection_string, retry_total=0)

    def sender(self, queue: str) -> ServiceBusSender:
        return self.client.get_queue_sender(queue)

    def receiver(self, queue: str, **options: Any) -> ServiceBusReceiver:
        return self.client.get_queue_receiver(queue, **options)

    def dead_letters(self, queue: str, **options: Any) -> ServiceBusReceiver:
        return self.receiver(queue, sub_queue=DEAD_LETTER, **options)
