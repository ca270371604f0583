"""Rows of another worker: frames into a channel, requests for a host, answers for a far broker.

A frame that cannot be read cuts the connection, which is what the channel is for; nothing may
come out of it, and nothing may be kept that is much larger than what came.
"""

from typing import Any, Final

import msgspec

from fuzz.target import Target
from partibus.cluster import codes
from partibus.cluster.channel import PeerChannel, log
from partibus.cluster.hosting import Host
from partibus.cluster.remote import FarBroker
from partibus.cluster.rows import Row
from partibus.fragment.commands import Consumer, Peek, SubQueueType
from partibus.fragment.sessions.commands import SessionConsumer
from partibus.testing.clock import ManualClock
from partibus.testing.fragment import Inbox, Ports
from partibus.testing.scheduler import ManualScheduler

UNSENT_MAX: Final = 1 << 24


class _Loop:
    """A loop that never turns."""

    def time(self) -> float:
        return 0.0

    def call_soon(self, _callback: object) -> None: ...


class _Transport:
    def __init__(self) -> None:
        self.is_cut = False

    def write(self, _data: bytes) -> None: ...

    def is_closing(self) -> bool:
        return self.is_cut

    def abort(self) -> None:
        self.is_cut = True

    def set_write_buffer_limits(self, _high: int, _low: int) -> None: ...


class _Writer:
    """Where answers go."""

    is_full = False

    def __init__(self) -> None:
        self.byte_count = 0

    def post(self, _row: Row, byte_count: int) -> None:
        self.byte_count += byte_count


class _Fragment:
    """Takes commands and does nothing: the machine trusts the types of a worker's commands."""

    def submit(self, _command: object) -> None: ...

    def consumer(self, receiver: Any, subqueue: SubQueueType, deletes: bool) -> Consumer:
        return Consumer(1, receiver, subqueue, deletes)

    def session_consumer(self, receiver: Any, deletes: bool) -> SessionConsumer:
        return SessionConsumer(1, receiver, deletes)


def _feed(data: bytes, receive: Any) -> None:
    """Bytes of the far process, in two reads; the first byte says where they are cut."""
    loop: Any = _Loop()
    transport: Any = _Transport()
    channel = PeerChannel(loop, receive, lambda: None)
    channel.connection_made(transport)
    cut = len(data) * data[0] // 256
    was_disabled, log.disabled = log.disabled, True  # a broken frame is told with a traceback
    try:
        for piece in (data[1 : cut + 1], data[cut + 1 :]):
            if not transport.is_cut:
                channel.data_received(piece)
    finally:
        log.disabled = was_disabled
    channel.flush()
    channel.connection_lost(None)


def requests(data: bytes) -> None:
    """What a far process asks of the fragments here: one that is there, and others."""
    if not data:
        return
    writer = _Writer()
    there: Any = _Fragment()
    host = Host(writer, lambda number: there if number == 1 else None, lambda _n, _p: b"{}")
    _feed(data, host.receive)
    host.close()
    assert writer.byte_count < UNSENT_MAX, "a few bytes are answered by very many"


def answers(data: bytes) -> None:
    """What a far process answers, or delivers without being asked."""
    if not data:
        return
    scheduler = ManualScheduler(ManualClock())
    far = FarBroker(1, scheduler)
    writer = _Writer()
    far.connected(writer)
    far.submit(1, Peek(Ports(), SubQueueType.MAIN, 0, 10, 1 << 18, None))
    far.consumer(1, Inbox(), SubQueueType.MAIN, False)
    _feed(data, far.receive)
    far.disconnected([])
    scheduler.run()


def _frame(*made: Row) -> bytes:
    body = msgspec.msgpack.encode(list(made))
    return b"\x80" + len(body).to_bytes(4, "big") + body


MESSAGE: Final = (b"\x01body", -1, 0, None, None, None)
HELD: Final = (1, 4, 1000, 0, 0, 7, 31_000, 0, None)


def _request_seeds() -> list[bytes]:
    return [
        _frame((codes.ENQUEUE, 1, 1, [MESSAGE], 1, 5, None)),
        _frame((codes.OPEN, 2, 1, 0, False), (codes.DEMAND, 2, 10, True), (codes.DETACH, 2)),
        _frame((codes.SETTLE, 3, 1, 0, [1], 0, None), (codes.RENEW, 4, 1, 0, [1])),
        _frame((codes.PEEK, 5, 1, 0, 0, 10, 1000, None), (codes.PURGE, 6, 1, 0, 10, 10**13, None)),
        _frame((codes.RECEIVE_DEFERRED, 7, 1, 0, [1], False, None, 0), (codes.PING, 0)),
        _frame((codes.OPEN_SESSION, 8, 1, False), (codes.ACCEPT, 8, "s", False)),
        _frame((codes.SET_SESSION_STATE, 9, 1, "s", 1, b"x"), (codes.LIST_SESSIONS, 9, 1, 0, 0, 5)),
        _frame((64, 10, 1, [[2, 1, 1, 0, [1], 0, None]], 100), (codes.ASK, 11, 0, "name", b"{}")),
        _frame((14, 12, 1, [MESSAGE], 1, 5, "there"), (15, 13, 1, 2, 3)),
        _frame((codes.ENQUEUE, 1, 1, [MESSAGE], 1 << 40, 5, None)),
    ]


def _answer_seeds() -> list[bytes]:
    error = ("ServerBusy", "later", "id")
    return [
        _frame((codes.FOUND, 1, [HELD], [b"body"])),
        _frame((codes.FAILED, 1, error), (codes.PONG, 0, [(0, 1, 2, 0)])),
        _frame((codes.DELIVERED, 1, [HELD], [b"body"]), (codes.DRAINED, 1), (codes.AVAILABLE, 1)),
        _frame((codes.STORES_DOWN, 0, [1]), (codes.UNSENDABLE, 1, error)),
        _frame((codes.ACCEPTED, 1, "s", 1000, 1), (codes.SESSION_LOST, 1, error)),
    ]


TARGETS: Final = (
    Target(
        name="peer-requests",
        takes="frames of rows that ask",
        execute=requests,
        answers=(),
        seeds=_request_seeds,
    ),
    Target(
        name="peer-answers",
        takes="frames of rows that answer",
        execute=answers,
        answers=(),
        seeds=_answer_seeds,
    ),
)
