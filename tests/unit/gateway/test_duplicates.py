"""Clients on an in-memory bus whose queues detect duplicates: keys, batches, schedules, workers."""

import uuid
from collections.abc import Sequence

import pytest

from partibus.amqp.codec.decode import decode_value
from partibus.amqp.codec.encode import encode_value
from partibus.amqp.codec.properties import MessageProperties
from partibus.amqp.codec.sections import (
    decode_properties,
    encode_annotations,
    encode_application_properties,
    encode_properties,
    parse_sections,
)
from partibus.amqp.codec.types import Symbol, ULong
from partibus.amqp.delivery import Accepted, Rejected
from partibus.amqp.events import DispositionReceived, TransferReceived
from partibus.amqp.link import Link
from partibus.cluster.remote import RemoteFragment
from partibus.domain.entity import QueueSpec
from partibus.domain.limits import SELFHOST, STANDARD, Profile
from partibus.domain.partition_key import fragment_index
from partibus.domain.sequence import SEQUENCE_MAX
from partibus.fragment.handle import LocalFragment
from partibus.gateway.links.inbound import BATCH_FORMAT
from partibus.message.envelope import to_stored
from partibus.testing.bus import BusBench, ClientBench
from support.nodes.far_side import FarSide

PLAIN = QueueSpec(requires_duplicate_detection=True)
PARTITIONED = QueueSpec(requires_duplicate_detection=True, enable_partitioning=True, fragments=4)
KEYED_ONLY = QueueSpec(enable_partitioning=True, fragments=4)
NAMES = [f"order-{number}" for number in range(20)]


def identified(message_id: object, body: bytes = b"x", key: str | None = None) -> bytes:
    """A message with an id, and perhaps a partition key."""
    payload = encode_properties(MessageProperties(message_id=message_id))
    payload += b"\x00\x53\x75\xa0" + bytes((len(body),)) + body
    if key is None:
        return payload
    pairs = encode_value(Symbol("x-opt-partition-key")) + encode_value(key)
    return encode_annotations(pairs, 1) + payload


def nameless(body: bytes = b"x") -> bytes:
    return b"\x00\x53\x75\xa0" + bytes((len(body),)) + body


class Desk:
    """A bus with one queue "q" and a client that sends to it."""

    def __init__(self, spec: QueueSpec, profile: Profile = SELFHOST, stores: int = 1) -> None:
        self.bus = BusBench(profile=profile, stores=stores)
        self.fragments: list[LocalFragment] = self.bus.queue("q", spec)
        self.client: ClientBench = self.bus.client()
        self.sender: Link = self.client.attach("q", sends=True)

    def send(self, *payloads: bytes) -> list[object]:
        """Send one by one; the outcomes."""
        self.client.send(self.sender, payloads)
        return self.outcomes()

    def send_batch(self, *payloads: bytes) -> object:
        """Send as one batch; its outcome."""
        data = b"".join(b"\x00\x53\x75\xb0" + len(p).to_bytes(4, "big") + p for p in payloads)
        self.sender.send(data, b"t", False, BATCH_FORMAT, None)
        self.client.run()
        (outcome,) = self.outcomes()
        return outcome

    def outcomes(self) -> list[object]:
        found: list[object] = []
        for event in self.client.take(DispositionReceived):
            assert isinstance(event, DispositionReceived)
            found += [event.state] * len(event.deliveries)
        return found

    def active(self) -> list[int]:
        """How many messages each fragment holds."""
        return [fragment.machine.state.counts().active for fragment in self.fragments]

    def dropped(self) -> int:
        counts = [fragment.machine.state.counts() for fragment in self.fragments]
        return sum(count.duplicates_dropped for count in counts)

    def ask(self, operation: str, body: dict[str, object]) -> tuple[int, dict[str, object]]:
        """A request to the management node; its status and body."""
        ask = self.client.attach("q/$management", sends=True, name="ask")
        hear = self.client.attach("q/$management", sends=False, settled=True, name="hear")
        hear.set_credit(1)
        properties = MessageProperties(message_id="1", reply_to="client")
        payload = encode_properties(properties)
        payload += encode_application_properties({"operation": f"com.microsoft:{operation}"})
        payload += b"\x00\x53\x77" + encode_value(body)
        self.client.send(ask, [payload])
        (event,) = self.client.take(TransferReceived)
        assert isinstance(event, TransferReceived)
        sections = parse_sections(event.payload)
        assert decode_properties(event.payload, sections).correlation_id == "1"
        answer, _ = decode_value(event.payload, sections.body_offset + 3, len(event.payload))
        status, _ = decode_value(
            event.payload, event.payload.index(b"statusCode") + 10, len(event.payload)
        )
        assert isinstance(status, int)
        return status, answer if isinstance(answer, dict) else {}

    def schedule(self, *payloads: bytes) -> list[int]:
        items: list[object] = [{"message": payload} for payload in payloads]
        status, body = self.ask("schedule-message", {"messages": items})
        assert status == 200
        numbers = body["sequence-numbers"]
        assert hasattr(numbers, "items")
        return [int(number) for number in numbers.items]


