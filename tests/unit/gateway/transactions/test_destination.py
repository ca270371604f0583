"""Transactions that send to entities of other stores: one entry here, and a courier after it."""

from dataclasses import replace

import pytest

from partibus.amqp.codec.sections import annotation_items, parse_sections
from partibus.amqp.delivery import Accepted, transactional_state
from partibus.amqp.events import TransferReceived
from partibus.amqp.terminus import encode_source, encode_target
from partibus.domain.entity import EntityStatus, QueueSpec
from partibus.fragment.commands import SubQueueType
from partibus.message.envelope import STORED_VERSION, Stored
from support.gateway.messages import in_session, keyed, plain, scheduled, via
from support.gateway.transaction_bench import refused, with_state
from support.gateway.transaction_bus import TransactionBus, is_taken, key_of_fragment

INVALID_OPERATION = "amqp:not-allowed"
TRANSFER_DEAD_LETTERS = "$Transfer/$DeadLetterQueue"


@pytest.fixture
def bus() -> TransactionBus:
    bus = TransactionBus(stores=2)
    assert bus.store_of("q") != bus.store_of("other"), "the catalog places queues in turn"
    return bus


def near_fragments(bus: TransactionBus, path: str) -> list[int]:
    """Which fragments of an entity lie in the store of 'q'."""
    places = [placement.store for placement in bus.bus.catalog.entity(path).fragments]
    near = [index for index, store in enumerate(places) if store == bus.store_of("q")]
    assert 0 < len(near) < len(places)
    return near


# --- on the way ----------------------------------------------------------------------------------


@pytest.mark.rule("TXN-4", "TXN-17")
def test_a_message_for_another_store_arrives_and_is_never_seen_in_between(
    bus: TransactionBus,
) -> None:
    bus.bus.stores[bus.store_of("other")].fail()
    bus.bus.scheduler.run()
    assert is_taken(bus.settle("q", plain(1)))
    assert is_taken(bus.send("other", plain(2))), "its store need not be up"
    assert (bus.counts("q").active, bus.counts("q").transfer) == (1, 0)
    assert isinstance(bus.commit(), Accepted)
    assert (bus.counts("q").active, bus.counts("q").transfer) == (0, 1)
    receiver = bus.client.link("q", sends=False)
    assert bus.client.receive(receiver, 5) == []
    bus.bus.stores[bus.store_of("other")].heal()
    bus.bus.scheduler.advance_ms(5_000)
    assert (bus.active("other"), bus.counts("q").transfer) == ([1], 0)
    assert bus.counts("q").active == 0


def test_a_rollback_leaves_nothing_on_its_way(bus: TransactionBus) -> None:
    assert is_taken(bus.send("q", plain(1)))
    assert is_taken(bus.send("other", plain(2)))
    assert isinstance(bus.client.discharge(bus.txn_id, fail=True), Accepted)
    assert (bus.active("q"), bus.active("other"), bus.counts("q").transfer) == ([0], [0], 0)


@pytest.mark.rule("TXN-4")
def test_without_a_settlement_the_first_entity_is_the_transfer_entity(bus: TransactionBus) -> None:
    bus.bus.stores[bus.store_of("other")].fail()
    bus.bus.scheduler.run()
    for path, number in (("q", 1), ("other", 2), ("q", 3), ("other", 4)):
        assert is_taken(bus.send(path, plain(number)))
    assert isinstance(bus.commit(), Accepted)
    assert (bus.active("q"), bus.counts("q").transfer) == ([2], 2)


@pytest.mark.rule("TXN-4")
def test_a_settlement_moves_the_transaction_to_its_store(bus: TransactionBus) -> None:
    """A client that does not wait has no say in what arrives first."""
    assert is_taken(bus.send("q", plain(1)))
    assert is_taken(bus.settle("other", plain(2)))
    assert is_taken(bus.send("q", plain(3)))
    assert is_taken(bus.send("other", plain(4)))
    assert isinstance(bus.commit(), Accepted)
    assert (bus.active("q"), bus.active("other")) == ([2], [1])
    receiver = bus.client.link("q", sends=False)
    got = bus.client.receive(receiver, 2)
    assert [event.payload[-2:] for event in got] == [b"01", b"03"]


