"""Sending a stream of messages: one by one or in batches, as fast as possible or at a rate.

Owns the pace, the filling of batches and the count of what the bus has confirmed. A message
counts when the bus has it durably, not when it was written. Called by `send`, `dlq` and
`bench`; it knows nothing of options and prints nothing.
"""

from collections.abc import AsyncIterable
from typing import Final

from partibus.cli.progress import Advance
from partibus.client.links import Sender
from partibus.client.message import BATCH_FORMAT, OutgoingMessage, encode_batch
from partibus.client.messages.pacing import Pacer
from partibus.domain.annotations import BATCH_SIZE_PROPERTY

BATCH_BYTES_MAX: Final = 256 * 1024
"""The default if the bus gives no limit; every tier accepts it."""
_ENVELOPE_BYTES: Final = 512  # ids of the first message and the sections around them
_PER_MESSAGE_BYTES: Final = 8


class MessageStream:
    """Messages sent through one sender."""

    def __init__(self, sender: Sender, batch: int, pacer: Pacer) -> None:
        self._sender = sender
        self._batch = batch
        self._pacer = pacer
        self._first: OutgoingMessage | None = None
        self._encoded: list[bytes] = []
        self._bytes = 0
        self._bytes_max = batch_bytes_max(sender)
        self._sizes: list[int] = []

    @property
    def confirmed(self) -> int:
        """How many messages the bus has accepted; batches are confirmed in order."""
        if self._batch == 1:
            return self._sender.accepted
        return sum(self._sizes[: self._sender.accepted])

    async def put(self, message: OutgoingMessage) -> None:
        await self._pacer.next()
        payload = message.encode()
        if self._batch == 1:
            await self._sender.post(payload)
            return
        size = len(payload) + _PER_MESSAGE_BYTES
        if self._encoded and self._bytes + size > self._bytes_max:
            await self._post_batch()
        self._first = self._first or message
        self._encoded.append(payload)
        self._bytes += size
        if len(self._encoded) >= self._batch:
            await self._post_batch()

    async def finish(self) -> None:
        """Wait until everything is sent and confirmed; raises the first refusal."""
        await self._post_batch()
        await self._sender.confirmed()

    async def _post_batch(self) -> None:
        if self._first is None:
            return
        payload = encode_batch(self._first, self._encoded)
        self._sizes.append(len(self._encoded))
        self._first, self._encoded, self._bytes = None, [], 0
        await self._sender.post(payload, message_format=BATCH_FORMAT)


def batch_bytes_max(sender: Sender) -> int:
    """The maximum size of a batch on this link."""
    link = sender.usable()
    reported = link.properties.get(BATCH_SIZE_PROPERTY)
    most = int(reported) if isinstance(reported, int) else link.remote_max_message_size
    return (most or BATCH_BYTES_MAX) - _ENVELOPE_BYTES


async def send_stream(
    stream: MessageStream, messages: AsyncIterable[OutgoingMessage], advance: Advance
) -> None:
    """Send all of them, and report progress on the way."""
    async for message in messages:
        await stream.put(message)
        advance(stream.confirmed)
    await stream.finish()
    advance(stream.confirmed)