def accepted(outcomes: Sequence[object]) -> bool:
    return all(isinstance(outcome, Accepted) for outcome in outcomes)


@pytest.mark.rule("DUP-1", "DUP-2")
def test_the_sender_of_a_duplicate_sees_success() -> None:
    desk = Desk(PLAIN)
    assert accepted(desk.send(identified("a", b"1"), identified("a", b"2"), identified("b")))
    assert accepted(desk.send(identified("a", b"3")))
    assert (desk.active(), desk.dropped()) == ([2], 2)


def test_ids_of_every_kind_are_known_by_their_text() -> None:
    desk = Desk(PLAIN)
    unique = uuid.UUID(int=7)
    first = [identified(each) for each in ("text", ULong(7), unique, b"\x01\x02")]
    again = [identified(each) for each in ("text", "7", str(unique), b"\x01\x02")]
    assert accepted(desk.send(*first, *again))
    assert (desk.active(), desk.dropped()) == ([4], 4)


def test_a_message_without_an_id_repeats_nothing() -> None:
    desk = Desk(PARTITIONED)
    assert accepted(desk.send(*[nameless() for _ in range(8)], identified(""), identified("")))
    assert (sum(desk.active()), desk.dropped()) == (10, 0)
    assert min(desk.active()) == 2, "without a key they go round"


@pytest.mark.rule("SEED-35", "SEED-36")
def test_the_message_id_is_the_key_where_duplicates_are_detected() -> None:
    desk = Desk(PARTITIONED)
    desk.send(*[identified(name) for name in NAMES])
    places = [fragment_index(name, 4) for name in NAMES]
    assert desk.active() == [places.count(index) for index in range(4)]
    assert accepted(desk.send(*[identified(name) for name in NAMES]))
    assert desk.dropped() == len(NAMES)


@pytest.mark.rule("SEED-37")
def test_the_message_id_is_no_key_where_they_are_not() -> None:
    desk = Desk(KEYED_ONLY)
    desk.send(*[identified("same") for _ in range(8)])
    assert desk.active() == [2, 2, 2, 2]
    assert to_stored(identified("same")).message_id is None


@pytest.mark.rule("DUP-3")
def test_in_a_partitioned_queue_the_key_belongs_to_the_identity() -> None:
    desk = Desk(PARTITIONED)
    desk.send(identified("a", key="x"), identified("a", key="y"), identified("a", key="x"))
    assert (sum(desk.active()), desk.dropped()) == (2, 1)
    plain = Desk(PLAIN)
    plain.send(identified("a", key="x"), identified("a", key="y"))
    assert (plain.active(), plain.dropped()) == ([1], 1)


