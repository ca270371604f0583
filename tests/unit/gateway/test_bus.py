"""Clients on an in-memory bus: what goes over the wire, without sockets or sleeps."""

import pytest

from partibus.amqp.codec.sections import annotation_items, parse_sections
from partibus.amqp.delivery import ACCEPTED, Accepted, Rejected
from partibus.amqp.events import (
    AttachConfirmed,
    CloseReceived,
    DetachReceived,
    DispositionReceived,
    Event,
    FlowReceived,
    IncomingSettled,
    SaslOutcomeReceived,
    TransferReceived,
)
from partibus.amqp.link import Link
from partibus.domain.entity import QueueSpec
from partibus.domain.limits import EMULATOR, PREMIUM, SELFHOST, STANDARD, Profile
from partibus.gateway.links.inbound import CREDIT
from partibus.testing.bus import BusBench, ClientBench
from support.gateway.messages import keyed, plain

PARTITIONED = QueueSpec(enable_partitioning=True, fragments=4)


def outcomes(client: ClientBench) -> list[object]:
    found: list[object] = []
    for event in client.take(DispositionReceived):
        assert isinstance(event, DispositionReceived)
        found += [event.state] * len(event.deliveries)
    return found


def transfers(client: ClientBench) -> list[TransferReceived]:
    return [event for event in client.take(TransferReceived) if isinstance(event, TransferReceived)]


def sequence(event: TransferReceived) -> int:
    number = annotation_items(parse_sections(event.payload))["x-opt-sequence-number"]
    assert isinstance(number, int)
    return number


def bodies(events: list[TransferReceived]) -> list[bytes]:
    return [event.payload[-2:] for event in events]


def test_a_send_is_accepted_and_received() -> None:
    bus = BusBench()
    bus.queue("q")
    client = bus.client()
    sender = client.attach("q", sends=True)
    assert sender.credit == CREDIT
    client.send(sender, [plain(n) for n in range(3)])
    assert [type(state) for state in outcomes(client)] == [Accepted] * 3
    receiver = client.attach("q", sends=False)
    receiver.set_credit(10)
    client.run()
    got = transfers(client)
    assert bodies(got) == [b"00", b"01", b"02"]
    assert [sequence(event) for event in got] == [1, 2, 3]
    receiver.propose(got[0].delivery_id, ACCEPTED)
    client.run()
    (settled,) = client.take(IncomingSettled)
    assert isinstance(settled, IncomingSettled) and isinstance(settled.state, Accepted)