@pytest.mark.rule("TXN-4", "TXN-6")
def test_send_via_to_another_store(bus: TransactionBus) -> None:
    link = bus.via("q", "other")
    assert is_taken(bus.send_via(link, plain(1)))
    assert isinstance(bus.commit(), Accepted)
    assert (bus.active("q"), bus.active("other")) == ([0], [1])


@pytest.mark.rule("TXN-13")
def test_send_via_a_partition_whose_store_is_another(bus: TransactionBus) -> None:
    link = bus.via("parted", "parted-2")
    here, there = key_of_fragment(0), key_of_fragment(1)
    assert is_taken(bus.send_via(link, via(1, here, key=there)))
    assert is_taken(bus.send_via(link, via(2, here, key=here)))
    assert isinstance(bus.commit(), Accepted)
    assert bus.active("parted") == [0, 0, 0, 0]
    assert bus.active("parted-2") == [1, 1, 0, 0]


def test_keys_select_the_fragment_of_the_destination_wherever_it_is(bus: TransactionBus) -> None:
    assert is_taken(bus.send("q", plain(0)))
    for index in range(4):
        for number in (1, 2):
            payload = keyed(10 * index + number, key_of_fragment(index))
            assert is_taken(bus.send("parted", payload))
    far_count = 2 * (4 - len(near_fragments(bus, "parted")))
    fragment = bus.fragments["q"][0]
    numbers_before = fragment.machine.state.outbox.next_number
    assert isinstance(bus.commit(), Accepted)
    assert bus.active("parted") == [2, 2, 2, 2]
    # Those of the same store are there with the commit; only the others pass through the outbox.
    assert fragment.machine.state.outbox.next_number - numbers_before == far_count


def test_a_message_without_a_key_is_spread_when_no_fragment_is_near() -> None:
    bus = TransactionBus(stores=6)
    stores = {placement.store for placement in bus.bus.catalog.entity("parted").fragments}
    assert bus.store_of("q") not in stores
    assert is_taken(bus.send("q", plain(1)))
    for number in range(40):
        assert is_taken(bus.send("parted", plain(number)))
    assert isinstance(bus.commit(), Accepted)
    assert sum(bus.active("parted")) == 40
    assert min(bus.active("parted")) > 0


# --- what the message is at its destination ------------------------------------------------------


@pytest.mark.rule("TXN-17", "SCH-1")
def test_a_scheduled_time_holds_at_the_destination(bus: TransactionBus) -> None:
    due_ms = bus.bus.clock.now_ms() + 60_000
    assert is_taken(bus.send("q", plain(1)))
    assert is_taken(bus.send("other", scheduled(2, due_ms)))
    assert isinstance(bus.commit(), Accepted)
    counts = bus.counts("other")
    assert (counts.scheduled, counts.active, bus.counts("q").transfer) == (1, 0, 0)
    bus.bus.scheduler.advance_ms(60_001)
    assert bus.active("other") == [1]


@pytest.mark.rule("SCH-7")
def test_a_number_cannot_be_told_for_another_store(bus: TransactionBus) -> None:
    assert is_taken(bus.send("q", plain(1)))
    items: list[object] = [{"message": scheduled(2, bus.bus.clock.now_ms() + 1000)}]
    status, answer = bus.client.ask("other", "schedule-message", {"messages": items}, bus.txn_id)
    assert status == 400
    assert b"is not known before" in answer and b"ScheduledEnqueueTime" in answer
    assert refused(bus.commit())[0] == "amqp:transaction:rollback"


