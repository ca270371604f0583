"""What happens around the client under test, done by a generic AMQP client.

Owns short forms of sending, taking and peeking over one Qpid Proton connection, which is
ready in a few milliseconds. Import it only where the group "proton" is present.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from proton import Message

from adversity.waiting import wait_until
from conformance.settlement.management import Management
from support.proton.client import ENQUEUED_TIME, SEQUENCE_NUMBER, Client, symbol
from support.server import ON_CLUSTER

STATE: Final = symbol("x-opt-message-state")
ACTIVE, DEFERRED, SCHEDULED = 0, 1, 2
PEEK_COUNT: Final = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A peeked message, as far as most tests look."""

    body: object
    number: int
    state: int
    message: Message


class Backstage(Client):
    """One connection of a generic client, with the steps of a stage hand."""

    def send(self, address: str, *bodies: object) -> None:
        """Send one by one, each accepted before the next; a body may be a whole message."""
        sender = self.sender(address)
        for body in bodies:
            sender.send(body if isinstance(body, Message) else text_message(body))
        sender.close()

    def take_dead(self, queue: str, count: int) -> list[Message]:
        """Receive and delete exactly this many dead letters."""
        return self.take(dead(queue), count)

    def bodies(self, queue: str, count: int) -> list[object]:
        """Receive and delete exactly this many; their bodies."""
        return [plain(message.body) for message in self.take(queue, count)]

    def management(self, path: str) -> Management:
        return Management(self, path)

    def peek(self, path: str, from_number: int = 0) -> list[Shown]:
        """All that peek shows in one call."""
        reply = self.management(path).peek(PEEK_COUNT, from_number)
        if reply.status == 204:
            return []
        assert reply.status == 200, reply
        return [
            Shown(
                body=plain(message.body),
                number=message.annotations[SEQUENCE_NUMBER],
                state=int(message.annotations[STATE]),
                message=message,
            )
            for message in reply.messages()
        ]

    def shown(self, path: str) -> list[object]:
        """The bodies that peek shows."""
        return [item.body for item in self.peek(path)]

    def assert_committed(self, expected: Mapping[str, list[object]]) -> None:
        """Peek shows what a transaction has put into other entities: at once where one store has
        all of them, and on a cluster when their lanes have exchanged it."""
        if os.environ.get(ON_CLUSTER):
            wait_until(lambda: self._all_shown(expected) == expected, f"{expected} is shown")
        assert self._all_shown(expected) == expected

    def _all_shown(self, paths: Iterable[str]) -> dict[str, list[object]]:
        return {path: self.shown(path) for path in paths}

    def enqueued_ms(self, path: str) -> list[int]:
        """When the messages that peek shows were enqueued."""
        return [int(item.message.annotations[ENQUEUED_TIME]) for item in self.peek(path)]


def text_message(body: object, **fields: object) -> Message:
    """A message as the stock clients send it: a text travels as data."""
    if isinstance(body, str):
        return Message(body=body.encode(), inferred=True, **fields)
    return Message(body=body, **fields)


def dead(queue: str) -> str:
    """The address of a queue's dead letters."""
    return f"{queue}/$DeadLetterQueue"


def plain(body: object) -> object:
    """Texts as str however they travelled: the stock clients send them as data."""
    return bytes(body).decode() if isinstance(body, memoryview | bytes) else body
