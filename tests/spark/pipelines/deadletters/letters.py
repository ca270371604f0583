"""Dead letters for tests: made through our own client, which is quick, and counted by looking.

Owns the making of dead letters with reasons and texts, and the look at what is in a queue.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from partibus.amqp.delivery import rejected
from partibus.amqp.errors import AmqpError
from partibus.client.bus import Bus
from partibus.client.connection_string import parse_connection_string
from partibus.client.message import IncomingMessage, OutgoingMessage

T = TypeVar("T")
ROUND = 100


@dataclass(frozen=True)
class Letter:
    """A message that is to die."""

    body: bytes = b"{}"
    reason: str = "sour"
    description: str = ""
    properties: dict[str, object] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)

    def message(self) -> OutgoingMessage:
        return OutgoingMessage(body=self.body, properties=dict(self.properties), **self.fields)

    def outcome(self) -> bytes:
        info = {"DeadLetterReason": self.reason, "DeadLetterErrorDescription": self.description}
        return rejected(AmqpError("com.microsoft:dead-letter", "", info))


class Letters:
    """A bus to bury letters in, or to look at them."""

    def __init__(self, connection_string: str) -> None:
        self._place = parse_connection_string(connection_string)

    def bury(self, queue: str, letters: Sequence[Letter], source: str | None = None) -> None:
        """Send messages and dead-letter each; `source` is where they are received."""
        self._run(self._bury(queue, letters, source or queue))

    async def _bury(self, queue: str, letters: Sequence[Letter], source: str) -> None:
        async with Bus.open(self._place) as bus:
            sender = await bus.sender(queue)
            session = letters[0].fields.get("session_id")
            receiver = await bus.receiver(source) if session is None else None
            if receiver is None:
                await sender.send_many([letter.message().encode() for letter in letters])
                held = await bus.session(source, session, wait_ms=5000)
                for letter, message in zip(letters, await held.collect(len(letters)), strict=True):
                    await held.settle([message], letter.outcome())
                return
            for start in range(0, len(letters), ROUND):
                some = letters[start : start + ROUND]
                by_body: dict[bytes, Letter] = {letter.body: letter for letter in some}
                await sender.send_many([letter.message().encode() for letter in some])
                left = len(some)
                while left:
                    found = await receiver.collect(left)
                    outcomes = [
                        by_body[body_of(IncomingMessage(message.payload))].outcome()
                        for message in found
                    ]
                    settled = zip(found, outcomes, strict=True)
                    await asyncio.gather(*(receiver.settle([m], o) for m, o in settled))
                    left -= len(found)

    def kill(self, queue: str) -> None:
        """Dead-letter everything that waits in a queue."""
        self._run(self._drain(queue, Letter().outcome()))

    async def _drain(self, queue: str, outcome: bytes) -> None:
        async with Bus.open(self._place) as bus:
            receiver = await bus.receiver(queue)
            while found := await receiver.collect(ROUND):
                await receiver.settle(found, outcome)

    def look(self, path: str) -> list[IncomingMessage]:
        """Everything in a queue, or in its dead-letter queue."""
        return self._run(self._look(path))

    async def _look(self, path: str) -> list[IncomingMessage]:
        async with Bus.open(self._place) as bus:
            management, found, number = await bus.management(path), [], 0
            while page := await management.peek(number, 250):
                found += page
                number = page[-1].sequence_number + 1
            return found

    def dead(self, path: str) -> list[IncomingMessage]:
        return self.look(f"{path}/$DeadLetterQueue")

    def bodies(self, path: str) -> list[bytes]:
        return sorted(body_of(message) for message in self.look(path))

    def dead_bodies(self, path: str) -> list[bytes]:
        return self.bodies(f"{path}/$DeadLetterQueue")

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(work)


def body_of(message: IncomingMessage) -> bytes:
    body = message.body()[1]
    assert isinstance(body, bytes)
    return body