@pytest.mark.rule("SCH-7")
def test_numbers_keep_the_transaction_in_their_store(bus: TransactionBus) -> None:
    items: list[object] = [{"message": scheduled(1, bus.bus.clock.now_ms() + 1000)}]
    assert bus.client.ask("q", "schedule-message", {"messages": items}, bus.txn_id)[0] == 200
    assert is_taken(bus.send("other", plain(2)))
    condition, text = refused(bus.settle("other", plain(3)))
    assert condition == INVALID_OPERATION and "is not known before" in text
    bus.txn_id = bus.client.declare()
    assert bus.client.ask("q", "schedule-message", {"messages": items}, bus.txn_id)[0] == 200
    assert is_taken(bus.settle("q", plain(4)))
    assert is_taken(bus.send("other", plain(5)))
    assert isinstance(bus.commit(), Accepted)
    assert bus.counts("q").scheduled == 1


@pytest.mark.rule("DUP-1")
def test_duplicates_are_detected_at_the_destination() -> None:
    bus = TransactionBus(stores=2)
    for _ in range(2):
        assert is_taken(bus.send("q", plain(1)))
        assert is_taken(bus.send("unique", plain(7)))
        assert isinstance(bus.commit(), Accepted)
        bus.txn_id = bus.client.declare()
    assert sum(bus.active("unique")) == 1
    assert bus.active("q") == [2], "the transfer entity is not asked for duplicates"


def test_it_has_the_numbers_of_its_destination_only(bus: TransactionBus) -> None:
    assert is_taken(bus.send("q", plain(1)))
    assert is_taken(bus.send("other", plain(2)))
    assert isinstance(bus.commit(), Accepted)
    receiver = bus.client.link("other", sends=False)
    (event,) = bus.client.receive(receiver, 1)
    shown = annotation_items(parse_sections(event.payload))
    assert shown["x-opt-sequence-number"] == 1
    assert "x-opt-enqueue-sequence-number" not in shown


def test_the_largest_message_that_may_be_sent_arrives(bus: TransactionBus) -> None:
    bytes_max = 16 * 1024
    bus.bus.catalog.update("other", QueueSpec(max_message_size_in_kilobytes=16))
    # Without an id it is given one, so that it grows in the store.
    head = b"\x00\x53\x75\xb0"
    payload = head + (bytes_max - 8).to_bytes(4, "big") + b"x" * (bytes_max - 8)
    assert len(payload) == bytes_max
    assert is_taken(bus.send("q", plain(1)))
    assert is_taken(bus.send("other", payload))
    assert isinstance(bus.commit(), Accepted)
    assert (bus.active("other"), bus.counts("q").transfer_dead_letter) == ([1], 0)


# --- what is refused at once ---------------------------------------------------------------------


def test_what_the_destination_refuses_is_told_at_once() -> None:
    bus = TransactionBus(stores=2)
    far = next(p for p in ("q", "other") if bus.store_of(p) != bus.store_of("sessions"))
    assert is_taken(bus.send(far, plain(1)))
    condition, text = refused(bus.send("sessions", plain(2)))
    assert condition == INVALID_OPERATION and "SessionId" in text
    bus.txn_id = bus.client.declare()
    assert is_taken(bus.send(far, plain(3)))
    assert is_taken(bus.send("sessions", in_session(4, "s")))
    assert isinstance(bus.commit(), Accepted)
    assert bus.active("sessions") == [1]


@pytest.mark.rule("TXN-2")
@pytest.mark.parametrize("settled", [False, True])
def test_a_message_that_is_too_large_leaves_nothing_to_commit(
    bus: TransactionBus, settled: bool
) -> None:
    """The engine refuses it; a client that does not look at the answer must not get the rest."""
    bus.bus.catalog.update("other", QueueSpec(max_message_size_in_kilobytes=16))
    assert is_taken(bus.send("q", plain(1)))
    bus.client.post(bus.sender("other"), plain(2, 20_000), bus.txn_id, settled=settled)
    bus.client.client.run()
    bus.client.outcomes()
    condition, text = refused(bus.commit())
    assert condition == "amqp:transaction:rollback" and "larger than" in text
    assert (bus.active("q"), bus.active("other")) == ([0], [0])