@pytest.mark.rule("SEED-93")
@pytest.mark.parametrize(
    ("profile", "tag"),
    [(SELFHOST, bytes(16)), (EMULATOR, bytes(16)), (STANDARD, b""), (PREMIUM, b"")],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_delivery_that_nobody_locks_has_the_tag_of_no_lock(profile: Profile, tag: bytes) -> None:
    """The service sends an empty one; some clients refuse what is not 16 bytes long."""
    bus = BusBench(profile=profile)
    bus.queue("q")
    client = bus.client()
    client.send(client.attach("q", sends=True), [plain(n) for n in range(2)])
    receiver = client.attach("q", sends=False, settled=True)
    receiver.set_credit(10)
    client.run()
    got = transfers(client)
    assert bodies(got) == [b"00", b"01"]
    assert [event.tag for event in got] == [tag] * 2


def test_no_right_no_link() -> None:
    bus = BusBench()
    bus.queue("q")
    client = bus.client(plain=False)
    client.attach("q", sends=True)
    (detached,) = client.take(DetachReceived)
    assert isinstance(detached, DetachReceived) and detached.error is not None
    assert detached.error.condition == "amqp:unauthorized-access"
    assert "TrackingId:" in detached.error.description


def test_a_wrong_key_fails_in_sasl() -> None:
    client = BusBench().client(key="wrong")
    (outcome,) = client.take(SaslOutcomeReceived)
    assert isinstance(outcome, SaslOutcomeReceived) and outcome.code == 1


def test_a_client_without_a_token_is_cut_off() -> None:
    bus = BusBench()
    client = bus.client(plain=False)
    bus.scheduler.advance_ms(19_000)
    client.run()
    assert client.take(CloseReceived) == []
    bus.scheduler.advance_ms(2_000)
    client.run()
    (closed,) = client.take(CloseReceived)
    assert isinstance(closed, CloseReceived) and closed.error is not None
    assert closed.error.condition == "amqp:unauthorized-access"


def test_a_client_that_does_not_answer_our_close_is_cut_off() -> None:
    bus = BusBench()
    client = bus.client(plain=False)
    bus.scheduler.advance_ms(30_000)
    assert client.is_cut
    assert bus.gateway.connection_count == 0


def test_a_missing_queue_is_refused_with_the_sentence_clients_know() -> None:
    bus = BusBench()
    client = bus.client()
    client.attach("nope", sends=True)
    (detached,) = client.take(DetachReceived)
    assert isinstance(detached, DetachReceived) and detached.error is not None
    assert "The messaging entity 'sb://bus/nope' could not be found." in detached.error.description


def test_more_than_a_connection_may_have_unconfirmed_stops_the_reading() -> None:
    bus = BusBench()
    bus.queue("q", QueueSpec(max_message_size_in_kilobytes=10_240))
    client = bus.client()
    sender = client.attach("q", sends=True)
    for _ in range(3):
        sender.send(plain(0, size=8_000_000), b"t", False, 0, None)
    client.connection.data_received(client.engine.data_to_send())
    assert not client.is_reading
    client.run()
    assert client.is_reading
    assert len(outcomes(client)) == 3


def test_credit_that_is_taken_back_unlocks_what_was_on_its_way() -> None:
    bus = BusBench()
    (fragment,) = bus.queue("q")
    client = bus.client()
    receiver = client.attach("q", sends=False)
    receiver.set_credit(5)
    client.connection.data_received(client.engine.data_to_send())
    receiver.set_credit(0)
    client.connection.data_received(client.engine.data_to_send())
    client.run()
    other = bus.client()
    other.send(other.attach("q", sends=True), [plain(1)])
    client.run()
    assert transfers(client) == []
    assert fragment.machine.state.counts().locked == 0


def test_a_slow_reader_is_not_flooded() -> None:
    bus = BusBench()
    (fragment,) = bus.queue("q")
    client = bus.client()
    client.send(client.attach("q", sends=True), [plain(n) for n in range(600)])
    receiver = client.attach("q", sends=False)
    client.connection.pause_writing()
    receiver.set_credit(600)
    client.run()
    assert fragment.machine.state.counts().locked == 0
    client.connection.resume_writing()
    client.run()
    assert len(transfers(client)) == 600


def test_drain_is_answered_after_what_is_there() -> None:
    bus = BusBench()
    bus.queue("q")
    client = bus.client()
    client.send(client.attach("q", sends=True), [plain(1)])
    receiver = client.attach("q", sends=False)
    receiver.set_credit(500, drain=True)
    client.run()
    assert len(transfers(client)) == 1
    assert receiver.credit == 0


@pytest.mark.parametrize("spec", [QueueSpec(), PARTITIONED], ids=["whole", "partitioned"])
def test_a_drain_is_not_answered_before_a_slow_client_has_all(spec: QueueSpec) -> None:
    bus = BusBench()
    bus.queue("q", spec)
    client = bus.client()
    client.send(client.attach("q", sends=True), [plain(n) for n in range(40)])
    receiver = client.attach("q", sends=False)
    client.connection.pause_writing()
    receiver.set_credit(500, drain=True)
    client.run()
    assert receiver.drain, "answered although nothing could be written"
    client.connection.resume_writing()
    client.run()
    assert len(transfers(client)) == 40
    assert not receiver.drain and receiver.credit == 0


@pytest.mark.parametrize("spec", [QueueSpec(), PARTITIONED], ids=["whole", "partitioned"])
def test_a_drain_goes_on_when_a_client_that_fell_behind_reads_again(spec: QueueSpec) -> None:
    bus = BusBench()
    bus.queue("q", spec)
    client = bus.client()
    client.send(client.attach("q", sends=True), [plain(n) for n in range(600)])
    receiver = client.attach("q", sends=False)
    receiver.set_credit(1000, drain=True)
    client.connection.data_received(client.engine.data_to_send())
    client.connection.pause_writing()
    client.run()
    assert receiver.drain, "answered with messages left"
    client.connection.resume_writing()
    client.run()
    assert len(transfers(client)) == 600
    assert not receiver.drain


@pytest.mark.parametrize("spec", [QueueSpec(), PARTITIONED], ids=["whole", "partitioned"])
def test_new_credit_ends_a_drain_that_waits(spec: QueueSpec) -> None:
    bus = BusBench()
    bus.queue("q", spec)
    client = bus.client()
    receiver = client.attach("q", sends=False)
    client.connection.pause_writing()
    receiver.set_credit(500, drain=True)
    client.run()
    receiver.set_credit(500)
    client.run()
    client.connection.resume_writing()
    client.send(client.attach("q", sends=True), [plain(n) for n in range(40)])
    assert len(transfers(client)) == 40
    assert receiver.credit == 460


# --- several fragments -----------------------------------------------------------------------


def test_messages_without_a_key_go_round() -> None:
    bus = BusBench(stores=2)
    fragments = bus.queue("p", PARTITIONED)
    client = bus.client()
    client.send(client.attach("p", sends=True), [plain(n) for n in range(40)])
    assert [f.machine.state.counts().active for f in fragments] == [10] * 4


def test_messages_with_a_key_stay_together_and_in_order() -> None:
    bus = BusBench(stores=2)
    fragments = bus.queue("p", PARTITIONED)
    client = bus.client()
    client.send(client.attach("p", sends=True), [keyed(n, "key") for n in range(10)])
    assert sorted(f.machine.state.counts().active for f in fragments) == [0, 0, 0, 10]
    receiver = client.attach("p", sends=False)
    receiver.set_credit(50)
    client.run()
    assert bodies(transfers(client)) == [b"%02d" % n for n in range(10)]


def test_a_receiver_gets_from_all_and_never_more_than_its_credit() -> None:
    bus = BusBench(stores=2)
    fragments = bus.queue("p", PARTITIONED)
    client = bus.client()
    client.send(client.attach("p", sends=True), [plain(n) for n in range(40)])
    receiver = client.attach("p", sends=False)
    receiver.set_credit(6)
    client.run()
    assert len(transfers(client)) == 6
    assert sum(f.machine.state.counts().locked for f in fragments) == 6
    receiver.set_credit(100)
    client.run()
    got = transfers(client)
    assert len(got) == 34
    assert {sequence(event) >> 48 for event in got} == {0, 1, 2, 3}


def test_a_waiting_receiver_hears_of_a_message_in_any_fragment() -> None:
    bus = BusBench(stores=2)
    bus.queue("p", PARTITIONED)
    client = bus.client()
    receiver = client.attach("p", sends=False)
    receiver.set_credit(1)
    client.run()
    sender = client.attach("p", sends=True)
    for n in range(8):
        client.send(sender, [plain(n)])
        assert bodies(transfers(client)) == [b"%02d" % n]
        receiver.set_credit(1)
        client.run()


def test_drain_asks_every_fragment() -> None:
    bus = BusBench(stores=2)
    bus.queue("p", PARTITIONED)
    client = bus.client()
    client.send(client.attach("p", sends=True), [plain(n) for n in range(8)])
    receiver = client.attach("p", sends=False)
    receiver.set_credit(100, drain=True)
    client.run()
    assert len(transfers(client)) == 8
    assert receiver.credit == 0


@pytest.mark.rule("SEED-40", "SEED-29")
def test_a_store_that_is_down_takes_no_keyless_message_and_fails_its_keys() -> None:
    bus = BusBench(stores=2)
    fragments = bus.queue("p", PARTITIONED)
    client = bus.client()
    sender = client.attach("p", sends=True)
    bus.stores[0].fail()
    bus.scheduler.run()
    client.send(sender, [plain(n) for n in range(20)])
    assert [type(state) for state in outcomes(client)] == [Accepted] * 20
    down = [f for f in fragments if not f.is_available]
    assert len(down) == 2
    assert sum(f.machine.state.counts().active for f in down) == 0
    seen = set()
    for n in range(20):
        client.send(sender, [keyed(n, f"key-{n}")])
        (state,) = outcomes(client)
        seen.add(type(state))
        if isinstance(state, Rejected):
            assert state.error is not None
            assert state.error.condition == "com.microsoft:server-busy"
            assert "Fragment" in state.error.description
    assert seen == {Accepted, Rejected}
    bus.stores[0].heal()
    bus.scheduler.run()
    client.send(sender, [keyed(n, f"key-{n}") for n in range(20)])
    assert [type(state) for state in outcomes(client)] == [Accepted] * 20


@pytest.mark.rule("SEED-40")
def test_a_store_that_fails_under_way_moves_keyless_sends_elsewhere() -> None:
    bus = BusBench(stores=2)
    bus.queue("p", PARTITIONED)
    client = bus.client()
    sender = client.attach("p", sends=True)
    for n in range(8):
        sender.send(plain(n), b"t", False, 0, None)
    client.connection.data_received(client.engine.data_to_send())
    for broker in bus.brokers:
        broker._turn()
    bus.stores[0].fail()
    client.run()
    assert [type(state) for state in outcomes(client)] == [Accepted] * 8
    receiver = client.attach("p", sends=False)
    receiver.set_credit(50)
    client.run()
    assert sorted(bodies(transfers(client))) == [b"%02d" % n for n in range(8)]


def test_receivers_go_on_with_the_fragments_that_are_up() -> None:
    bus = BusBench(stores=2)
    bus.queue("p", PARTITIONED)
    client = bus.client()
    client.send(client.attach("p", sends=True), [plain(n) for n in range(8)])
    bus.stores[0].fail()
    bus.scheduler.run()
    receiver = client.attach("p", sends=False)
    receiver.set_credit(50)
    client.run()
    assert len(transfers(client)) == 4
    bus.stores[0].heal()
    bus.scheduler.run()
    client.run()
    assert len(transfers(client)) == 4


def batch(*messages: bytes) -> bytes:
    return b"".join(b"\x00\x53\x75\xb0" + len(m).to_bytes(4, "big") + m for m in messages)


def send_batch(client: ClientBench, link: Link, payload: bytes) -> None:
    link.send(payload, b"t", False, 0x80013700, None)
    client.run()


@pytest.mark.rule("BAT-3")
def test_a_batch_with_mixed_keys_is_split_or_refused_by_profile() -> None:
    mixed = batch(keyed(1, "a"), keyed(2, "b"), plain(3))
    bus = BusBench()
    fragments = bus.queue("p", PARTITIONED)
    client = bus.client()
    send_batch(client, client.attach("p", sends=True), mixed)
    assert [type(state) for state in outcomes(client)] == [Accepted]
    assert sum(f.machine.state.counts().active for f in fragments) == 3
    strict = BusBench(profile=STANDARD)
    fragments = strict.queue("p", QueueSpec(enable_partitioning=True))
    client = strict.client()
    send_batch(client, client.attach("p", sends=True), mixed)
    (state,) = outcomes(client)
    assert isinstance(state, Rejected) and state.error is not None
    assert state.error.condition == "amqp:not-allowed"
    assert "'a' and 'b'" in state.error.description
    assert sum(f.machine.state.counts().active for f in fragments) == 0


def test_a_keyless_batch_goes_whole_to_one_fragment() -> None:
    bus = BusBench()
    fragments = bus.queue("p", PARTITIONED)
    client = bus.client()
    send_batch(client, client.attach("p", sends=True), batch(*[plain(n) for n in range(5)]))
    assert sorted(f.machine.state.counts().active for f in fragments) == [0, 0, 0, 5]


def test_events_are_reported_for_links_we_opened() -> None:
    bus = BusBench()
    bus.queue("q")
    client = bus.client()
    client.attach("q", sends=True)
    kinds: list[type[Event]] = [AttachConfirmed, FlowReceived]
    assert all(client.take(kind) for kind in kinds)
