"""A second message with an id is accepted and dropped while the window of the first is open."""

import datetime

import pytest
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient

from conformance.duplicates.letters import letter, shown, shown_ids
from conformance.duplicates.namespace import BRIEF_WINDOW_SECONDS, Queues
from conformance.partitioning.operator import Operator, command
from conformance.settlement.bus import RECEIVE_AND_DELETE, Bus
from conformance.settlement.steps import opened, until
from support.receiving import collect, collect_async
from support.server import ServerProcess


@pytest.mark.rule("DUP-1", "DUP-2", "SEQ-3", "SEED-106")
def test_a_duplicate_is_accepted_and_dropped(bus: Bus, queue: str) -> None:
    sender = bus.sender(queue)
    for message_id, body in [("a", "1"), ("a", "2"), ("b", "3"), ("a", "4"), ("b", "5")]:
        sender.send_messages(letter(message_id, body))
    found = [(message.message_id, str(message)) for message in shown(bus, queue)]
    assert found == [("a", "1"), ("b", "3")]
    assert [message.sequence_number for message in shown(bus, queue)] == [1, 2]


@pytest.mark.rule("DUP-1", "BAT-2")
def test_duplicates_in_batches_are_dropped(bus: Bus, queue: str) -> None:
    sender = bus.sender(queue)
    sender.send_messages([letter(name) for name in "abcb"])
    sender.send_messages([letter(name) for name in "dcbaf"])
    assert shown_ids(bus, queue) == ["a", "b", "c", "d", "f"]


@pytest.mark.rule("SEED-37")
def test_a_queue_that_does_not_detect_duplicates_keeps_them(bus: Bus, queues: Queues) -> None:
    queue = queues.fresh("plain")
    bus.sender(queue).send_messages([letter("a"), letter("a")])
    assert shown_ids(bus, queue) == ["a", "a"]


def test_messages_without_ids_are_all_kept(bus: Bus, queue: str) -> None:
    sender = bus.sender(queue)
    sender.send_messages([letter(None), letter(None)])
    sender.send_messages(letter(None))
    assert len(set(shown_ids(bus, queue))) == 3


@pytest.mark.rule("DUP-4", "DUP-5")
def test_the_window_runs_from_the_first_message_and_then_ends(bus: Bus, queues: Queues) -> None:
    queue = queues.fresh("brief")
    sender = bus.sender(queue)

    def sent_again() -> bool:
        # Were the window to slide, no send would ever be kept.
        sender.send_messages(letter("a"))
        return len(shown(bus, queue)) > 1

    sender.send_messages(letter("a"))
    until("the window to end", sent_again)
    first, second = shown(bus, queue)
    assert first.enqueued_time_utc is not None and second.enqueued_time_utc is not None
    apart = second.enqueued_time_utc - first.enqueued_time_utc
    assert apart >= datetime.timedelta(seconds=BRIEF_WINDOW_SECONDS)


@pytest.mark.rule("DUP-5")
def test_consuming_a_message_does_not_clear_its_id(bus: Bus, queue: str) -> None:
    sender, receiver = bus.sender(queue), bus.receiver(queue)
    sender.send_messages([letter("done"), letter("dead"), letter("gone")])
    done, dead = collect(receiver, 2)
    receiver.complete_message(done)
    receiver.dead_letter_message(dead)
    collect(bus.receiver(queue, receive_mode=RECEIVE_AND_DELETE), 1)
    sender.send_messages([letter("done"), letter("dead"), letter("gone"), letter("new")])
    assert shown_ids(bus, queue) == ["new"]


async def test_the_asynchronous_client_sees_the_same(
    async_client: AsyncServiceBusClient, queue: str
) -> None:
    sender = async_client.get_queue_sender(queue)
    receiver = async_client.get_queue_receiver(queue)
    async with opened(sender, receiver):
        for name in "aabbaac":
            await sender.send_messages(letter(name))
        received = await collect_async(receiver, 3)
        assert [message.message_id for message in received] == ["a", "b", "c"]
        for message in received:
            await receiver.complete_message(message)
        await sender.send_messages([letter("a"), letter("d")])
        (last,) = await collect_async(receiver, 1)
        assert last.message_id == "d"
        await receiver.complete_message(last)


@pytest.mark.rule("DUP-10")
def test_dropped_duplicates_can_be_seen(
    bus: Bus, queue: str, operator: Operator, server: ServerProcess
) -> None:
    bus.sender(queue).send_messages([letter(name) for name in "aaba"])
    totals = operator.entity(queue)["totals"]
    assert (totals["active"], totals["duplicates_dropped"]) == (2, 2)
    url = ("--connection-string", server.connection_string)
    done = command("entity", "show", queue, *url)
    assert done.returncode == 0, done.stderr
    assert "duplicates dropped since the start: 2" in done.stdout