@pytest.mark.rule("TXN-2")
def test_a_message_on_a_link_that_was_refused_leaves_nothing_to_commit(
    bus: TransactionBus,
) -> None:
    assert is_taken(bus.send("q", plain(1)))
    session = bus.client.client.session
    target = encode_target("nowhere")
    link = session.attach("early", is_sender=True, source=encode_source("client"), target=target)
    attach = bus.client.client.engine.data_to_send()
    # The message comes with the attach, without waiting for the answer.
    link.attached, link.credit = True, 1
    link.send(plain(2), b"t", False, 0, None)
    transfer = with_state(bus.client.client.engine.data_to_send(), transactional_state(bus.txn_id))
    bus.client.client.connection.data_received(attach + transfer)
    bus.client.client.run()
    bus.client.outcomes()
    condition, text = refused(bus.commit())
    assert condition == "amqp:transaction:rollback" and "was refused" in text
    assert bus.active("q") == [0]


def test_a_transaction_whose_own_store_is_down_refuses_at_once(bus: TransactionBus) -> None:
    assert is_taken(bus.send("q", plain(1)))
    bus.bus.stores[bus.store_of("q")].fail()
    bus.bus.scheduler.run()
    condition, text = refused(bus.send("other", plain(2)))
    assert condition == "com.microsoft:server-busy" and "'q'" in text
    assert bus.active("other") == [0]


# --- failures after the commit -----------------------------------------------------------------


def commit_while_other_waits(bus: TransactionBus) -> None:
    """Commit a transfer to 'other', whose store is down, so that it is on its way."""
    bus.bus.stores[bus.store_of("other")].fail()
    bus.bus.scheduler.run()
    assert is_taken(bus.settle("q", plain(1)))
    assert is_taken(bus.send("other", plain(2)))
    assert isinstance(bus.commit(), Accepted)
    assert bus.counts("q").transfer == 1


@pytest.mark.rule("TDQ-1", "TDQ-2", "TDQ-3")
@pytest.mark.parametrize(
    ("fate", "reason"), [("disabled", b"EntityDisabled"), ("deleted", b"EntityNotFound")]
)
def test_a_destination_that_is_lost_after_the_commit(
    bus: TransactionBus, fate: str, reason: bytes
) -> None:
    commit_while_other_waits(bus)
    store = bus.bus.stores[bus.store_of("other")]
    if fate == "deleted":
        bus.bus.catalog.delete("other")
    else:
        spec = bus.bus.catalog.entity("other").queue
        bus.bus.catalog.update("other", replace(spec, status=EntityStatus.SEND_DISABLED))
    store.heal()
    bus.bus.scheduler.advance_ms(5_000)
    counts = bus.counts("q")
    assert (counts.transfer, counts.transfer_dead_letter, counts.dead_letter) == (0, 1, 0)
    receiver = bus.client.link(f"q/{TRANSFER_DEAD_LETTERS}", sends=False)
    (event,) = bus.client.receive(receiver, 1)
    assert isinstance(event, TransferReceived)
    assert event.payload.endswith(b"02") and reason in event.payload


@pytest.mark.rule("TDQ-2")
def test_what_waits_in_the_transfer_dead_letters_is_stored_as_it_was_sent(
    bus: TransactionBus,
) -> None:
    commit_while_other_waits(bus)
    bus.bus.catalog.delete("other")
    bus.bus.scheduler.advance_ms(5_000)
    state = bus.fragments["q"][0].machine.state
    (held,) = state.subqueues[SubQueueType.TRANSFER_DEAD_LETTER].ready.copies(0)
    bodies = bus.bus.stores[bus.store_of("q")].read_now([(held.position, held.length)])
    assert bodies is not None
    stored = Stored(bodies[0])
    assert (stored.version, stored.hops) == (STORED_VERSION, 0)
