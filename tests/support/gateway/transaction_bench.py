"""A client of the in-memory bus that speaks of transactions, frame by frame.

Owns the control link and the way to put a transactional state into a transfer, which our own
engine never sends. Everything can be sent without waiting for answers, so that tests see what
happens to clients that pipeline.
"""

from typing import Final

from partibus.amqp.codec.encode import (
    ENCODED_FALSE,
    ENCODED_NULL,
    ENCODED_TRUE,
    encode_binary,
    encode_described_list,
    encode_value,
)
from partibus.amqp.codec.properties import MessageProperties
from partibus.amqp.codec.sections import encode_application_properties, encode_properties
from partibus.amqp.delivery import ACCEPTED, Declared, Rejected, transactional_state
from partibus.amqp.events import DispositionReceived, IncomingSettled, TransferReceived
from partibus.amqp.link import Link
from partibus.amqp.session import Session
from partibus.amqp.terminus import encode_source
from partibus.testing.bus import BusBench, ClientBench

COORDINATOR: Final = encode_described_list(0x30, [])
_REST: Final = b"\x40\x40\x42\x42\x41"
"""rcv-settle-mode, state and the flags behind them, as our engine writes them."""


def with_state(frames: bytes, state: bytes) -> bytes:
    """The frames of a transfer with a delivery state in the first of them."""
    size = int.from_bytes(frames[:4], "big")
    frame, rest = frames[:size], frames[size:]
    list_size = frame[12]
    end = 13 + list_size
    assert frame[8:12] == b"\x00\x53\x14\xc0" and frame[end - 5 : end] == _REST
    fields = frame[13 : end - 5] + b"\x40" + state + _REST[2:]
    assert len(fields) < 256
    whole = frame[4:12] + bytes((len(fields),)) + fields + frame[end:]
    return (len(whole) + 4).to_bytes(4, "big") + whole + rest


def declare_message() -> bytes:
    return b"\x00\x53\x77" + encode_described_list(0x31, [ENCODED_NULL])


def discharge_message(txn_id: bytes, fail: bool) -> bytes:
    flag = ENCODED_TRUE if fail else ENCODED_FALSE
    return b"\x00\x53\x77" + encode_described_list(0x32, [encode_binary(txn_id), flag])


class TransactionClient:
    """One client with a control link."""

    def __init__(self, bus: BusBench, *, attaches: bool = True) -> None:
        self.bus = bus
        self.client: ClientBench = bus.client()
        # Room in full frames for the states that are put into them.
        self.client.engine.frame_size_out -= 256
        self._names = 0
        self.control = self.attach_control() if attaches else None

    # --- links ------------------------------------------------------------------------------

    def attach_control(self) -> Link:
        self._names += 1
        link = self.client.session.attach(
            f"control-{self._names}",
            is_sender=True,
            source=encode_source("client"),
            target=COORDINATOR,
            snd_settle_mode=0,
            rcv_settle_mode=0,
        )
        self.client.run()
        return link

    def link(self, address: str, *, sends: bool, **more: object) -> Link:
        self._names += 1
        name = f"link-{self._names}"
        return self.client.attach(address, sends=sends, name=name, **more)  # type: ignore[arg-type]

    def other_session(self) -> Session:
        """Links that are attached from now on are in another AMQP session."""
        self.client.session = self.client.engine.begin()
        self.client.run()
        return self.client.session

    # --- transactions -------------------------------------------------------------------------

    def declare(self) -> bytes:
        assert self.control is not None
        self.client.send(self.control, [declare_message()])
        (state,) = self.outcomes()
        assert isinstance(state, Declared)
        return state.txn_id

    def discharge(self, txn_id: bytes, *, fail: bool = False, waits: bool = True) -> object:
        """Commit, or roll back; the outcome, unless it is not waited for."""
        assert self.control is not None
        self.control.send(discharge_message(txn_id, fail), b"t", False, 0, None)
        if not waits:
            self.push()
            return None
        self.client.run()
        (state,) = self.outcomes()
        return state

    def send(self, link: Link, payload: bytes, txn_id: bytes, **more: object) -> object:
        """Send in a transaction; the outcome."""
        self.post(link, payload, txn_id, **more)
        self.client.run()
        (state,) = self.outcomes()
        return state

    def post(
        self,
        link: Link,
        payload: bytes,
        txn_id: bytes,
        *,
        settled: bool = False,
        message_format: int = 0,
    ) -> None:
        """Send in a transaction without waiting for anything."""
        self.push()
        link.send(payload, b"t", settled, message_format, None)
        frame = self.client.engine.data_to_send()
        state = transactional_state(txn_id)
        self.client.connection.data_received(with_state(frame, state))

    def push(self) -> None:
        """Let what was written reach the gateway, and nothing else happen."""
        data = self.client.engine.data_to_send()
        if data:
            self.client.connection.data_received(data)

    def receive(self, link: Link, count: int) -> list[TransferReceived]:
        link.set_credit(count)
        self.client.run()
        events = self.client.take(TransferReceived)
        return [event for event in events if isinstance(event, TransferReceived)]

    def settle(
        self, link: Link, event: TransferReceived, txn_id: bytes, outcome: bytes = ACCEPTED
    ) -> object:
        """Settle in a transaction; the answer's state."""
        self.propose(link, event, txn_id, outcome)
        self.client.run()
        (answer,) = self.client.take(IncomingSettled)
        assert isinstance(answer, IncomingSettled)
        return answer.state

    def propose(
        self, link: Link, event: TransferReceived, txn_id: bytes, outcome: bytes = ACCEPTED
    ) -> None:
        link.propose(event.delivery_id, transactional_state(txn_id, outcome))

    def ask(
        self, address: str, operation: str, body: dict[str, object], txn_id: bytes
    ) -> tuple[int, bytes]:
        """A management request in a transaction: its status and its answer as it came."""
        ask = self.link(f"{address}/$management", sends=True)
        hear = self.link(f"{address}/$management", sends=False, settled=True)
        hear.set_credit(1)
        self.client.run()
        properties = MessageProperties(message_id="1", reply_to="client")
        payload = encode_properties(properties)
        payload += encode_application_properties({"operation": f"com.microsoft:{operation}"})
        self.post(ask, payload + b"\x00\x53\x77" + encode_value(body), txn_id)
        self.client.run()
        self.outcomes()
        (event,) = self.client.take(TransferReceived)
        assert isinstance(event, TransferReceived)
        ask.detach()
        hear.detach()
        self.client.run()
        at = event.payload.index(b"statusCode") + 10
        return int.from_bytes(event.payload[at + 1 : at + 5], "big"), event.payload

    def outcomes(self) -> list[object]:
        found: list[object] = []
        for event in self.client.take(DispositionReceived):
            assert isinstance(event, DispositionReceived)
            found += [event.state] * len(event.deliveries)
        return found


def refused(state: object) -> tuple[str, str]:
    """The condition and the text of a refusal."""
    assert isinstance(state, Rejected) and state.error is not None, state
    return state.error.condition, state.error.description
