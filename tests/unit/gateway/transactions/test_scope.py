"""What a transaction may work on: one entity, one fragment of it, and what is sent elsewhere."""

import pytest

from partibus.amqp.codec.encode import encode_value
from partibus.amqp.delivery import Accepted
from partibus.amqp.events import DetachReceived
from partibus.client.cbs import sas_token
from partibus.domain.partition_key import fragment_index
from support.gateway.messages import in_session, keyed, plain, via
from support.gateway.transaction_bench import refused
from support.gateway.transaction_bus import (
    TRANSFER_DESTINATION,
    TransactionBus,
    is_taken,
    key_of_fragment,
)

INVALID_OPERATION = "amqp:not-allowed"


@pytest.fixture
def bus() -> TransactionBus:
    return TransactionBus()


# --- partitioned entities -----------------------------------------------------------------------


@pytest.mark.rule("SEED-45", "SEED-46", "SEED-49", "SEED-34")
def test_messages_with_one_key_go_to_its_fragment(bus: TransactionBus) -> None:
    key = key_of_fragment(2)
    assert all(is_taken(bus.send("parted", keyed(n, key))) for n in range(3))
    assert isinstance(bus.commit(), Accepted)
    assert bus.active("parted") == [0, 0, 3, 0]


@pytest.mark.rule("SEED-47", "CON-13")
def test_a_message_without_a_key_is_refused(bus: TransactionBus) -> None:
    condition, text = refused(bus.send("parted", plain(1)))
    assert condition == INVALID_OPERATION
    assert "must have a SessionId or PartitionKey" in text
    assert refused(bus.commit())[0] == "amqp:transaction:rollback"
    assert bus.active("parted") == [0, 0, 0, 0]


@pytest.mark.rule("CON-13", "SEED-45")
def test_a_message_id_is_a_key_where_duplicates_are_detected(bus: TransactionBus) -> None:
    assert is_taken(bus.send("unique", plain(1)))
    assert isinstance(bus.commit(), Accepted)
    assert sum(bus.active("unique")) == 1


@pytest.mark.rule("SEED-48")
def test_another_key_is_refused_even_in_the_same_fragment(bus: TransactionBus) -> None:
    first = key_of_fragment(1)
    for second in (key_of_fragment(1, besides=first), key_of_fragment(3)):
        assert is_taken(bus.send("parted", keyed(1, first)))
        condition, text = refused(bus.send("parted", keyed(2, second)))
        assert condition == INVALID_OPERATION and "the same SessionId or PartitionKey" in text
        bus.txn_id = bus.client.declare()


@pytest.mark.rule("TXN-13")
def test_all_work_of_a_transaction_is_in_one_fragment() -> None:
    here, there = key_of_fragment(0), key_of_fragment(1)
    bus = TransactionBus()
    assert is_taken(bus.settle("parted", keyed(1, here)))
    assert is_taken(bus.send("parted", keyed(2, here)))
    condition, text = refused(bus.send("parted", keyed(3, there)))
    assert condition == INVALID_OPERATION
    bus = TransactionBus()
    assert is_taken(bus.settle("parted", keyed(1, here)))
    condition, text = refused(bus.send("parted", keyed(3, there)))
    assert condition == INVALID_OPERATION and "in one partition" in text
    bus = TransactionBus()
    assert is_taken(bus.send("parted", keyed(3, there)))
    condition, text = refused(bus.settle("parted", keyed(1, here)))
    assert condition == INVALID_OPERATION and "in one partition" in text


def test_a_fragment_whose_store_is_down_refuses_at_once() -> None:
    bus = TransactionBus(stores=2)
    bus.bus.stores[1].fail()
    bus.bus.scheduler.run()
    record = bus.bus.catalog.entity("parted")
    index = next(i for i, placement in enumerate(record.fragments) if placement.store == 1)
    condition, text = refused(bus.send("parted", keyed(1, key_of_fragment(index))))
    assert condition == "com.microsoft:server-busy" and "store is down" in text


# --- sessions ---------------------------------------------------------------------------------


@pytest.mark.rule("SEED-50")
def test_a_session_is_needed_where_sessions_are(bus: TransactionBus) -> None:
    assert refused(bus.send("sessions", plain(1)))[0] == INVALID_OPERATION


@pytest.mark.rule("SEED-52")
def test_several_sessions_of_a_plain_entity(bus: TransactionBus) -> None:
    assert is_taken(bus.send("sessions", in_session(1, "a")))
    assert is_taken(bus.send("sessions", in_session(2, "b")))
    assert isinstance(bus.commit(), Accepted)
    assert bus.active("sessions") == [2]


