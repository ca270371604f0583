"""The bus of the Spark tests: fresh queues, messages through the stock client, and what is left.

Owns the kinds of queues and the counts that tests look at. Every look and every break is the
operator's own; sending and receiving is the stock client's.
"""

import itertools
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, Self

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSubQueue
from azure.servicebus.management import ServiceBusAdministrationClient

from conformance.partitioning.operator import Operator
from conformance.settlement.namespace import write_queues
from conformance.settlement.steps import until
from partibus.client.message import OutgoingMessage
from pyspark_servicebus.access import Access
from pyspark_servicebus.bus import Flight, discover
from pyspark_servicebus.options import source_options
from support.receiving import collect
from support.server import ServerProcess

STORES: Final = 2
FRAGMENTS: Final = 4
_PARTED: Final = {"enable_partitioning": "true", "partition_count": str(FRAGMENTS)}
KINDS: Final[dict[str, dict[str, str]]] = {
    "parted": _PARTED,
    "plain": {},
    "once": _PARTED | {"requires_duplicate_detection": "true"},
    "sessions": _PARTED | {"requires_session": "true"},
    "narrow": {"max_message_size_in_kilobytes": "16"},
    "hasty": _PARTED | {"lock_duration": '"PT2S"'},
}
COUNT: Final = 60
COMMON_COUNT: Final = 240


def _count_of(kind: str) -> int:
    """Enough for all tests in one process; most of them take one of the first two."""
    return COMMON_COUNT if kind in ("parted", "plain") else COUNT


def write_namespace(path: Path) -> Path:
    """Declare the queues of every kind, and topics."""
    names = {f"{kind}-{n}": spec for kind, spec in KINDS.items() for n in range(_count_of(kind))}
    from spark.topics import declaration

    write_queues(path, names)
    path.write_text(path.read_text(encoding="utf-8") + declaration(), encoding="utf-8")
    return path


class Bus:
    """A running server, with a stock client."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.operator = Operator(server)
        self._numbers = {kind: itertools.count() for kind in KINDS}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.client = self._stack.enter_context(
            ServiceBusClient.from_connection_string(self.server.connection_string)
        )
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    @property
    def connection_string(self) -> str:
        return self.server.connection_string

    def queue(self, kind: str = "parted") -> str:
        """A queue that no other test uses."""
        number = next(self._numbers[kind])
        assert number < _count_of(kind), f"declare more queues of the kind {kind!r}"
        return f"{kind}-{number}"

    def options(self, queue: str, **given: object) -> dict[str, str]:
        """The options of a source or sink."""
        options = {"connectionString": self.connection_string, "queue": queue}
        return options | {name: str(value) for name, value in given.items()}

    # --- messages -------------------------------------------------------------------------

    def send(self, queue: str, *messages: ServiceBusMessage) -> None:
        """One by one, so that they are spread over the fragments."""
        with self.client.get_queue_sender(queue) as sender:
            for message in messages:
                sender.send_messages(message)

    def fill(self, queue: str, count: int, first: int = 0, size: int = 0) -> list[str]:
        """Numbered messages over all fragments; gives their bodies."""
        bodies = [f"{number:06d}".ljust(size, ".") for number in range(first, first + count)]
        messages = [OutgoingMessage(body=body.encode()).encode() for body in bodies]
        [answer] = self.flight(queue).put(self._location(queue), [messages])
        assert answer["accepted"] == count
        return bodies

    def flight(self, queue: str) -> Flight:
        """The bulk path, which is quicker than the stock client where it is not the point."""
        options = source_options(self.options(queue), is_stream=False)
        return Flight(queue, Access(options.credentials, queue, 10.0))

    def _location(self, queue: str) -> str:
        location = discover(self.flight(queue).access, queue).locations[0]
        assert location is not None
        return location

    def consume(self, queue: str, count: int) -> None:
        """Others receive the oldest messages and complete them."""
        flight, location = self.flight(queue), self._location(queue)
        limits = {str(index): {} for index in range(len(self.operator.placement(queue)))}
        if count < self.left(queue)[0]:
            assert len(limits) == 1, "name the fragments"
            limits = {"0": {"messages": count}}
        claim = {"owner": "others", "epoch": 1, "start": "all"}
        told = flight.action(location, "claim", **claim, duration_ms=60_000, limits=limits)
        assert sum(answer["count"] for answer in told["fragments"].values()) == count
        flight.action(location, "settle", **claim)

    def make_anew(self, queue: str) -> None:
        """Delete a queue and make another of its name."""
        with self.admin() as admin:
            admin.delete_queue(queue)
            admin.create_queue(queue)

    @contextmanager
    def admin(self) -> Iterator[ServiceBusAdministrationClient]:
        """The stock client of the management API."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("REQUESTS_CA_BUNDLE", str(self.server.ready.ca))
            made = ServiceBusAdministrationClient.from_connection_string(self.connection_string)
            with made as admin:
                yield admin

    def receive(self, queue: str, count: int, dead: bool = False) -> list[Any]:
        """Receive and complete messages."""
        sub_queue = ServiceBusSubQueue.DEAD_LETTER if dead else None
        with self.client.get_queue_receiver(queue, sub_queue=sub_queue) as receiver:
            messages = collect(receiver, count)
            for message in messages:
                receiver.complete_message(message)
        return messages

    def peek(self, queue: str) -> list[Any]:
        """Everything in a queue."""
        with self.client.get_queue_receiver(queue) as receiver:
            found: list[Any] = []
            while batch := receiver.peek_messages(max_message_count=250):
                found += batch
            return found

    # --- what is left ---------------------------------------------------------------------

    def totals(self, queue: str) -> dict[str, int]:
        totals: dict[str, int] = self.operator.entity(queue)["totals"]
        return totals

    def left(self, queue: str) -> tuple[int, int, int]:
        """Active, claimed and retained messages."""
        totals = self.totals(queue)
        return totals["active"], totals["claimed"], totals["retained"]

    def await_left(self, queue: str, *expected: int) -> None:
        until(f"{queue} to have {expected}", lambda: self.left(queue) == expected)

    def await_unlocked(self, queue: str) -> None:
        until(f"{queue} to have no locks", lambda: self.totals(queue)["locked"] == 0)

    def lost_fragments(self, queue: str, store: int = 1) -> set[int]:
        """The fragments that go down with a store; not all of them."""
        lost = self.operator.partitions_in(queue, store)
        assert lost
        assert len(lost) < FRAGMENTS
        return lost


def once_each(found: Iterable[str], expected: Iterable[str]) -> None:
    """Every message, and none twice."""
    assert sorted(found) == sorted(expected)


def texts(rows: Iterable[Any]) -> list[str]:
    """The bodies of rows."""
    return [bytes(row["body"]).decode() for row in rows]
