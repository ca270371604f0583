"""The stock Python client with what tests of sessions do again and again.

Owns sending into sessions and accepting them. Receivers live as long as their test, unless it
closes them.
"""

import time
from typing import Any

from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage, ServiceBusReceiver

from conformance.settlement.bus import Bus


def _next_millisecond() -> None:
    """The age of messages in different partitions is compared in milliseconds."""
    now_ms = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 == now_ms:
        continue


class SessionBus(Bus):
    """Senders and session receivers of one stock client, which shows the first error at once."""

    def send(self, queue: str, *messages: tuple[str, str]) -> None:
        """Send bodies into sessions: `(session id, body)`, one by one."""
        with self.sender(queue) as sender:
            for session_id, body in messages:
                sender.send_messages(ServiceBusMessage(body, session_id=session_id))
                _next_millisecond()

    def accept(
        self, queue: str, session_id: str | None = None, wait: float = 10, **options: Any
    ) -> ServiceBusReceiver:
        """Hold a session, or the next that is available; errors come out here."""
        wanted: Any = NEXT_AVAILABLE_SESSION if session_id is None else session_id
        receiver = self.receiver(queue, session_id=wanted, max_wait_time=wait, **options)
        receiver.__enter__()
        return receiver