@pytest.mark.rule("DUP-8", "BAT-3")
def test_a_batch_of_several_ids_on_a_partitioned_queue_follows_the_batch_rule() -> None:
    desk = Desk(PARTITIONED)
    assert isinstance(desk.send_batch(*[identified(name) for name in NAMES]), Accepted)
    assert sum(desk.active()) == len(NAMES)
    assert isinstance(desk.send_batch(*[identified(name) for name in NAMES]), Accepted)
    assert (sum(desk.active()), desk.dropped()) == (len(NAMES), len(NAMES))

    strict = Desk(QueueSpec(requires_duplicate_detection=True, enable_partitioning=True), STANDARD)
    refused = strict.send_batch(identified("a"), identified("b"))
    assert isinstance(refused, Rejected) and refused.error is not None
    assert refused.error.condition == "amqp:not-allowed"
    assert "MessageId" in str(refused.error.description)
    assert isinstance(strict.send_batch(identified("a"), identified("a")), Accepted)
    keyed = [identified("a", key="k"), identified("b", key="k")]
    assert isinstance(strict.send_batch(*keyed), Accepted)
    assert (sum(strict.active()), strict.dropped()) == (3, 1)


def test_a_batch_of_several_ids_on_a_plain_queue_stays_whole() -> None:
    desk = Desk(QueueSpec(requires_duplicate_detection=True), STANDARD)
    assert isinstance(desk.send_batch(*map(identified, ("a", "b", "a"))), Accepted)
    assert (desk.active(), desk.dropped()) == ([2], 1)


@pytest.mark.rule("DUP-6", "SCH-9")
def test_scheduling_a_duplicate_gives_a_number_that_no_message_has() -> None:
    desk = Desk(PLAIN)
    desk.send(identified("a"))
    due = encode_value(Symbol("x-opt-scheduled-enqueue-time"))
    due += b"\x83" + (desk.bus.clock.now_ms() + 60_000).to_bytes(8, "big")
    later = [encode_annotations(due, 1) + identified(name) for name in ("b", "a", "c", "b")]
    assert desk.schedule(*later) == [2, SEQUENCE_MAX, 3, SEQUENCE_MAX]
    assert accepted(desk.send(identified("c")))
    assert desk.dropped() == 3
    status, _ = desk.ask("cancel-scheduled-message", {"sequence-numbers": [SEQUENCE_MAX]})
    assert status == 404
    assert desk.fragments[0].machine.state.counts().scheduled == 2


def test_ids_whose_messages_were_refused_may_be_sent_again() -> None:
    desk = Desk(PARTITIONED, stores=4)
    down = fragment_index("order-0", 4)
    store = desk.bus.stores[desk.bus.catalog.entity("q").fragments[down].store]
    store.fail()
    desk.client.run()
    (refused,) = desk.send(identified("order-0"))
    assert isinstance(refused, Rejected), "an id is a key: it goes nowhere else"
    store.heal()
    desk.client.run()
    assert accepted(desk.send(identified("order-0"), identified("order-0")))
    assert (sum(desk.active()), desk.dropped()) == (1, 1)


def test_a_fragment_in_another_process_drops_duplicates_too() -> None:
    desk = Desk(PLAIN)
    (owned,) = desk.fragments
    bus = desk.bus
    far = FarSide(
        bus.scheduler, {owned.fragment_id: owned}.get, bus.scheduler.run, is_automatic=True
    )
    bus.namespace.put_fragment(RemoteFragment(far.far, owned.fragment_id, 0, 0))
    far.connect()
    desk.sender = desk.client.attach("q", sends=True, name="far")
    assert accepted(desk.send(identified("a"), identified("a")))
    due = encode_value(Symbol("x-opt-scheduled-enqueue-time"))
    due += b"\x83" + (bus.clock.now_ms() + 60_000).to_bytes(8, "big")
    later = [encode_annotations(due, 1) + identified(name) for name in ("a", "b")]
    assert desk.schedule(*later) == [SEQUENCE_MAX, 2]
    assert (desk.active(), desk.dropped()) == ([1], 2)