@pytest.mark.rule("SEED-45", "SEED-50")
def test_the_session_without_a_name_is_a_session_and_a_key(bus: TransactionBus) -> None:
    assert is_taken(bus.send("sessions", in_session(1, "")))
    assert isinstance(bus.commit(), Accepted)
    assert bus.active("sessions") == [1]
    bus.txn_id = bus.client.declare()
    assert is_taken(bus.send("parted", in_session(1, "")))
    assert is_taken(bus.send("parted", in_session(2, "")))
    assert isinstance(bus.commit(), Accepted)
    assert bus.active("parted")[fragment_index("", 4)] == 2


@pytest.mark.rule("TXN-13")
def test_a_via_partition_key_of_bytes_selects_the_fragment_of_its_text(
    bus: TransactionBus,
) -> None:
    key = key_of_fragment(1)
    link = bus.via("parted", "other")
    text, binary = via(1, key), via(2, key).replace(encode_value(key), encode_value(key.encode()))
    assert text != binary
    assert is_taken(bus.send_via(link, text))
    assert is_taken(bus.send_via(link, binary))
    assert isinstance(bus.commit(), Accepted)
    assert bus.active("other") == [2]


# --- several entities ----------------------------------------------------------------------------


@pytest.mark.rule("TXN-4", "TXN-19")
def test_links_of_one_session_send_to_other_entities(bus: TransactionBus) -> None:
    assert is_taken(bus.settle("q", plain(1)))
    assert is_taken(bus.send("other", plain(2)))
    assert is_taken(bus.send("sessions", in_session(3, "s")))
    assert isinstance(bus.commit(), Accepted)
    assert (bus.active("q"), bus.active("other"), bus.active("sessions")) == ([0], [1], [1])


@pytest.mark.rule("TXN-3")
def test_links_of_another_session_do_not(bus: TransactionBus) -> None:
    assert is_taken(bus.send("q", plain(1)))
    bus.client.other_session()
    condition, text = refused(bus.send("other", plain(2)))
    assert condition == INVALID_OPERATION
    assert "cannot span multiple top-level entities" in text
    assert refused(bus.commit())[0] == "amqp:transaction:rollback"
    assert (bus.active("q"), bus.active("other")) == ([0], [0])


@pytest.mark.rule("TXN-3")
def test_the_same_entity_may_be_reached_over_any_session(bus: TransactionBus) -> None:
    assert is_taken(bus.send("q", plain(1)))
    bus.client.other_session()
    link = bus.client.link("Q", sends=True)
    assert is_taken(bus.client.send(link, plain(2), bus.txn_id))
    assert isinstance(bus.commit(), Accepted)


@pytest.mark.rule("TXN-3", "TXN-19")
def test_messages_of_a_second_entity_are_not_settled(bus: TransactionBus) -> None:
    assert is_taken(bus.settle("other", plain(1)))
    condition, text = refused(bus.settle("q", plain(1)))
    assert condition == INVALID_OPERATION
    assert "cannot span multiple top-level entities" in text


@pytest.mark.rule("TXN-4")
def test_the_first_settlement_says_which_entity_is_its_own(
    bus: TransactionBus,
) -> None:
    """A client that does not wait has no say in what arrives first."""
    assert is_taken(bus.send("other", plain(1)))
    assert is_taken(bus.settle("parted", keyed(2, key_of_fragment(1))))
    assert is_taken(bus.send("other", plain(3)))
    assert refused(bus.settle("other", plain(4)))[0] == INVALID_OPERATION
    bus.txn_id = bus.client.declare()
    assert is_taken(bus.send("other", plain(5)))
    bus.client.other_session()
    assert refused(bus.settle("q", plain(6)))[0] == INVALID_OPERATION


@pytest.mark.rule("TXN-19")
def test_each_transaction_is_pinned_anew(bus: TransactionBus) -> None:
    assert is_taken(bus.send("q", plain(1)))
    assert isinstance(bus.commit(), Accepted)
    bus.txn_id = bus.client.declare()
    assert is_taken(bus.settle("other", plain(2)))
    assert isinstance(bus.commit(), Accepted)


@pytest.mark.rule("TXN-4", "TXN-6")
def test_send_via_goes_to_the_destination_and_is_never_in_between(bus: TransactionBus) -> None:
    link = bus.via("q", "other")
    assert is_taken(bus.settle("q", plain(1)))
    assert is_taken(bus.send_via(link, plain(2)))
    assert (bus.active("q"), bus.active("other")) == ([1], [0])
    assert isinstance(bus.commit(), Accepted)
    assert (bus.active("q"), bus.active("other")) == ([0], [1])


