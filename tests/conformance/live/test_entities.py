"""Entities that are created, changed and deleted under stock clients, with two workers.

Each link of the stock client has a connection of its own and each administrative request too,
so that both workers are asked in any combination.
"""

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiver
from azure.servicebus.exceptions import (
    MessageSizeExceededError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
)

from adversity.waiting import wait_until
from support.json_admin import JsonAdmin, Refused

SPREAD = 3
"""Links opened for one purpose: the kernel gives some to each worker."""
KINDS = pytest.mark.parametrize(
    "properties",
    [{}, {"enable_partitioning": True, "partition_count": 8}, {"requires_session": True}],
    ids=["plain", "partitioned", "sessions"],
)


def bodies(receiver: ServiceBusReceiver, wait: float = 5) -> list[str]:
    got = receiver.receive_messages(max_message_count=10, max_wait_time=wait)
    for message in got:
        receiver.complete_message(message)
    return [str(message) for message in got]


@KINDS
def test_a_new_entity_serves_at_once_through_every_worker(
    admin: JsonAdmin, client: ServiceBusClient, name: str, properties: dict[str, object]
) -> None:
    created = admin.create(name, **properties)
    assert created["name"] == name
    in_session = {"session_id": "s"} if properties.get("requires_session") else {}
    for number in range(SPREAD):
        with client.get_queue_sender(name) as sender:
            sender.send_messages(ServiceBusMessage(str(number), **in_session))
    got: list[str] = []
    while len(got) < SPREAD:
        with client.get_queue_receiver(name, **in_session) as receiver:
            got += bodies(receiver)
    assert sorted(got) == [str(number) for number in range(SPREAD)]


@KINDS
def test_links_of_a_deleted_entity_are_told(
    admin: JsonAdmin,
    client: ServiceBusClient,
    patient: ServiceBusClient,
    name: str,
    properties: dict[str, object],
) -> None:
    admin.create(name, **properties)
    in_session = {"session_id": "s"} if properties.get("requires_session") else {}
    senders = [patient.get_queue_sender(name) for _ in range(SPREAD)]
    for sender in senders:
        sender.send_messages(ServiceBusMessage("old", **in_session))
    if in_session:
        receivers = [client.get_queue_receiver(name, session_id=str(n)) for n in range(SPREAD)]
    else:
        receivers = [client.get_queue_receiver(name) for _ in range(SPREAD)]
    for receiver in receivers:
        receiver.peek_messages()
    admin.delete(name)
    for sender in senders:
        with pytest.raises(MessagingEntityNotFoundError):
            sender.send_messages(ServiceBusMessage("late", **in_session))
        sender.close()
    for receiver in receivers:
        with pytest.raises(MessagingEntityNotFoundError):
            receiver.receive_messages(max_wait_time=5)
        receiver.close()
    with pytest.raises(Refused, match="could not be found"):
        admin.get(name)


@KINDS
def test_an_entity_made_anew_has_no_old_message(
    admin: JsonAdmin, client: ServiceBusClient, name: str, properties: dict[str, object]
) -> None:
    in_session = {"session_id": "s"} if properties.get("requires_session") else {}
    for life in range(3):
        admin.create(name, **properties)
        with client.get_queue_sender(name) as sender:
            sender.send_messages([ServiceBusMessage(f"life {life}", **in_session)])
        totals = admin.get(name)["totals"]
        assert totals["active"] == 1
        admin.delete(name)
    admin.create(name, **properties)
    assert admin.get(name)["totals"]["active"] == 0
    with client.get_queue_sender(name) as sender:
        sender.send_messages(ServiceBusMessage("new", **in_session))
    with client.get_queue_receiver(name, **in_session) as receiver:
        (got,) = receiver.receive_messages(max_message_count=5, max_wait_time=5)
        assert (str(got), got.delivery_count) == ("new", 0)


@pytest.mark.rule("STS-1", "STS-2", "STS-6")
@pytest.mark.parametrize(
    ("status", "may_send", "may_receive"),
    [
        ("Disabled", False, False),
        ("SendDisabled", False, True),
        ("ReceiveDisabled", True, False),
    ],
)
def test_a_status_ends_the_links_that_it_forbids(
    admin: JsonAdmin,
    client: ServiceBusClient,
    patient: ServiceBusClient,
    name: str,
    status: str,
    may_send: bool,
    may_receive: bool,
) -> None:
    admin.create(name)
    with patient.get_queue_sender(name) as sender, client.get_queue_receiver(name) as receiver:
        sender.send_messages([ServiceBusMessage("kept"), ServiceBusMessage("kept")])
        receiver.receive_messages(max_wait_time=5)
        admin.update(name, status=status)
        if may_send:
            sender.send_messages(ServiceBusMessage("more"))
        else:
            with pytest.raises(MessagingEntityDisabledError):
                sender.send_messages(ServiceBusMessage("more"))
        if may_receive:
            assert receiver.receive_messages(max_wait_time=5)
        else:
            with pytest.raises(MessagingEntityDisabledError):
                receiver.receive_messages(max_wait_time=5)
    admin.update(name, status="Active")
    with client.get_queue_sender(name) as sender:
        sender.send_messages(ServiceBusMessage("again"))
    assert admin.get(name)["totals"]["active"] == (4 if may_send else 3)


