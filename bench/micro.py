"""The hot functions alone, in one process: microseconds for each message.

Owns a small rig for each of them: what a call needs is made ready outside the clock, then
one call handles BATCH messages, as one read of a busy socket brings them. For finding out
what a change of a function did; what the server does as a whole, the scenarios tell.
`python -m bench --micro`.
"""

import gc
import queue
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from bench.load import encode_message
from partibus.amqp.codec.section_walk import parse_sections
from partibus.amqp.connection import Connection
from partibus.amqp.delivery import ACCEPTED, Delivery
from partibus.amqp.events import AttachReceived, DispositionReceived, OpenReceived, TransferReceived
from partibus.amqp.link import Link
from partibus.amqp.settings import ConnectionSettings
from partibus.amqp.terminus import encode_source, encode_target
from partibus.domain.errors import BusError
from partibus.fragment.changes import Change
from partibus.fragment.commands import Consumer, Demand, Enqueue, Outcome, Settle, SubQueueType
from partibus.fragment.effects import Effects
from partibus.fragment.machine import Machine
from partibus.fragment.message import Held, NewMessage
from partibus.fragment.spec import FragmentSpec
from partibus.fragment.state import State
from partibus.message.envelope import to_delivery, to_stored
from partibus.ops.compiled import is_compiled
from partibus.store.files.log import SegmentStore
from partibus.store.record import Record

BATCH: Final = 100
ROUNDS: Final = 300
_SIZE: Final = 1024
_SPEC: Final = FragmentSpec(lock_duration_ms=60_000, max_delivery_count=10)
_TOKEN: Final = bytes(16)


class Timed:
    """One hot function: `prepare` makes a batch ready, `work` is what the clock sees."""

    name: str

    def prepare(self) -> None:
        """Nothing, for functions without state."""

    def work(self) -> None:
        raise NotImplementedError

    def tidy(self) -> None:
        """Undo what `work` has left, outside the clock."""


# --- messages ---------------------------------------------------------------------------------


class ParseSections(Timed):
    name = "amqp: parse_sections"

    def __init__(self) -> None:
        self._payload = encode_message(_SIZE)

    def work(self) -> None:
        for _ in range(BATCH):
            parse_sections(self._payload)


class ToStored(Timed):
    name = "gateway: to_stored"

    def __init__(self) -> None:
        self._payload = encode_message(_SIZE)

    def work(self) -> None:
        for _ in range(BATCH):
            to_stored(self._payload)


class ToDelivery(Timed):
    name = "gateway: to_delivery"

    def __init__(self) -> None:
        self._stored = to_stored(encode_message(_SIZE)).body
        self._held = Held(1, 1, len(self._stored), 1_700_000_000_000, 0, 0, None)

    def work(self) -> None:
        for sequence in range(BATCH):
            to_delivery(self._stored, self._held, sequence, _TOKEN)


# --- the engine -------------------------------------------------------------------------------


class Engines:
    """A client and a server engine with one link between them, and no socket."""

    def __init__(self, client_sends: bool) -> None:
        settings = ConnectionSettings(container_id="micro", max_message_size=1 << 30)
        self.client = Connection(settings, initiator=True, now_ms=0)
        self.server = Connection(settings, now_ms=0)
        self.client.open()
        self.client_link = self.client.begin().attach(
            "link",
            is_sender=client_sends,
            source=encode_source("here"),
            target=encode_target("there"),
        )
        self.server_link = self._attach()
        self._payload = encode_message(_SIZE)

    def _attach(self) -> Link:
        for event in self.server.receive_data(self.client.data_to_send(), 0):
            if isinstance(event, OpenReceived):
                self.server.open()
            elif isinstance(event, AttachReceived):
                event.link.accept()
                link = event.link
        self.client.receive_data(self.server.data_to_send(), 0)
        return link

    def grant(self, receiver: Link) -> None:
        receiver.set_credit(BATCH)
        self.exchange()

    def exchange(self) -> None:
        self.client.receive_data(self.server.data_to_send(), 0)
        self.server.receive_data(self.client.data_to_send(), 0)

    def send(self, sender: Link) -> None:
        for number in range(BATCH):
            sender.send(self._payload, number.to_bytes(4, "big"), False, 0, None)