@pytest.mark.rule("TXN-6")
def test_send_via_works_over_any_session(bus: TransactionBus) -> None:
    assert is_taken(bus.settle("q", plain(1)))
    bus.client.other_session()
    link = bus.via("q", "sb://bus/other")
    assert is_taken(bus.send_via(link, plain(2)))
    assert isinstance(bus.commit(), Accepted)
    assert bus.active("other") == [1]


@pytest.mark.rule("TXN-3")
def test_send_via_another_entity_spans(bus: TransactionBus) -> None:
    assert is_taken(bus.send("q", plain(1)))
    condition, text = refused(bus.send_via(bus.via("other", "sessions"), in_session(2, "s")))
    assert condition == INVALID_OPERATION and "cannot span" in text


def test_send_via_outside_of_a_transaction_is_a_send(bus: TransactionBus) -> None:
    bus.client.client.send(bus.via("q", "other"), [plain(1)])
    assert [type(state) for state in bus.client.outcomes()] == [Accepted]
    assert (bus.active("q"), bus.active("other")) == ([0], [1])


@pytest.mark.rule("TXN-6")
@pytest.mark.parametrize("path", ["q", "other"])
def test_send_via_needs_rights_for_both(bus: TransactionBus, path: str) -> None:
    client = bus.bus.client(plain=False)
    key = "SAS_KEY_VALUE"
    token = sas_token(f"sb://bus/{path}", "RootManageSharedAccessKey", key, 4_000_000_000)
    client.connection.grants.put_token(token, f"sb://bus/{path}", bus.bus.clock.now_ms())
    properties: dict[str, object] = {TRANSFER_DESTINATION: "other"}
    client.attach("q", sends=True, properties=properties)
    (detached,) = client.take(DetachReceived)
    assert isinstance(detached, DetachReceived) and detached.error is not None
    assert detached.error.condition == "amqp:unauthorized-access"


@pytest.mark.rule("TXN-13")
def test_a_via_partition_key_must_select_the_fragment_of_the_transaction() -> None:
    here, there = key_of_fragment(0), key_of_fragment(1)
    bus = TransactionBus()
    link = bus.via("parted", "parted-2")
    assert is_taken(bus.settle("parted", keyed(1, here)))
    assert is_taken(bus.send_via(link, via(2, here, key=there)))
    assert is_taken(bus.send_via(link, plain(3))), "the partition is known"
    condition, text = refused(bus.send_via(link, via(4, there, key=there)))
    assert condition == INVALID_OPERATION and "ViaPartitionKey" in text
    bus = TransactionBus()
    assert is_taken(bus.settle("parted", keyed(1, here)))
    assert is_taken(bus.send("other", via(2, here)))
    assert refused(bus.send("other", via(3, there)))[0] == INVALID_OPERATION


@pytest.mark.rule("TXN-13", "SEED-47")
def test_a_first_message_via_a_partitioned_entity_needs_its_key(bus: TransactionBus) -> None:
    link = bus.via("parted", "other")
    condition, text = refused(bus.send_via(link, keyed(1, "k")))
    assert condition == INVALID_OPERATION and "ViaPartitionKey" in text
    bus.txn_id = bus.client.declare()
    assert is_taken(bus.send_via(link, via(1, key_of_fragment(3))))
    assert refused(bus.settle("parted", keyed(2, key_of_fragment(1))))[0] == INVALID_OPERATION


def test_a_destination_takes_messages_of_several_keys(bus: TransactionBus) -> None:
    assert is_taken(bus.send("q", plain(1)))
    for index in range(4):
        assert is_taken(bus.send("parted", keyed(index, key_of_fragment(index))))
    assert is_taken(bus.send("parted", plain(5)))
    assert isinstance(bus.commit(), Accepted)
    assert sorted(bus.active("parted")) == [1, 1, 1, 2]


def test_a_message_without_a_key_finds_a_fragment_of_the_same_store() -> None:
    bus = TransactionBus(stores=2)
    store = bus.bus.catalog.entity("q").fragments[0].store
    assert is_taken(bus.send("q", plain(1)))
    for number in range(8):
        assert is_taken(bus.send("parted", plain(number)))
    assert isinstance(bus.commit(), Accepted)
    placements = bus.bus.catalog.entity("parted").fragments
    near = [placement.store == store for placement in placements]
    assert sum(bus.active("parted")) == 8
    assert all(
        count == 0 for count, is_near in zip(bus.active("parted"), near, strict=True) if not is_near
    )
