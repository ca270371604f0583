"""Messages that come in several frames, until the last one is there [2.6.14].

Owns the received frames of such messages, how much memory they use over all links of a connection,
and how long a message may stall. Must never join frames or read a message. Links add their frames;
the connection asks which messages have stalled.
"""

from typing import TYPE_CHECKING

from partibus.amqp import conditions
from partibus.amqp.delivery import DeliveryState
from partibus.amqp.errors import AmqpError, LinkError
from partibus.amqp.framing import piece_of
from partibus.amqp.settings import (
    ASSEMBLY_BYTES_MAX,
    FRAME_OVERHEAD_BYTES,
    UNFINISHED_MS_MAX,
    UNFINISHED_STEP_BYTES,
)
from partibus.amqp.transfer import TransferTail

if TYPE_CHECKING:
    from partibus.amqp.link import Link


class Assembly:
    """A message with some of its frames.

    `size` counts all of them, `held` what is kept in memory: once a message is known to be too
    large, or was refused for lack of memory, the rest of it is only counted. The frames are not
    joined here: `first` contains the first between `first_start` and `first_end`, `rest` the
    others.
    """

    __slots__ = (
        "delivery_id",
        "first",
        "first_end",
        "first_start",
        "held",
        "is_turned_away",
        "message_format",
        "progress_ms",
        "progress_size",
        "rest",
        "settled",
        "size",
        "state",
        "tag",
    )

    def __init__(self, delivery_id: int, tag: bytes, tail: TransferTail, now_ms: int) -> None:
        self.delivery_id = delivery_id
        self.tag = tag
        self.message_format = tail.message_format if tail.message_format >= 0 else 0
        self.settled = False
        self.state: DeliveryState | None = None
        self.first = b""
        self.first_start = 0
        self.first_end = 0
        self.rest: list[bytes | memoryview] = []
        self.size = 0
        self.held = 0
        self.is_turned_away = False
        self.progress_ms = now_ms
        self.progress_size = 0

    def belongs(self, delivery_id: int, tag: bytes | None, tail: TransferTail) -> bool:
        """Whether this transfer may continue the message: repeated fields must be equal [2.7.5]."""
        return (
            (delivery_id < 0 or delivery_id == self.delivery_id)
            and (tag is None or tag == self.tag)
            and (tail.message_format < 0 or tail.message_format == self.message_format)
        )

    def add(self, buf: bytes, start: int, end: int, tail: TransferTail, now_ms: int) -> int:
        """Add a frame; returns the bytes that it uses from now on.

        `settled` on any frame settles the delivery; the last state counts.
        """
        if self.is_turned_away:
            pass
        elif self.size:
            self.rest.append(piece_of(buf, start, end))
        elif 2 * (end - start) >= len(buf):
            self.first, self.first_start, self.first_end = buf, start, end
        else:
            self.first, self.first_start, self.first_end = buf[start:end], 0, end - start
        self.size += end - start
        self.settled = self.settled or tail.settled
        if tail.state is not None:
            self.state = tail.state
        if self.size - self.progress_size >= UNFINISHED_STEP_BYTES:
            self.progress_size = self.size
            self.progress_ms = now_ms
        if self.is_turned_away:
            return 0
        held = end - start + FRAME_OVERHEAD_BYTES
        self.held += held
        return held

    def drop(self) -> int:
        """Free the bytes; returns how many."""
        held = self.held
        self.first, self.first_start, self.first_end = b"", 0, 0
        self.rest.clear()
        self.held = 0
        return held


class Unfinished:
    """The incomplete messages of one connection.

    The owner may set `bytes_max`: messages beyond it are refused, which is reported to the sender
    at the end of the message.
    """

    __slots__ = ("_by_link", "bytes_held", "bytes_max")

    def __init__(self) -> None:
        self._by_link: dict[Link, Assembly] = {}
        self.bytes_held = 0
        self.bytes_max = ASSEMBLY_BYTES_MAX

    def begin(self, link: "Link", assembly: Assembly) -> None:
        self._by_link[link] = assembly

    def add(
        self, link: "Link", buf: bytes, start: int, end: int, tail: TransferTail, now_ms: int
    ) -> None:
        """Add the next frame of the link's message."""
        assembly = self._by_link[link]
        self.bytes_held += assembly.add(buf, start, end, tail, now_ms)
        if assembly.size > link.max_message_size:
            self.bytes_held -= assembly.drop()
        elif self.bytes_held <= self.bytes_max or not tail.more:
            return
        elif self.bytes_max < ASSEMBLY_BYTES_MAX:
            self.bytes_held -= assembly.drop()
            assembly.is_turned_away = True
        else:
            raise LinkError(
                link,
                conditions.RESOURCE_LIMIT_EXCEEDED,
                "Unfinished messages use too much memory. Finish one before starting another.",
            )

    def forget(self, link: "Link") -> None:
        """The link's message is complete, was aborted, or its link has ended."""
        assembly = self._by_link.pop(link, None)
        if assembly is not None:
            self.bytes_held -= assembly.held

    def take(self) -> list[bytes | memoryview]:
        """Release everything; returns what was kept."""
        held: list[bytes | memoryview] = []
        for assembly in self._by_link.values():
            held.append(assembly.first)
            held += assembly.rest
            self.bytes_held -= assembly.drop()
        return held

    # --- time -----------------------------------------------------------------------------------

    def stalled(self, now_ms: int, condition: str) -> list[tuple["Link", AmqpError]]:
        """Links to detach: an incomplete message without progress would be kept forever."""
        ended: list[tuple[Link, AmqpError]] = []
        for link, assembly in self._by_link.items():
            if now_ms - assembly.progress_ms >= UNFINISHED_MS_MAX:
                text = (
                    f"A message was not finished: after {assembly.size} bytes nothing arrived for "
                    f"{UNFINISHED_MS_MAX // 1000} s. Send it again."
                )
                ended.append((link, AmqpError(condition, text)))
        return ended

    def excuse(self, now_ms: int) -> None:
        """The peer was not read from meanwhile, so the stall is not its fault."""
        for assembly in self._by_link.values():
            assembly.progress_ms = now_ms

    def sooner(self, next_ms: int | None) -> int | None:
        """When the first message will have stalled for too long, if that is sooner."""
        for assembly in self._by_link.values():
            stalled_ms = assembly.progress_ms + UNFINISHED_MS_MAX
            next_ms = stalled_ms if next_ms is None else min(next_ms, stalled_ms)
        return next_ms
