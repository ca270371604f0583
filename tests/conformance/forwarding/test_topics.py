"""Forwarding into topics and out of subscriptions, through the stock client."""

import datetime
from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from support.receiving import collect
from support.server import ServerProcess

NAMESPACE = """
[[queue]]
name = "sink-{shape}"
{partitioned}

[[queue]]
name = "burial-{shape}"

[[topic]]
name = "news-{shape}"
{partitioned}

[[topic.subscription]]
name = "onward"
forward_to = "sink-{shape}"

[[topic.subscription.rule]]
name = "marked"
sql_filter = "n > 4"
action = "SET seen = 'yes'"

[[topic.subscription]]
name = "kept"
forward_dead_lettered_messages_to = "burial-{shape}"

[[topic]]
name = "spoken-{shape}"
{partitioned}

[[topic.subscription]]
name = "in-sessions"
requires_session = true
forward_to = "heard-{shape}"

[[queue]]
name = "heard-{shape}"
requires_session = true
{partitioned}

[[queue]]
name = "source-{shape}"
forward_to = "news-{shape}"
{partitioned}
"""
SHAPES = {"whole": "", "parted": "enable_partitioning = true\npartition_count = 4"}
COUNT = 10


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceBusClient]:
    directory: Path = tmp_path_factory.mktemp("forwarding-topics")
    config = directory / "namespace.toml"
    text = [NAMESPACE.format(shape=name, partitioned=lines) for name, lines in SHAPES.items()]
    config.write_text("".join(text), encoding="utf-8")
    with (
        ServerProcess(directory, config, "--stores", "3") as server,
        ServiceBusClient.from_connection_string(server.connection_string) as connected,
    ):
        yield connected


@pytest.mark.rule("FWD-1", "FWD-9", "SEED-54", "SEED-55", "SEED-56", "ACT-5")
@pytest.mark.parametrize("shape", SHAPES)
def test_from_a_queue_through_a_topic_and_a_subscription_into_a_queue(
    client: ServiceBusClient, shape: str
) -> None:
    with client.get_queue_sender(f"source-{shape}") as sender:
        for number in range(COUNT):
            message = ServiceBusMessage(
                str(number),
                partition_key="one" if shape == "parted" else None,
                application_properties={"n": number},
            )
            sender.send_messages(message)
    with client.get_queue_receiver(f"sink-{shape}") as receiver:
        marked = collect(receiver, COUNT - 5)
        for message in marked:
            receiver.complete_message(message)
        assert [int(str(message)) for message in marked] == list(range(5, COUNT)), "in order"
        assert all((m.application_properties or {})[b"seen"] == b"yes" for m in marked)
        assert receiver.receive_messages(max_wait_time=1) == []
        if shape == "parted":
            assert {message.partition_key for message in marked} == {"one"}
    with client.get_subscription_receiver(f"news-{shape}", "kept") as receiver:
        kept = collect(receiver, COUNT)
        assert [int(str(message)) for message in kept] == list(range(COUNT))
        assert all(message.enqueued_sequence_number for message in kept)
        receiver.dead_letter_message(kept[0], reason="Unwanted")
        for message in kept[1:]:
            receiver.complete_message(message)
    with client.get_queue_receiver(f"burial-{shape}") as receiver:
        (buried,) = collect(receiver, 1)
        assert buried.dead_letter_reason == "Unwanted"
        assert buried.dead_letter_source == f"news-{shape}/Subscriptions/kept"
        receiver.complete_message(buried)


@pytest.mark.rule("SCH-10", "FWD-1")
def test_a_message_scheduled_at_a_topic_goes_on_when_it_is_due(client: ServiceBusClient) -> None:
    moment = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=2)
    with client.get_topic_sender("news-whole") as sender:
        message = ServiceBusMessage("later", application_properties={"n": 9})
        sender.schedule_messages(message, moment)
    with client.get_queue_receiver("sink-whole") as receiver:
        (arrived,) = collect(receiver, 1)
        assert str(arrived) == "later"
        receiver.complete_message(arrived)


@pytest.mark.rule("FWD-4")
@pytest.mark.parametrize("shape", SHAPES)
def test_a_subscription_that_requires_sessions_keeps_their_order(
    client: ServiceBusClient, shape: str
) -> None:
    with client.get_topic_sender(f"spoken-{shape}") as sender:
        for number in range(COUNT):
            sender.send_messages(ServiceBusMessage(str(number), session_id=f"s{number % 2}"))
    for session in range(2):
        with client.get_queue_receiver(f"heard-{shape}", session_id=f"s{session}") as receiver:
            got = [int(str(message)) for message in collect(receiver, COUNT // 2)]
        assert got == list(range(session, COUNT, 2))
