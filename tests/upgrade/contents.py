"""What a namespace holds, put there and looked at with the stock client.

Owns one namespace that uses everything a release knows, the traffic that fills it, and a picture
of it that can be compared after an upgrade. `level` says what the release can do. Used by the
script that makes the fixtures and by the test that opens them.
"""

import datetime
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiver

from adversity.waiting import wait_until

PLAIN, SESSIONS, FORWARDING, TOPICS, COMPACTED = 1, 2, 3, 4, 5
FAR: Final = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)
MANY: Final = 100
LOOKS_AT_ONCE: Final = 8

_BLOCKS: Final = {
    PLAIN: (
        '[[queue]]\nname = "plain"\n',
        '[[queue]]\nname = "parted"\nenable_partitioning = true\npartition_count = 2\n',
    ),
    SESSIONS: (
        '[[queue]]\nname = "sessions"\nrequires_session = true\n',
        '[[queue]]\nname = "once"\nrequires_duplicate_detection = true\n'
        'duplicate_detection_history_time_window = "P7D"\n',
    ),
    FORWARDING: (
        '[[queue]]\nname = "arrived"\n',
        '[[queue]]\nname = "forwards"\nforward_to = "arrived"\n',
    ),
    TOPICS: (
        '[[topic]]\nname = "news"\n[[topic.subscription]]\nname = "all"\n'
        '[[topic.subscription]]\nname = "red"\n[[topic.subscription.rule]]\nname = "red"\n'
        "sql_filter = \"colour = 'red'\"\n",
    ),
    COMPACTED: ('[[queue]]\nname = "churn"\n',),
}


def namespace(level: int) -> str:
    """The configuration of everything up to a level."""
    return "\n".join(block for at, some in _BLOCKS.items() if at <= level for block in some)


def entities(level: int) -> list[str]:
    """What can be received from."""
    known = {
        PLAIN: ["plain", "parted"],
        SESSIONS: ["once"],
        FORWARDING: ["arrived"],
        TOPICS: ["news/all", "news/red"],
        COMPACTED: ["churn"],
    }
    return [name for at, names in known.items() if at <= level for name in names]


def receiver_of(client: ServiceBusClient, name: str, **options: Any) -> ServiceBusReceiver:
    topic, slash, subscription = name.partition("/")
    if slash:
        return client.get_subscription_receiver(topic, subscription, **options)
    return client.get_queue_receiver(name, **options)


class Traffic:
    """Fills a namespace; each turn adds to what the one before left."""

    def __init__(self, connection_string: str, level: int) -> None:
        self.client = ServiceBusClient.from_connection_string(connection_string)
        self._level = level

    def fill(self, turn: str) -> None:
        self._fill_plain(turn)
        self.send("parted", *(f"{turn} parted {n}" for n in range(6)))
        if self._level >= SESSIONS:
            self._fill_sessions(turn)
        if self._level >= FORWARDING:
            self.send("forwards", f"{turn} forwarded 0", f"{turn} forwarded 1")
            wait_until(lambda: self._has_arrived(turn), "what was forwarded arrived")
        if self._level >= TOPICS:
            with self.client.get_topic_sender("news") as sender:
                for colour in ("red", "blue"):
                    message = ServiceBusMessage(f"{turn} {colour}")
                    message.application_properties = {"colour": colour}
                    sender.send_messages(message)

    def send(self, queue: str, *bodies: str) -> None:
        with self.client.get_queue_sender(queue) as sender:
            for body in bodies:
                sender.send_messages(ServiceBusMessage(body))

    def _fill_plain(self, turn: str) -> None:
        """One of each: active, abandoned, deferred, dead-lettered, completed, scheduled."""
        self.send("plain", *(f"{turn} {fate}" for fate in ("lives", "defer", "bury", "complete")))
        with self.client.get_queue_receiver("plain") as receiver:
            got: list[Any] = []
            while not any(str(message) == f"{turn} complete" for message in got):
                got += receiver.receive_messages(max_message_count=10, max_wait_time=5)
            for message in got:
                self._decide(receiver, message)
        with self.client.get_queue_sender("plain") as sender:
            sender.schedule_messages(ServiceBusMessage(f"{turn} scheduled"), FAR)

    @staticmethod
    def _decide(receiver: ServiceBusReceiver, message: Any) -> None:
        fates: dict[str, Callable[[Any], None]] = {
            "defer": receiver.defer_message,
            "bury": lambda one: receiver.dead_letter_message(
                one, reason="test", error_description="d"
            ),
            "complete": receiver.complete_message,
        }
        fates.get(str(message).split()[1], receiver.abandon_message)(message)

    def _fill_sessions(self, turn: str) -> None:
        with self.client.get_queue_sender("sessions") as sender:
            for session in ("a", "b"):
                sender.send_messages(ServiceBusMessage(f"{turn} {session}", session_id=session))
        with self.client.get_queue_receiver("sessions", session_id="a") as receiver:
            receiver.session.set_state(f"{turn} state".encode())
        with self.client.get_queue_sender("once") as sender:
            for _ in range(2):
                sender.send_messages(ServiceBusMessage(f"{turn} once", message_id=f"id {turn}"))

    def _has_arrived(self, turn: str) -> bool:
        with self.client.get_queue_receiver("arrived") as receiver:
            found = [str(message) for message in receiver.peek_messages(MANY)]
        return sum(body.startswith(turn) for body in found) == 2

    def close(self) -> None:
        self.client.close()


def picture(connection_string: str, level: int) -> dict[str, Any]:
    """Everything there is, as a peek shows it; numbers and counts included.

    All at once: the stock client takes up to a second to close a receiver.
    """
    with (
        ServiceBusClient.from_connection_string(connection_string) as client,
        ThreadPoolExecutor(LOOKS_AT_ONCE) as pool,
    ):
        looks = [
            pool.submit(_look, client, name, part, options)
            for name in entities(level)
            for part, options in (("", {}), ("/dead", {"sub_queue": "deadletter"}))
        ]
        sessions = ("a", "b") if level >= SESSIONS else ()
        looks += [pool.submit(_look_into, client, session) for session in sessions]
        return {name: shown for look in looks for name, shown in look.result().items()}


def _look(
    client: ServiceBusClient, name: str, part: str, options: dict[str, Any]
) -> dict[str, Any]:
    with receiver_of(client, name, **options) as receiver:
        return {name + part: _shown(receiver)}


def _look_into(client: ServiceBusClient, session: str) -> dict[str, Any]:
    with client.get_queue_receiver("sessions", session_id=session) as receiver:
        state = receiver.session.get_state()
        return {
            f"session {session}": _shown(receiver),
            f"state {session}": None if state is None else bytes(state).decode(),
        }


def _shown(receiver: ServiceBusReceiver) -> list[list[Any]]:
    """Sorted: partitions are peeked in an order of their own."""
    return sorted(
        [message.sequence_number, str(message), message.dead_letter_reason]
        for message in receiver.peek_messages(MANY)
    )
