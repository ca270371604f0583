"""The spans of work in a transaction: there when it has ended, with how it ended."""

from itertools import count

import pytest

from partibus.amqp.codec.properties import MessageProperties
from partibus.amqp.codec.sections import encode_application_properties, encode_properties
from partibus.amqp.delivery import Accepted
from partibus.domain.errors import TransactionRolledBack
from partibus.gateway.tracing import EndedSpan, Operation, Tracing
from partibus.message.trace_context import TraceContext
from support.gateway.messages import plain
from support.gateway.transaction_bus import TransactionBus, is_taken

SAMPLED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Recorder:
    def __init__(self) -> None:
        self.spans: list[EndedSpan] = []

    def record(self, span: EndedSpan) -> TraceContext:
        self.spans.append(span)
        return span.parent

    def take(self, *names: str) -> list[EndedSpan]:
        """The spans with these names, in the order in which they ended."""
        return [span for span in self.spans if span.name in names]


def traced(message_id: str) -> bytes:
    head = encode_properties(MessageProperties(message_id=message_id))
    return head + encode_application_properties({"traceparent": SAMPLED}) + b"\x00\x53\x75\xa0\x01x"


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def bus(recorder: Recorder) -> TransactionBus:
    made, ticks = TransactionBus(), count(1_000_000_000)
    made.bus.gateway.trace(Tracing(recorder, lambda: next(ticks)))
    return made


def test_sends_and_settlements_have_spans_when_they_are_committed(
    bus: TransactionBus, recorder: Recorder
) -> None:
    assert is_taken(bus.settle("q", traced("in")))
    assert is_taken(bus.send("q", traced("out")))
    assert is_taken(bus.send("q", plain(1)))
    before = len(recorder.spans)
    assert isinstance(bus.commit(), Accepted)
    settled, sent = recorder.spans[before:]
    assert (settled.name, settled.operation) == ("complete q", Operation.SETTLE)
    assert (sent.name, sent.operation) == ("send q", Operation.SEND)
    assert settled.attributes["messaging.message.id"] == "in"
    assert sent.attributes["messaging.message.id"] == "out"
    assert settled.attributes["messaging.servicebus.disposition_status"] == "complete"
    for span in (settled, sent):
        assert span.error is None
        assert span.start_ns < span.end_ns
        assert span.attributes["partibus.transaction.id"] == bus.txn_id.hex()


def test_what_is_rolled_back_is_an_error(bus: TransactionBus, recorder: Recorder) -> None:
    assert is_taken(bus.send("q", traced("out")))
    assert isinstance(bus.client.discharge(bus.txn_id, fail=True), Accepted)
    (span,) = recorder.take("send q")
    assert isinstance(span.error, TransactionRolledBack)


def test_what_fails_with_its_transaction_is_an_error(
    bus: TransactionBus, recorder: Recorder
) -> None:
    assert is_taken(bus.send("q", traced("out")))
    assert not is_taken(bus.send("sessions", traced("no session")))
    (span,) = recorder.take("send q")
    assert isinstance(span.error, TransactionRolledBack)
    bus.commit()
    assert len(recorder.take("send q")) == 1
