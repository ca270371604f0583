"""Which spans a message has, and how they hang together."""

from collections.abc import Sequence
from itertools import count

from partibus.amqp.codec.properties import MessageProperties
from partibus.amqp.codec.sections import encode_application_properties, encode_properties
from partibus.domain.errors import BusError, MessageLockLost, StoreUnavailable
from partibus.fragment.commands import Outcome
from partibus.fragment.message import Held, NewMessage
from partibus.gateway.tracing import LOCKS_MAX, EndedSpan, Operation, Tracing, traced_port
from partibus.message.envelope import to_stored
from partibus.message.trace_context import TraceContext, traced_message

SAMPLED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
PARENT = 0xB7AD6B7169203331


class Recorder:
    def __init__(self) -> None:
        self.spans: list[EndedSpan] = []

    def record(self, span: EndedSpan) -> TraceContext:
        self.spans.append(span)
        return TraceContext(span.parent.trace_id, len(self.spans), True)


def traced() -> NewMessage:
    head = encode_properties(MessageProperties(message_id="m-1"))
    head += encode_application_properties({"traceparent": SAMPLED})
    return to_stored(head + b"\x00\x53\x75\xa0\x01x")


def untraced() -> NewMessage:
    return to_stored(b"\x00\x53\x75\xa0\x01x")


def tracing() -> tuple[Tracing, Recorder]:
    recorder, ticks = Recorder(), count(1_000_000_000)
    return Tracing(recorder, lambda: next(ticks)), recorder


def test_a_send_has_its_store_below_it() -> None:
    made, recorder = tracing()
    sends = made.sends("orders")
    sends.add([untraced(), traced()])
    sends.storing(2)
    sends.answered(None)
    assert not recorder.spans
    sends.ended()
    send, store = recorder.spans
    assert (send.operation, store.operation) == (Operation.SEND, Operation.STORE)
    assert send.parent.span_id == PARENT
    assert store.parent.span_id == 1
    assert send.start_ns < store.start_ns < store.end_ns < send.end_ns
    assert store.attributes["messaging.destination.partition.id"] == "2"
    assert send.attributes["messaging.message.id"] == "m-1"


def test_each_fragment_that_was_tried_has_a_span() -> None:
    made, recorder = tracing()
    sends = made.sends("orders")
    sends.add([traced()])
    sends.storing(0)
    sends.answered(StoreUnavailable())
    sends.storing(3)
    sends.answered(None)
    sends.ended()
    send, first, second = recorder.spans
    assert send.error is None
    assert isinstance(first.error, StoreUnavailable)
    assert second.error is None
    assert first.end_ns < second.start_ns


def test_a_delivery_begins_when_the_message_was_stored() -> None:
    made, recorder = tracing()
    held = Held(5, 0, 10, 4_000, 0, 0, None)
    held.token = 77
    bodies = [traced().body, untraced().body]
    other = Held(6, 0, 10, 4_000, 0, 0, None)
    found = made.delivered("news/Subscriptions/all", 1, [held, other], bodies, 4_500)
    assert list(found) == [77]
    (span,) = recorder.spans
    assert span.end_ns - span.start_ns == 500_000_000
    assert span.attributes["messaging.destination.name"] == "news"
    assert span.attributes["messaging.destination.subscription.name"] == "all"


def test_a_settlement_that_failed_is_an_error() -> None:
    made, recorder = tracing()
    message = traced_message(traced().body)
    assert message is not None
    made.settled("orders", [message], Outcome.DEAD_LETTER, 0.25, MessageLockLost())
    (span,) = recorder.spans
    assert span.name == "dead_letter orders"
    assert isinstance(span.error, MessageLockLost)
    assert span.end_ns - span.start_ns == 250_000_000


def test_every_outcome_has_a_word() -> None:
    made, recorder = tracing()
    message = traced_message(traced().body)
    assert message is not None
    for outcome in Outcome:
        made.settled("orders", [message], outcome, 0.0, None)
    assert len({span.name for span in recorder.spans}) == len(Outcome)


def test_what_is_forwarded_names_where_it_came_from() -> None:
    made, recorder = tracing()
    made.forwarded("inbox", "shelf", 0, [untraced().body, traced().body], 7)
    (span,) = recorder.spans
    assert (span.name, span.start_ns) == ("forward shelf", 7)
    assert span.attributes["partibus.forward.source"] == "inbox"


def test_a_message_is_known_by_its_lock_until_it_is_settled() -> None:
    made, _ = tracing()
    message = traced_message(traced().body)
    assert message is not None
    assert made.settling(3, [7]) == []
    made.remember(3, {7: message})
    assert made.settling(4, [7]) == []
    assert made.settling(3, [6, 7]) == [message]
    assert made.settling(3, [7]) == []


def test_of_many_locks_the_oldest_are_forgotten() -> None:
    made, _ = tracing()
    message = traced_message(traced().body)
    assert message is not None
    made.remember(3, dict.fromkeys(range(LOCKS_MAX + 2), message))
    assert made.settling(3, [0, 1]) == []
    assert len(made.settling(3, range(LOCKS_MAX + 2))) == LOCKS_MAX


class Port:
    def __init__(self) -> None:
        self.told: list[object] = []

    def confirmed(
        self, requests: Sequence[int], first_sequence: int, dropped: Sequence[int] = ()
    ) -> None:
        self.told.append((list(requests), first_sequence, list(dropped)))

    def refused(self, requests: Sequence[int], error: BusError) -> None:
        self.told.append(error)


def test_a_traced_port_tells_its_sender_and_makes_spans() -> None:
    made, recorder = tracing()
    port, error = Port(), StoreUnavailable()
    assert traced_port(None, "send", "orders", 2, [traced()], port) is port
    traced_port(made, "schedule", "orders", 2, [traced()], port).confirmed([1], 5, [0])
    schedule, store = recorder.spans
    assert (schedule.name, schedule.operation) == ("schedule orders", Operation.SEND)
    assert store.attributes["messaging.destination.partition.id"] == "2"
    traced_port(made, "send", "orders", 2, [traced()], port).refused([1], error)
    assert [span.error for span in recorder.spans] == [None, None, error, error]
    assert port.told == [([1], 5, [0]), error]
