"""Topics over the end of a server, in several processes, and in the emulator's own file."""

import datetime
import json
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusMessage

from conformance.topics.bus import TopicBus
from conformance.topics.namespace import SHAPES, declare, sql, subscription
from support.receiving import bodies, collect
from support.server import ServerProcess

MEGABYTE = 1_000_000
PARTED = {"enable_partitioning": "true", "partition_count": "4"}
SUBSCRIPTIONS = {
    "all": subscription(),
    "large": subscription({"large": sql("size > 10", "SET seen = 1")}),
    "grouped": subscription(requires_session="true"),
}


def write_topic(path: Path, shape: str) -> Path:
    properties = PARTED if shape == "parted" else {}
    path.write_text("\n".join(declare("news", properties, SUBSCRIPTIONS)), encoding="utf-8")
    return path


@pytest.mark.rule("ENT-3", "SCH-10", "SES-19")
@pytest.mark.parametrize("is_killed", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_messages_and_numbers_stay(tmp_path: Path, shape: str, is_killed: bool) -> None:
    config = write_topic(tmp_path / "news.toml", shape)
    with ServerProcess(tmp_path, config, "--stores", "2") as server:
        bus = TopicBus(server.connection_string)
        sent = [
            ServiceBusMessage(str(n), session_id="s", application_properties={"size": n})
            for n in range(8, 14)
        ]
        bus.send("news", *sent)
        receiver = bus.subscriber("news", "all")
        before = collect(receiver, 6)
        receiver.complete_message(before[0])
        receiver.defer_message(before[1])
        receiver.dead_letter_message(before[2])
        moment = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=3)
        bus.topic_sender("news").schedule_messages(
            ServiceBusMessage("later", application_properties={"size": 20}), moment
        )
        if is_killed:
            server.sigkill()
        else:
            for message in before[3:]:
                receiver.abandon_message(message)  # its lock would survive a clean stop
            server.stop()
        server.start()
        again = TopicBus(server.connection_string)
        receiver = again.subscriber("news", "all")
        (deferred,) = receiver.receive_deferred_messages(before[1].sequence_number)
        receiver.complete_message(deferred)
        (dead,) = collect(again.buried("news", "all"), 1)
        assert str(dead) == str(before[2])
        rest = again.take("news", "all", 4)
        assert sorted(bodies(rest)) == sorted([*bodies(before[3:]), "later"])
        by_body = {str(m): m.sequence_number for m in rest}
        assert all(by_body[str(m)] == m.sequence_number for m in before[3:])
        large = again.take("news", "large", 4)
        assert sorted(bodies(large)) == ["11", "12", "13", "later"]
        assert all((m.application_properties or {})[b"seen"] == 1 for m in large)
        grouped = again.accept("news", "grouped", "s")
        assert bodies(collect(grouped, 6)) == [str(n) for n in range(8, 14)]
        again.send("news", "after")
        (after,) = again.take("news", "all", 1)
        if shape == "whole":
            assert after.sequence_number > max(by_body.values())
        again.client.close()
        bus.client.close()


@pytest.mark.rule("SEED-3", "SEED-8")
def test_a_topic_in_several_processes(tmp_path: Path) -> None:
    config = write_topic(tmp_path / "news.toml", "parted")
    with ServerProcess(tmp_path, config, "--stores", "2", "--workers", "2") as server:
        bus = TopicBus(server.connection_string)
        texts = [str(n) for n in range(12)]
        bus.send("news", *texts)
        messages = bus.take("news", "all", 12)
        assert sorted(bodies(messages)) == sorted(texts)
        assert len({m.sequence_number >> 48 for m in messages}) == 4
        bus.client.close()


@pytest.mark.rule("EMU-9", "EMU-10")
def test_topics_of_the_emulators_file(tmp_path: Path) -> None:
    rule = {
        "Name": "red",
        "Properties": {
            "FilterType": "Correlation",
            "CorrelationFilter": {"Label": "red", "Properties": {"prop1": "value1"}},
        },
    }
    action = {
        "Name": "big",
        "Properties": {
            "FilterType": "Sql",
            "SqlFilter": {"SqlExpression": "sys.MessageId LIKE '%big%'"},
            "Action": {"SqlExpression": "SET sys.To = 'Entity'"},
        },
    }
    topic = {
        "Name": "topic.1",
        "Properties": {"DefaultMessageTimeToLive": "PT1H"},
        "Subscriptions": [
            {"Name": "subscription.1", "Properties": {}, "Rules": [rule]},
            {"Name": "subscription.2", "Properties": {}, "Rules": [action]},
            {"Name": "subscription.3", "Properties": {"MaxDeliveryCount": 3}},
        ],
    }
    namespace = {"Name": "sbemulatorns", "Queues": [], "Topics": [topic]}
    config = tmp_path / "Config.json"
    content = {"UserConfig": {"Namespaces": [namespace], "Logging": {"Type": "File"}}}
    config.write_text(json.dumps(content), encoding="utf-8")
    with ServerProcess(tmp_path, config) as server:
        bus = TopicBus(server.connection_string)
        bus.send(
            "topic.1",
            ServiceBusMessage("r", subject="red", application_properties={"prop1": "value1"}),
            ServiceBusMessage("b", message_id="a big one"),
        )
        assert bus.texts("topic.1", "subscription.1", 1) == ["r"]
        (big,) = bus.take("topic.1", "subscription.2", 1)
        assert (str(big), big.to) == ("b", "Entity")
        assert bus.texts("topic.1", "subscription.3", 2) == ["b", "r"]
        bus.client.close()


def test_a_message_is_stored_once_for_a_hundred_subscriptions(tmp_path: Path) -> None:
    names = [f"s{n}" for n in range(100)]
    subscriptions = {name: subscription() for name in names}
    properties = {"max_message_size_in_kilobytes": "2048"}
    config = tmp_path / "news.toml"
    config.write_text("\n".join(declare("news", properties, subscriptions)), encoding="utf-8")
    with ServerProcess(tmp_path, config) as server:
        bus = TopicBus(server.connection_string)
        bus.send("news", "x" * MEGABYTE)
        (message,) = bus.take("news", names[-1], 1)
        assert len(str(message)) == MEGABYTE
        written = sum(map(written_bytes, server.data.rglob("*.seg")))
        assert MEGABYTE < written < 1.3 * MEGABYTE
        server.sigkill()
        server.start()
        again = TopicBus(server.connection_string)
        for name in (names[0], names[50]):
            (message,) = again.take("news", name, 1)
            assert len(str(message)) == MEGABYTE
        again.client.close()
        bus.client.close()


def written_bytes(file: Path) -> int:
    """How far a file of the log was written; the rest of it is room for what comes."""
    return len(file.read_bytes().rstrip(b"\0"))