class ReceiveTransfers(Timed):
    name = "amqp: transfers in"

    def __init__(self) -> None:
        self._engines = Engines(client_sends=True)

    def prepare(self) -> None:
        engines = self._engines
        engines.grant(engines.server_link)
        engines.send(engines.client_link)
        self._data = engines.client.data_to_send()

    def work(self) -> None:
        self.events = self._engines.server.receive_data(self._data, 0)

    def tidy(self) -> None:
        for event in self.events:
            assert isinstance(event, TransferReceived)
            event.link.settle(event.delivery_id, ACCEPTED)
        self._engines.exchange()


class SettleReceived(ReceiveTransfers):
    name = "amqp: confirmations out"

    def prepare(self) -> None:
        super().prepare()
        super().work()

    def work(self) -> None:
        for event in self.events:
            assert isinstance(event, TransferReceived)
            event.link.settle(event.delivery_id, ACCEPTED)
        self._data = self._engines.server.data_to_send()

    def tidy(self) -> None:
        self._engines.client.receive_data(self._data, 0)


class SendTransfers(Timed):
    name = "amqp: transfers out"

    def __init__(self) -> None:
        self.engines = Engines(client_sends=False)

    def prepare(self) -> None:
        self.engines.grant(self.engines.client_link)

    def work(self) -> None:
        self.engines.send(self.engines.server_link)
        self.data = self.engines.server.data_to_send()

    def tidy(self) -> None:
        self.propose()
        for event in self.engines.server.receive_data(self.engines.client.data_to_send(), 0):
            assert isinstance(event, DispositionReceived)
            self.settle(event.deliveries)
        self.engines.exchange()

    def propose(self) -> None:
        for event in self.engines.client.receive_data(self.data, 0):
            assert isinstance(event, TransferReceived)
            event.link.propose(event.delivery_id, ACCEPTED)

    @staticmethod
    def settle(deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            delivery.link.settle_sent(delivery, ACCEPTED)


class TakeSettlements(SendTransfers):
    name = "amqp: settlements in and answered"

    def prepare(self) -> None:
        super().prepare()
        super().work()
        self.propose()
        self.data = self.engines.client.data_to_send()

    def work(self) -> None:
        for event in self.engines.server.receive_data(self.data, 0):
            assert isinstance(event, DispositionReceived)
            self.settle(event.deliveries)
        self.data = self.engines.server.data_to_send()

    def tidy(self) -> None:
        self.engines.client.receive_data(self.data, 0)


# --- the machine ------------------------------------------------------------------------------


class Nobody:
    """Takes every answer and does nothing with it."""

    def confirmed(
        self, requests: Sequence[int], first_sequence: int, dropped: Sequence[int] = ()
    ) -> None: ...

    def refused(self, requests: Sequence[int], error: BusError) -> None: ...

    def settled(self, request: object, lost: Sequence[int], error: BusError | None) -> None: ...

    def deliver(self, messages: Sequence[Held], bodies: Sequence[bytes]) -> None: ...

    def drained(self) -> None: ...

    def available(self) -> None: ...

    def interrupted(self) -> None: ...

    def resumed(self) -> None: ...


class Fragment:
    """A machine without a broker; every change is durable at once."""

    def __init__(self) -> None:
        self.machine = Machine(State(1, _SPEC))
        self._nobody = Nobody()
        self._consumer = Consumer(1, self._nobody, SubQueueType.MAIN, False)
        self._body = bytes(_SIZE)
        self._position = 0

    def enqueue(self, messages: list[NewMessage]) -> None:
        command = Enqueue(self._nobody, messages, list(range(BATCH)), BATCH * _SIZE)
        out = Effects()
        self.machine.apply(command, 1, out)
        self._commit(out.changes)

    def messages(self) -> list[NewMessage]:
        return [NewMessage(self._body, -1, 0) for _ in range(BATCH)]

    def deliver(self) -> None:
        out = Effects()
        self.machine.apply(Demand(self._consumer, self._consumer.sent + BATCH, False), 1, out)

    def settle(self) -> None:
        tokens = list(self.machine.state.main.locks)
        command = Settle(self._nobody, None, SubQueueType.MAIN, tokens, Outcome.COMPLETE)
        out = Effects()
        self.machine.apply(command, 1, out)
        self._commit(out.changes)

    def _commit(self, changes: list[Change]) -> None:
        for change in changes:
            for record in change.records:
                self._position += _SIZE
                record.position = self._position
            self.machine.commit(change, 1, Effects())


class MachineEnqueue(Timed):
    name = "fragment: enqueue"

    def __init__(self) -> None:
        self.fragment = Fragment()
        self.messages: list[NewMessage] = []

    def prepare(self) -> None:
        self.messages = self.fragment.messages()

    def work(self) -> None:
        self.fragment.enqueue(self.messages)

    def tidy(self) -> None:
        self.fragment.deliver()
        self.fragment.settle()


class MachineDeliver(MachineEnqueue):
    name = "fragment: deliver"

    def prepare(self) -> None:
        self.fragment.enqueue(self.fragment.messages())

    def work(self) -> None:
        self.fragment.deliver()

    def tidy(self) -> None:
        self.fragment.settle()


class MachineSettle(MachineDeliver):
    name = "fragment: settle"

    def prepare(self) -> None:
        super().prepare()
        self.fragment.deliver()

    def work(self) -> None:
        self.fragment.settle()

    def tidy(self) -> None:
        """All are gone."""


# --- the store --------------------------------------------------------------------------------


class StoreAppend(Timed):
    """The loop thread's part; the write and the sync happen in the store's own thread."""

    name = "store: append"

    def __init__(self, directory: Path) -> None:
        self._news: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.store = SegmentStore(directory, notify=self._news.put)
        list(self.store.open().records)
        self._body = bytes(_SIZE)
        self._is_durable = False
        self.records: list[Record] = []

    def prepare(self) -> None:
        self.records = [Record(1, 1, bytes(24), self._body) for _ in range(BATCH)]
        self._is_durable = False

    def work(self) -> None:
        self.store.append(self.records, self._durable)

    def _durable(self, error: BusError | None) -> None:
        assert error is None
        self._is_durable = True

    def tidy(self) -> None:
        while not self._is_durable:
            self._news.get()()


class StoreRead(StoreAppend):
    name = "store: read_now"

    def prepare(self) -> None:
        super().prepare()
        super().work()
        super().tidy()
        self._refs = [(record.position, len(record.body)) for record in self.records]

    def work(self) -> None:
        assert self.store.read_now(self._refs) is not None

    def tidy(self) -> None:
        """Nothing was changed."""


def microseconds(timed: Timed) -> float:
    """The median over all rounds, for one message."""
    taken: list[int] = []
    for _ in range(ROUNDS):
        timed.prepare()
        started = time.perf_counter_ns()
        timed.work()
        taken.append(time.perf_counter_ns() - started)
        timed.tidy()
    return median(taken) / 1000 / BATCH


def main() -> None:
    gc.disable()
    print(f"{'compiled' if is_compiled() else 'interpreted'}, us for each message of {_SIZE} bytes")
    with tempfile.TemporaryDirectory(prefix="micro-") as root:
        stores = [StoreAppend(Path(root, "append")), StoreRead(Path(root, "read"))]
        rigs: list[Timed] = [
            ParseSections(),
            ToStored(),
            ToDelivery(),
            ReceiveTransfers(),
            SettleReceived(),
            SendTransfers(),
            TakeSettlements(),
            MachineEnqueue(),
            MachineDeliver(),
            MachineSettle(),
            *stores,
        ]
        for timed in rigs:
            print(f"{timed.name:<36}{microseconds(timed):8.2f}")
        for rig in stores:
            rig.store.close()
