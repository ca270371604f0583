"""One process of load: connections that send, or receive, one prepared message.

Owns the client's side of a measurement: blocking sockets, the engine as initiator, the
message encoded once, outcomes counted. A refused message or a lost connection ends it with
an error, so that no number ever stands for work that was not done. Started by `workers`,
which speaks to it by lines: a Job in, "ready" out, "go" in, an Outcome out.
"""

import gc
import json
import selectors
import socket
import sys
import time
from dataclasses import asdict, dataclass
from statistics import quantiles
from typing import Final

from partibus.amqp.codec.properties import MessageProperties, encode_properties
from partibus.amqp.codec.sections import encode_header
from partibus.amqp.connection import Connection
from partibus.amqp.delivery import ACCEPTED, Accepted
from partibus.amqp.events import (
    AttachConfirmed,
    CloseReceived,
    ConnectionFailed,
    DetachReceived,
    DispositionReceived,
    EndReceived,
    Event,
    FlowReceived,
    IncomingSettled,
    LinkFailed,
    SaslOutcomeReceived,
    SessionFailed,
    TransferReceived,
)
from partibus.amqp.link import Link
from partibus.amqp.settings import ConnectionSettings
from partibus.amqp.terminus import encode_source, encode_target

SILENCE_SECONDS_MAX: Final = 60.0
_READ_BYTES: Final = 1 << 18
_FLUSH_EVERY: Final = 64
_ENDS: Final = (
    CloseReceived,
    ConnectionFailed,
    DetachReceived,
    EndReceived,
    LinkFailed,
    SessionFailed,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What one process has to do."""

    port: int
    user: str
    password: str
    address: str
    sends: bool
    count: int
    size: int
    window: int
    """Unconfirmed messages of a sender, credit of a receiver; for each connection."""
    connections: int
    settles_second: bool
    """Receivers: the server settles (as Service Bus clients want it), or the client does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What it has done, and what that took."""

    seconds: float
    client_cpu_s: float
    round_trip_us_p50: float
    """0 unless each connection had one message in flight."""
    round_trip_us_p99: float


class LoadError(Exception):
    """The server did not do what a measurement needs."""


def encode_message(size: int) -> bytes:
    """A durable message with an id, as every SDK sends it, and `size` bytes of data."""
    properties = encode_properties(MessageProperties(message_id="0123456789abcdef"))
    body = b"\x00\x53\x75\xb0" + size.to_bytes(4, "big") + b"\xa5" * size
    return encode_header(True, 4, -1, 0) + properties + body


class Client:
    """One connection with one link; subclasses say what the link is for."""

    def __init__(self, job: Job, number: int, progress: "Progress") -> None:
        self.job = job
        self.progress = progress
        settings = ConnectionSettings(
            container_id=f"load-{number}", hostname="localhost", max_message_size=1 << 30
        )
        self.engine = Connection(settings, initiator=True, now_ms=0)
        self.socket = socket.create_connection(("127.0.0.1", job.port), SILENCE_SECONDS_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.engine.sasl_plain(job.user, job.password)
        self.engine.open()
        name = f"load-{number}"
        self.link: Link = self.engine.begin().attach(
            name,
            is_sender=job.sends,
            source=encode_source(name if job.sends else job.address),
            target=encode_target(job.address if job.sends else name),
            rcv_settle_mode=1 if job.settles_second and not job.sends else 0,
        )
        self.is_attached = False
        self.is_leaving = False
        self.flush()

    def flush(self) -> None:
        data = self.engine.data_to_send()
        if data:
            self.socket.sendall(data)

    def read(self) -> None:
        data = self.socket.recv(_READ_BYTES)
        if not data:
            raise LoadError("the server closed the connection")
        for event in self.engine.receive_data(data, 0):
            self.take(event)

    def take(self, event: Event) -> None:
        """Everything but messages."""
        if isinstance(event, AttachConfirmed):
            self.is_attached = True
        elif isinstance(event, SaslOutcomeReceived) and event.code != 0:
            raise LoadError("the server did not accept the password")
        elif isinstance(event, _ENDS) and not self.is_leaving:
            raise LoadError(f"the server ended the link: {event!r}")

    @property
    def is_ready(self) -> bool:
        return self.is_attached

    def pump(self) -> None:
        """Do what can be done now."""

    def close(self) -> None:
        """In good order: a server may drop what its session has not come to when it closes."""
        self.is_leaving = True
        self.link.detach()
        self.flush()
        while not self.link.detach_received:
            self.read()
        self.engine.close()
        self.flush()
        while not self.engine.closed:
            self.read()
        self.socket.close()


class Progress:
    """What all connections of this process have left to do."""

    def __init__(self, count: int) -> None:
        self.to_start = count
        self.to_finish = count
        self.round_trips_us: list[float] = []


class SendingClient(Client):
    def __init__(self, job: Job, number: int, progress: Progress) -> None:
        super().__init__(job, number, progress)
        self.payload = encode_message(job.size)
        self.message_format = 0
        self._in_flight = 0
        self._tag = 0
        self._sent_at = 0.0

    @property
    def is_ready(self) -> bool:
        return self.is_attached and self.link.credit > 0

    def pump(self) -> None:
        link = self.link
        progress = self.progress
        room = min(self.job.window - self._in_flight, progress.to_start, link.sendable())
        if room <= 0:
            return
        progress.to_start -= room
        self._in_flight += room
        self._sent_at = time.perf_counter()
        for number in range(room):
            self._tag += 1
            tag = self._tag.to_bytes(4, "big")
            link.send(self.payload, tag, False, self.message_format, None)
            if number % _FLUSH_EVERY == _FLUSH_EVERY - 1:
                self.flush()

    def take(self, event: Event) -> None:
        if isinstance(event, DispositionReceived):
            if not isinstance(event.state, Accepted):
                raise LoadError(f"the server did not accept a message: {event.state!r}")
            self._in_flight -= len(event.deliveries)
            self.progress.to_finish -= len(event.deliveries)
            if self.job.window == 1:
                took_us = 1e6 * (time.perf_counter() - self._sent_at)
                self.progress.round_trips_us.append(took_us)
        elif not isinstance(event, FlowReceived):
            super().take(event)


class ReceivingClient(Client):
    def pump(self) -> None:
        window = self.job.window
        if self.link.credit * 2 <= window:
            self.link.set_credit(window)

    def take(self, event: Event) -> None:
        if isinstance(event, TransferReceived):
            if len(event.payload) < self.job.size:
                raise LoadError("a message came back shorter than it was sent")
            if self.job.settles_second:
                self.link.propose(event.delivery_id, ACCEPTED)
            else:
                self.link.settle(event.delivery_id, ACCEPTED)
                self.progress.to_finish -= 1
        elif isinstance(event, IncomingSettled):
            if not isinstance(event.state, Accepted):
                raise LoadError(f"the server did not complete a message: {event.state!r}")
            self.progress.to_finish -= event.last - event.first + 1
        else:
            super().take(event)


def run(job: Job) -> None:
    """Connect, say so, wait for the word, work, and tell what it took."""
    progress = Progress(job.count)
    kind: type[Client] = SendingClient if job.sends else ReceivingClient
    clients = [kind(job, number, progress) for number in range(job.connections)]
    for client in clients:
        while not client.is_ready:
            client.read()
            client.flush()
    gc.collect()
    gc.disable()
    print("ready", flush=True)
    sys.stdin.readline()
    started, cpu_started = time.perf_counter(), time.process_time()
    work(clients, progress)
    for client in clients:
        client.close()
    seconds, cpu_s = time.perf_counter() - started, time.process_time() - cpu_started
    p50 = p99 = 0.0
    if len(progress.round_trips_us) > 1:
        cuts = quantiles(progress.round_trips_us, n=100)
        p50, p99 = cuts[49], cuts[98]
    outcome = Outcome(
        seconds=seconds, client_cpu_s=cpu_s, round_trip_us_p50=p50, round_trip_us_p99=p99
    )
    print(json.dumps(asdict(outcome)), flush=True)


def work(clients: list[Client], progress: Progress) -> None:
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client.socket, selectors.EVENT_READ, client)
            client.pump()
            client.flush()
        while progress.to_finish > 0:
            ready = selector.select(SILENCE_SECONDS_MAX)
            if not ready:
                raise LoadError(f"nothing came while {progress.to_finish} messages were missing")
            for key, _ in ready:
                client = key.data
                client.read()
                client.pump()
                client.flush()


if __name__ == "__main__":
    run(Job(**json.loads(sys.stdin.readline())))
