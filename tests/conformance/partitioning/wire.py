"""A generic AMQP client on partitioned queues: quick pipelined sends, keys, raw annotations.

Import it only where the group "proton" is present.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from proton import Delivery, Link, Message, symbol, timestamp

from conformance.partitioning.partitions import partition_of
from conformance.settlement.backstage import Backstage, text_message
from support.proton.client import SEQUENCE_NUMBER
from support.server import ServerProcess

PARTITION_KEY: Final = symbol("x-opt-partition-key")
SCHEDULED_TIME: Final = symbol("x-opt-scheduled-enqueue-time")


def keyed(
    body: object, key: str | None = None, *, due: datetime | None = None, **fields: Any
) -> Message:
    """A message with a partition key, or without one; scheduled when it is due later."""
    annotations: dict[symbol, object] = {}
    if key is not None:
        annotations[PARTITION_KEY] = key
    if due is not None:
        annotations[SCHEDULED_TIME] = timestamp(int(due.timestamp() * 1000))
    return text_message(body, annotations=annotations or None, **fields)


def number_of(message: Message) -> int:
    """The sequence number of a message that was received or peeked."""
    return int(message.annotations[SEQUENCE_NUMBER])


def text(message: Message) -> str:
    """The text of a message that travelled as data."""
    return bytes(message.body).decode()


class Wire(Backstage):
    """One connection that sends as quickly as it may."""

    def __init__(self, server: ServerProcess) -> None:
        super().__init__(server)
        self.server = server

    def post(self, address: str, messages: Iterable[Message]) -> list[Delivery]:
        """Send without waiting for each answer, then for all of them."""
        blocking = self.sender(address)
        deliveries = self.pipeline(blocking.link, messages)
        self.await_answers(deliveries)
        blocking.close()
        return deliveries

    def pipeline(self, link: Link, messages: Iterable[Message]) -> list[Delivery]:
        """Send as far as the credit goes, waiting for credit alone."""
        deliveries = []
        for message in messages:
            if link.credit <= 0:
                self.wait(lambda: link.credit > 0, "credit to send")
            deliveries.append(link.send(message))
        return deliveries

    def await_answers(self, deliveries: Sequence[Delivery]) -> None:
        self.wait(lambda: all(delivery.settled for delivery in deliveries), "answers")

    def fill(self, queue: str, messages: Iterable[Message]) -> None:
        """Send, and see that all were accepted."""
        answers = {delivery.remote_state for delivery in self.post(queue, messages)}
        assert answers <= {Delivery.ACCEPTED}, answers

    def round_trip(self, queue: str) -> None:
        """What the server wrote before this returns has arrived."""
        self.management(queue).peek(1)

    def partitions(self, queue: str) -> list[int]:
        """The partitions of all that peek shows, in its order."""
        return [partition_of(item.number) for item in self.peek(queue)]
