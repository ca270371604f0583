"""Every type of property and body, from the bus to Spark to Parquet to Spark to the bus."""

import datetime
import uuid
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageBodyType
from pyspark.sql import SparkSession

from spark.bus import Bus

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("spark")]

# The stock client writes bytes as text, so they are not among these.
PROPERTIES: dict[str | bytes, Any] = {
    "text": "Grüße",
    "empty": "",
    "true": True,
    "false": False,
    "small": 7,
    "negative": -5,
    "large": {"TYPE": "LONG", "VALUE": 1 << 62},
    "double": 0.1,
    "infinity": float("inf"),
    "uuid": uuid.UUID("12345678-1234-5678-1234-567812345678"),
    "time": datetime.datetime(2026, 1, 31, 12, 30, 15, 123000, tzinfo=datetime.UTC),
}


def essence(message: Any) -> dict[str, Any]:
    """What a receiver of the stock client sees, but for what the bus writes."""
    raw = message.raw_amqp_message
    body = message.body if raw.body_type is AmqpMessageBodyType.VALUE else list(message.body)
    return {
        "body": body,
        "body_type": raw.body_type,
        "properties": message.application_properties,
        "message_id": message.message_id,
        "session_id": message.session_id,
        "subject": message.subject,
        "content_type": message.content_type,
        "correlation_id": message.correlation_id,
        "reply_to": message.reply_to,
        "reply_to_session_id": message.reply_to_session_id,
        "to": message.to,
        "time_to_live": message.time_to_live,
        "partition_key": message.partition_key,
    }


def letters() -> list[Any]:
    full = ServiceBusMessage(
        b"\x00\x01body",
        application_properties=PROPERTIES,
        message_id="full",
        subject="subject",
        content_type="application/octet-stream",
        correlation_id="correlation",
        reply_to="reply",
        reply_to_session_id="reply session",
        to="to",
        session_id="session",
        partition_key="session",
        time_to_live=datetime.timedelta(days=2),
    )
    value = AmqpAnnotatedMessage(value_body={"a": [1, "two", None]}, properties={"message_id": "v"})
    sequence = AmqpAnnotatedMessage(
        sequence_body=[[1, "two"], [b"3"]], properties={"message_id": "s"}
    )
    return [full, ServiceBusMessage("", message_id="bare"), value, sequence]


@pytest.mark.parametrize("raw", [False, True])
def test_what_went_round_is_what_was_sent(
    spark: SparkSession, bus: Bus, tmp_path: Path, raw: bool
) -> None:
    source, target = bus.queue("plain"), bus.queue("plain")
    bus.send(source, *letters())
    options = bus.options(source, **({"includeAmqp": "true"} if raw else {}))
    frame = spark.read.format("servicebus").options(**options).load()
    frame.coalesce(1).write.parquet(str(tmp_path / "captured"))
    again = spark.read.parquet(str(tmp_path / "captured"))
    assert again.schema.simpleString() == frame.schema.simpleString()
    again.write.format("servicebus").options(**bus.options(target)).mode("append").save()
    sent = {message.message_id: essence(message) for message in bus.peek(source)}
    found = {message.message_id: essence(message) for message in bus.peek(target)}
    if not raw:
        # All lists of a sequence come back as one.
        sent["s"]["body"] = [[item for part in sent["s"]["body"] for item in part]]
    assert found == sent
    row = again.where("message_id = 'full'").first()
    assert row is not None
    assert row["application_property_types"] == {
        "text": "string",
        "empty": "string",
        "true": "boolean",
        "false": "boolean",
        "small": "int",
        "negative": "int",
        "large": "long",
        "double": "double",
        "infinity": "double",
        "uuid": "uuid",
        "time": "timestamp",
    }
    assert row["application_properties"]["time"] == "2026-01-31T12:30:15.123+00:00"