@pytest.mark.rule("PRP-3")
def test_changed_properties_hold_for_links_that_are_open(
    admin: JsonAdmin, client: ServiceBusClient, name: str
) -> None:
    admin.create(
        name, lock_duration="PT5M", max_delivery_count=10, max_message_size_in_kilobytes=256
    )
    with client.get_queue_sender(name) as sender, client.get_queue_receiver(name) as receiver:
        sender.send_messages(ServiceBusMessage("a"))
        (first,) = receiver.receive_messages(max_wait_time=5)
        assert 299 < (first.locked_until_utc - first.enqueued_time_utc).total_seconds() < 330
        admin.update(name, lock_duration="PT20S", max_delivery_count=1)
        receiver.abandon_message(first)
        assert not receiver.receive_messages(max_wait_time=1), "one delivery is the most now"
        sender.send_messages(ServiceBusMessage("b"))
        (second,) = receiver.receive_messages(max_wait_time=5)
        assert 19 < (second.locked_until_utc - second.enqueued_time_utc).total_seconds() < 50
        admin.update(name, max_message_size_in_kilobytes=2)
        with pytest.raises(MessageSizeExceededError):
            sender.send_messages(ServiceBusMessage("x" * 3000))
    assert admin.get(name)["totals"]["dead_letter"] == 1


@pytest.mark.rule("PRP-2", "SEED-16")
def test_what_is_fixed_stays(admin: JsonAdmin, name: str) -> None:
    admin.create(name)
    for change in ({"requires_session": True}, {"enable_partitioning": True}):
        with pytest.raises(Refused) as refused:
            admin.update(name, **change)
        assert refused.value.status == 400
    assert admin.get(name)["properties"]["requires_session"] is False


@pytest.mark.rule("PAV-5", "SEED-60", "SEED-62")
def test_nothing_is_changed_while_a_store_is_down(
    admin: JsonAdmin, client: ServiceBusClient, name: str
) -> None:
    admin.create(name, enable_partitioning=True, partition_count=4)
    with client.get_queue_sender(name) as sender:
        sender.send_messages(ServiceBusMessage("kept"))
    admin.fault(kind="store", store=3, mode="down")
    try:
        # A store is known to be down once it fails to write; and then in every worker.
        while admin.get(name)["availability"] != "Limited":
            with client.get_queue_sender(name) as sender:
                sender.send_messages([ServiceBusMessage("probe") for _ in range(4)])
        for change in (
            lambda: admin.delete(name),
            lambda: admin.update(name, lock_duration="PT7S"),
            lambda: admin.create(f"{name}-2", enable_partitioning=True, partition_count=4),
        ):
            with pytest.raises(Refused, match="store 3") as refused:
                change()
            assert (refused.value.status, refused.value.retryable) == (503, True)
        assert admin.get(name)["properties"]["lock_duration"] == "PT1M"
    finally:
        admin.fault(kind="store", store=3, mode="up")
    while admin.get(name)["availability"] != "Available":
        pass
    admin.delete(name)


def test_what_does_not_exist_is_not_found(admin: JsonAdmin, client: ServiceBusClient) -> None:
    for change in (lambda: admin.delete("nowhere"), lambda: admin.update("nowhere", status="x")):
        with pytest.raises(Refused) as refused:
            change()
        assert refused.value.status == 404
    with pytest.raises(MessagingEntityNotFoundError), client.get_queue_sender("nowhere") as sender:
        sender.send_messages(ServiceBusMessage("x"))


@pytest.mark.rule("ENT-9", "ERR-2")
def test_a_used_name_is_refused(admin: JsonAdmin, name: str) -> None:
    admin.create(name)
    with pytest.raises(Refused) as refused:
        admin.create(name.upper(), kind="topic")
    assert (refused.value.status, refused.value.condition) == (
        409,
        "com.microsoft:entity-already-exists",
    )


def test_a_hundred_lives_leave_nothing(admin: JsonAdmin, client: ServiceBusClient) -> None:
    before = [(store["fragments"], store["live_bytes"]) for store in admin.stores()]
    for number in range(100):
        partitioned = number % 10 == 0
        admin.create("fleeting", enable_partitioning=partitioned)
        if partitioned:
            with client.get_queue_sender("fleeting") as sender:
                sender.send_messages([ServiceBusMessage("x" * 1000) for _ in range(20)])
        admin.delete("fleeting")
    # The deletion is answered when it is durable; the room follows when the store has it, too.
    wait_until(
        lambda: [(s["fragments"], s["live_bytes"]) for s in admin.stores()] == before,
        "stores hold as much as before",
    )
