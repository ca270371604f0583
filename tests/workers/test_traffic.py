"""A stock client cannot tell that several processes serve it.

Each of the queues `plain-0` to `plain-3` lives in another store, so that whichever worker takes
the connection, some fragments are its own and some are not.
"""

import contextlib
import json
import urllib.request
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode

from support.receiving import bodies, collect
from support.workers import WorkersServer

PARTS = "parts-0"


@pytest.mark.parametrize("queue", [f"plain-{number}" for number in range(4)])
def test_a_queue_of_one_fragment_wherever_it_lives(client: ServiceBusClient, queue: str) -> None:
    sent = [f"message {number}" for number in range(20)]
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage(text) for text in sent[:10]])
        for text in sent[10:]:
            sender.send_messages(ServiceBusMessage(text))
    with client.get_queue_receiver(queue) as receiver:
        messages = collect(receiver, 20)
        assert bodies(messages) == sent, "one fragment keeps the order"
        for message in messages:
            receiver.complete_message(message)
        assert receiver.peek_messages(max_message_count=1) == []


@pytest.mark.rule("SEED-39")
def test_a_partitioned_queue_spreads_over_the_stores_of_all_workers(
    client: ServiceBusClient,
) -> None:
    sent = {f"message {number}" for number in range(64)}
    with client.get_queue_sender(PARTS) as sender:
        for text in sorted(sent):
            sender.send_messages(ServiceBusMessage(text))
    with client.get_queue_receiver(PARTS) as receiver:
        peeked = receiver.peek_messages(max_message_count=64)
        fragments = {message.sequence_number >> 48 for message in peeked}
        assert len(fragments) == 16
        messages = collect(receiver, 64)
        assert set(bodies(messages)) == sent
        for message in messages:
            receiver.complete_message(message)


def test_operations_by_number_and_by_token_find_the_fragment(client: ServiceBusClient) -> None:
    queue = "parts-1"
    due = datetime.now(UTC) + timedelta(hours=1)
    with client.get_queue_sender(queue) as sender:
        numbers = [sender.schedule_messages(ServiceBusMessage("later"), due)[0] for _ in range(8)]
        sender.cancel_scheduled_messages(numbers)
        sender.send_messages([ServiceBusMessage(f"{n}") for n in range(8)])
        for n in range(8):
            sender.send_messages(ServiceBusMessage(f"single {n}"))
    with client.get_queue_receiver(queue) as receiver:
        messages = collect(receiver, 16)
        for message in messages[:8]:
            receiver.renew_message_lock(message)
            receiver.defer_message(message)
        for message in messages[8:]:
            receiver.dead_letter_message(message, reason="tried")
        deferred = receiver.receive_deferred_messages([m.sequence_number for m in messages[:8]])
        for message in deferred:
            receiver.complete_message(message)
    with client.get_queue_receiver(queue, sub_queue="deadletter") as dead:
        for message in collect(dead, 8):
            assert message.dead_letter_reason == "tried"
            dead.complete_message(message)


@pytest.mark.rule("LCK-6")
def test_a_lock_taken_through_one_worker_is_renewed_through_any(shared: WorkersServer) -> None:
    """Four connections: the kernel gives them to one worker or the other."""
    with contextlib.ExitStack() as stack:
        receivers = []
        for _ in range(4):
            client = stack.enter_context(
                ServiceBusClient.from_connection_string(shared.connection_string, retry_total=0)
            )
            receivers.append(stack.enter_context(client.get_queue_receiver("parts-2")))
        sender = stack.enter_context(client.get_queue_sender("parts-2"))
        sender.send_messages(ServiceBusMessage("locked"))
        (message,) = collect(receivers[0], 1)
        until = message.locked_until_utc
        assert until is not None
        for receiver in receivers:
            renewed = receiver.renew_message_lock(message)
            assert renewed >= until


def test_receive_and_delete_through_any_worker(client: ServiceBusClient) -> None:
    queue = "parts-3"
    with client.get_queue_sender(queue) as sender:
        for number in range(40):
            sender.send_messages(ServiceBusMessage(f"{number}"))
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with client.get_queue_receiver(queue, receive_mode=mode, prefetch_count=10) as receiver:
        assert sorted(map(int, bodies(collect(receiver, 40)))) == list(range(40))


def test_the_server_is_healthy_whichever_worker_answers(shared: WorkersServer) -> None:
    for _ in range(8):
        url = f"http://127.0.0.1:{shared.ready.http_port}/health"
        with urllib.request.urlopen(url, timeout=30) as answer:
            assert json.load(answer)["status"] == "healthy"
