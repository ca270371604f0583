"""Receiving: rounds of messages, and what is done with each.

Owns the waiting (for the first message of a round as long as requested, then only for what is
there), the outcomes of settlement by their names, and the release of what was not settled. A
message is output before it is settled: at least once, never lost. Called by `receive` and `dlq`.
"""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Literal

from partibus.amqp.delivery import ACCEPTED, MODIFIED_FAILED, MODIFIED_UNDELIVERABLE, rejected
from partibus.amqp.errors import AmqpError
from partibus.client.bus import Bus
from partibus.client.errors import RemoteError
from partibus.client.links import ReceivedMessage, Receiver
from partibus.client.message import IncomingMessage
from partibus.domain import conditions
from partibus.domain.annotations import DEAD_LETTER_DESCRIPTION, DEAD_LETTER_REASON

Settle = Literal["complete", "abandon", "defer", "dead-letter"]
ROUND_MESSAGES_MAX: Final = 100
"""Few enough that printing them is short compared to a lock."""
# The names of the outcomes at the management node (amqp-contract 7.3).
STATUS: Final[dict[str, str]] = {
    "complete": "completed",
    "abandon": "abandoned",
    "defer": "defered",
    "dead-letter": "suspended",
}
GOODBYE_SECONDS: Final = 5.0
SESSION_SECONDS: Final = 60.0
_GUID_BYTES: Final = 16


@dataclass(slots=True, frozen=True, kw_only=True)
class Reception:
    """What is received, how, and how it is settled."""

    path: str
    session_id: str | None = None
    next_session: bool = False
    delete: bool = False
    wait_s: float | None = 5.0  # None: forever
    count: int | None = None  # None: all there are
    settle: Settle = "complete"
    reason: str | None = None
    description: str | None = None

    def outcome(self) -> bytes:
        """The outcome on the wire (amqp-contract 5.4)."""
        if self.settle == "complete":
            return ACCEPTED
        if self.settle == "abandon":
            return MODIFIED_FAILED
        if self.settle == "defer":
            return MODIFIED_UNDELIVERABLE
        info: dict[str, object] = {
            DEAD_LETTER_REASON: self.reason,
            DEAD_LETTER_DESCRIPTION: self.description,
        }
        return rejected(AmqpError(conditions.MICROSOFT_DEAD_LETTER, self.description or "", info))


def view(message: ReceivedMessage) -> IncomingMessage:
    """The message by field names; its lock token is the delivery tag (amqp-contract rule 8)."""
    tag = message.tag
    token = uuid.UUID(bytes_le=tag) if len(tag) == _GUID_BYTES and not message.settled else None
    return IncomingMessage(message.payload, token)


Show = Callable[[IncomingMessage], None]


async def receive_each(bus: Bus, reception: Reception, show: Show) -> None:
    """Receive, show and settle, round after round."""
    async with open_receiver(bus, reception) as receiver:
        if receiver is None:
            return
        async for messages in rounds(receiver, reception.count, reception.wait_s):
            try:
                for message in messages:
                    show(view(message))
            except BaseException:
                receiver.release(messages)
                raise
            await receiver.settle(messages, reception.outcome())


async def receive_deferred(bus: Bus, reception: Reception, numbers: list[int], show: Show) -> None:
    """The same for deferred messages, through the management node."""
    management = await bus.management(reception.path)
    found = await management.receive_deferred(
        numbers, delete=reception.delete, session_id=reception.session_id
    )
    for message in found:
        show(message)
    tokens = [message.lock_token for message in found if message.lock_token is not None]
    if tokens and not reception.delete:
        await management.settle(
            tokens,
            STATUS[reception.settle],
            reason=reception.reason or "",
            description=reception.description or "",
            session_id=reception.session_id,
        )


@asynccontextmanager
async def open_receiver(bus: Bus, reception: Reception) -> AsyncIterator[Receiver | None]:
    """A receiver, for a session if asked; None when no session was free in time."""
    if reception.session_id is None and not reception.next_session:
        receiver = await bus.receiver(reception.path, delete=reception.delete)
    else:
        wait_ms = round((SESSION_SECONDS if reception.wait_s is None else reception.wait_s) * 1000)
        try:
            receiver = await bus.session(
                reception.path,
                reception.session_id,
                delete=reception.delete,
                wait_ms=max(1, wait_ms),
            )
        except RemoteError as error:
            if error.condition != conditions.MICROSOFT_TIMEOUT:
                raise
            yield None
            return
    try:
        yield receiver
    finally:
        with contextlib.suppress(RemoteError, TimeoutError):
            async with asyncio.timeout(GOODBYE_SECONDS):
                await receiver.give_back()
                await receiver.close()


async def rounds(
    receiver: Receiver, count: int | None, wait_s: float | None
) -> AsyncIterator[list[ReceivedMessage]]:
    """Messages in rounds until `count` is reached or none came in time; None never ends."""
    left = count
    waiting: float | None = wait_s
    while left is None or left > 0:
        most = ROUND_MESSAGES_MAX if left is None else min(left, ROUND_MESSAGES_MAX)
        got = await _round(receiver, most, waiting)
        if not got:
            return
        if left is not None:
            left -= len(got)
        yield got
        waiting = wait_s if wait_s is None else 0.0


async def _round(receiver: Receiver, most: int, wait_s: float | None) -> list[ReceivedMessage]:
    if wait_s == 0:
        return await receiver.collect(most)
    try:
        async with asyncio.timeout(wait_s):
            return await receiver.receive(most)
    except TimeoutError:
        return await receiver.collect(most)
