"""The vendor's peek of a partitioned entity: the first partition to answer decides."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceivedMessage

from conformance.partitioning.partitions import partition_of
from conformance.settlement.namespace import write_queues
from support.server import ServerProcess

COUNT = 40


@pytest.fixture
def client(tmp_path: Path) -> Iterator[ServiceBusClient]:
    config = write_queues(
        tmp_path / "namespace.toml", {"spread": {"enable_partitioning": "true"}, "whole": {}}
    )
    flags = ("--stores", "2", "--peek-partitioned", "first-responder")
    with (
        ServerProcess(tmp_path, config, *flags) as server,
        ServiceBusClient.from_connection_string(server.connection_string) as connected,
    ):
        yield connected


def fill(client: ServiceBusClient, queue: str) -> None:
    with client.get_queue_sender(queue) as sender:
        for number in range(COUNT):
            sender.send_messages(ServiceBusMessage(str(number)))


def walk(client: ServiceBusClient, queue: str) -> list[list[ServiceBusReceivedMessage]]:
    answers = []
    with client.get_queue_receiver(queue) as receiver:
        while answer := receiver.peek_messages(max_message_count=COUNT):
            answers.append(answer)
    return answers


@pytest.mark.rule("SEED-13", "SEED-72", "SEED-73", "CON-6")
def test_each_answer_shows_one_partition_and_repeated_peeks_show_all(
    client: ServiceBusClient,
) -> None:
    fill(client, "spread")
    answers = walk(client, "spread")
    for answer in answers:
        numbers = [message.sequence_number or 0 for message in answer]
        assert len({partition_of(number) for number in numbers}) == 1
        assert numbers == sorted(numbers), "the oldest of that partition first"
    assert len(answers) > 1, "so one answer does not reach the number asked for"
    shown = [int(str(message)) for answer in answers for message in answer]
    assert sorted(shown) == list(range(COUNT))


@pytest.mark.rule("SEED-12")
def test_a_queue_in_one_piece_shows_its_oldest_messages(client: ServiceBusClient) -> None:
    fill(client, "whole")
    [answer] = walk(client, "whole")
    assert [int(str(message)) for message in answer] == list(range(COUNT))
