"""The profile `emulator` with the emulator's own file: what it offers, and what it refuses.

The file has the shape of the sample that comes with the vendor's emulator, comments included.
"""

import contextlib
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSubQueue
from azure.servicebus.exceptions import ServiceBusConnectionError, ServiceBusError

from adversity.waiting import wait_until
from support.json_admin import JsonAdmin, Refused
from support.receiving import bodies, collect
from support.server import ServerProcess

CONFIG = """
{
  // A comment, as in the sample.
  "UserConfig": {
    "Namespaces": [
      {
        "Name": "sbemulatorns",
        "Queues": [
          {"Name": "queue.1", "Properties": {
            "DeadLetteringOnMessageExpiration": true, "DefaultMessageTimeToLive": "PT1H",
            "LockDuration": "PT1M", "MaxDeliveryCount": 3, "RequiresDuplicateDetection": false,
            "RequiresSession": false, "ForwardTo": "", "ForwardDeadLetteredMessagesTo": ""}},
          {"Name": "once", "Properties": {"RequiresDuplicateDetection": true}},
          {"Name": "talks", "Properties": {"RequiresSession": true}},
          {"Name": "on", "Properties": {"ForwardTo": "there"}},
          {"Name": "there"}
        ],
        "Topics": [
          {"Name": "topic.1", "Properties": {"DefaultMessageTimeToLive": "PT1H"},
           "Subscriptions": [
            {"Name": "red", "Rules": [{"Name": "red", "Properties": {
              "FilterType": "Correlation", "CorrelationFilter": {"Label": "red"}}}]},
            {"Name": "large", "Rules": [{"Name": "large", "Properties": {
              "FilterType": "Sql", "SqlFilter": {"SqlExpression": "size > 10"},
              "Action": {"SqlExpression": "SET seen = 'yes'"}}}]},
            {"Name": "all"}
          ]}
        ]
      }
    ],
    "Logging": {"Type": "File"}
  }
}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("emulator")
    config = directory / "Config.json"
    config.write_text(CONFIG, encoding="utf-8")
    with ServerProcess(directory, config, "--profile", "emulator") as process:
        yield process


def send(client: ServiceBusClient, queue: str, *messages: ServiceBusMessage) -> None:
    with client.get_queue_sender(queue) as sender:
        for message in messages:
            sender.send_messages(message)


def take(client: ServiceBusClient, queue: str, count: int, **options: object) -> list[str]:
    with client.get_queue_receiver(queue, **options) as receiver:
        messages = collect(receiver, count)
        for message in messages:
            receiver.complete_message(message)
    return bodies(messages)


@pytest.mark.rule("EMU-3")
def test_queues_dead_letters_and_time_to_live(client: ServiceBusClient) -> None:
    send(client, "queue.1", ServiceBusMessage("kept"))
    assert take(client, "queue.1", 1) == ["kept"]
    send(client, "queue.1", ServiceBusMessage("late", time_to_live=timedelta(milliseconds=1)))
    dead = {"sub_queue": ServiceBusSubQueue.DEAD_LETTER}
    assert take(client, "queue.1", 1, **dead) == ["late"]


@pytest.mark.rule("EMU-3")
def test_duplicates_sessions_and_forwarding(client: ServiceBusClient) -> None:
    send(client, "once", *(ServiceBusMessage(b, message_id=i) for b, i in (("a", "1"), ("b", "1"))))
    send(client, "once", ServiceBusMessage("c", message_id="2"))
    assert take(client, "once", 2) == ["a", "c"]
    send(client, "talks", ServiceBusMessage("said", session_id="s"))
    assert take(client, "talks", 1, session_id="s") == ["said"]
    send(client, "on", ServiceBusMessage("handed on"))
    assert take(client, "there", 1) == ["handed on"]


@pytest.mark.rule("EMU-3")
def test_topics_with_both_kinds_of_rules(client: ServiceBusClient) -> None:
    with client.get_topic_sender("topic.1") as sender:
        sender.send_messages(ServiceBusMessage("r", subject="red"))
        sender.send_messages(ServiceBusMessage("l", application_properties={"size": 11}))
    got = {}
    for name, count in (("red", 1), ("large", 1), ("all", 2)):
        with client.get_subscription_receiver("topic.1", name) as receiver:
            messages = collect(receiver, count)
            got[name] = bodies(messages)
            if name == "large":
                assert messages[0].application_properties[b"seen"] == b"yes"
    assert got == {"red": ["r"], "large": ["l"], "all": ["r", "l"]}


@pytest.mark.rule("EMU-4", "EMU-8")
@pytest.mark.parametrize(
    "properties",
    [
        {"enable_partitioning": True},
        {"max_message_size_in_kilobytes": 512},
        {"default_message_time_to_live": "PT2H"},
        {"max_delivery_count": 11},
        {"duplicate_detection_history_time_window": "PT6M"},
        {"lock_duration": "PT4S"},
    ],
    ids=lambda properties: next(iter(properties)),
)
def test_what_the_emulator_refuses(server: ServerProcess, properties: dict[str, object]) -> None:
    """Partitioned entities and large messages among it."""
    with pytest.raises(Refused) as refused:
        JsonAdmin(server).create("beyond", **properties)
    assert refused.value.status == 400
    assert next(iter(properties)) in refused.value.text


@pytest.mark.rule("EMU-8", "QTA-9")
def test_ten_connections(server: ServerProcess) -> None:
    def one(stack: contextlib.ExitStack) -> None:
        client = ServiceBusClient.from_connection_string(server.connection_string, retry_total=0)
        stack.enter_context(client)
        sender = stack.enter_context(client.get_queue_sender("there"))
        sender.create_message_batch()  # connects

    def is_free() -> bool:
        try:
            with contextlib.ExitStack() as stack:
                for _ in range(10):
                    one(stack)
        except ServiceBusError:
            return False
        return True

    wait_until(is_free, "connections of earlier tests have gone")
    with contextlib.ExitStack() as stack:
        deadline = time.monotonic() + 60
        count = 0
        with pytest.raises(ServiceBusConnectionError):
            while time.monotonic() < deadline:
                one(stack)
                count += 1
        assert count <= 10
