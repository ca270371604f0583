"""Replay: a capture becomes the same messages again, in order, at any pace, after any end."""

import datetime
import itertools
import json
import time
import uuid
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageBodyType
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from conformance.settlement.steps import until
from pyspark_servicebus.pipelines.capture import capture
from pyspark_servicebus.pipelines.replay import ReplaySettings, replay
from pyspark_servicebus.pipelines.replay import pipeline as module
from pyspark_servicebus.pipelines.run.progress import PipelineFailed
from pyspark_servicebus.pipelines.run.settings import SettingsError
from spark.bus import Bus
from spark.pipelines.capture.captures import place_of, settings_for

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("spark")]
NOW = datetime.datetime.now(datetime.UTC).replace(microsecond=0)


def replay_settings(bus: Bus, source: Path, entity: str, **table: object) -> ReplaySettings:
    given = {"bus": place_of(bus), "source": str(source), "entity": entity, "retry": "20s"}
    state = source.parent / f"{entity}-positions.json"
    return ReplaySettings.from_table({**given, "state": str(state), **table})


def captured(spark: SparkSession, bus: Bus, queue: str, lake: Path, **table: object) -> Path:
    capture(spark, settings_for(bus, queue, lake, **table))
    return lake


def keyed(count: int, keys: int, prefix: str = "m") -> list[ServiceBusMessage]:
    return [
        ServiceBusMessage(f"{n}", message_id=f"{prefix}-{n}", partition_key=f"k{n % keys}")
        for n in range(count)
    ]


def send_all(bus: Bus, queue: str, messages: list[ServiceBusMessage]) -> None:
    by_key = defaultdict(list)
    for message in messages:
        by_key[message.partition_key or message.session_id].append(message)
    with bus.client.get_queue_sender(queue) as sender:
        for group in by_key.values():
            sender.send_messages(group)


def arrived(bus: Bus, queue: str, count: int) -> None:
    """What was sent is there, and nothing of the replay is left at the bus."""
    bus.await_left(queue, count, 0, 0)
    assert bus.totals(queue)["staged"] == 0
    assert bus.operator.stages(queue) == []


# --- the same again -----------------------------------------------------------------------

RICH: list[ServiceBusMessage] = [
    ServiceBusMessage(
        b"\x00\xff bytes",
        message_id="all",
        subject="s",
        content_type="application/octet-stream",
        correlation_id="c",
        reply_to="r",
        reply_to_session_id="rs",
        to="t",
        partition_key="k",
        time_to_live=datetime.timedelta(hours=5),
        application_properties={
            "text": "x",
            "int": 5,
            "double": 0.25,
            "bool": True,
            "uuid": uuid.UUID(int=7),
            "bytes": b"\x01",
            "none": None,
            "when": NOW,
        },
    ),
    ServiceBusMessage("no more than a body"),
    ServiceBusMessage("due", scheduled_enqueue_time_utc=NOW - datetime.timedelta(days=1)),
]


def annotated() -> list[AmqpAnnotatedMessage]:
    return [
        AmqpAnnotatedMessage(value_body={"deep": [1, "two", None]}),
        AmqpAnnotatedMessage(sequence_body=[[1, 2], ["three"]]),
    ]


SAID = (
    "message_id",
    "subject",
    "content_type",
    "correlation_id",
    "reply_to",
    "reply_to_session_id",
    "to",
    "partition_key",
    "session_id",
    "time_to_live",
    "scheduled_enqueue_time_utc",
    "application_properties",
    "state",
)


def told(message: Any) -> dict[str, object]:
    """What a sender can say of a message, as the stock client shows it."""
    raw = message.raw_amqp_message
    kind = raw.body_type
    body = list(raw.body) if kind != AmqpMessageBodyType.VALUE else raw.body
    if kind == AmqpMessageBodyType.SEQUENCE:
        body = [item for part in body for item in part]
    if kind == AmqpMessageBodyType.DATA:
        body = b"".join(body)
    return {"kind": kind, "body": body} | {name: getattr(message, name) for name in SAID}


@pytest.mark.parametrize("form", ["parquet", "delta"])
@pytest.mark.parametrize("raw", [False, True], ids=["columns", "raw"])
def test_the_bus_holds_the_same_messages_again(
    spark: SparkSession, bus: Bus, tmp_path: Path, form: str, raw: bool
) -> None:
    queue, again = bus.queue("plain"), bus.queue("plain")
    # Without the encoded message nothing tells no body from an empty one.
    bus.send(queue, *RICH, ServiceBusMessage(None if raw else ""))
    with bus.client.get_queue_sender(queue) as sender:
        for message in annotated():
            sender.send_messages(message)
    lake = captured(spark, bus, queue, tmp_path / "lake", format=form, include_amqp=raw)
    report = replay(spark, replay_settings(bus, lake, again))
    assert report.rows == len(RICH) + 3
    arrived(bus, again, report.rows)
    before, after = bus.peek(queue), bus.peek(again)
    assert len(before) == len(RICH) + 3
    assert [told(message) for message in after] == [told(message) for message in before]


def test_sessions_keep_their_order(spark: SparkSession, bus: Bus, tmp_path: Path) -> None:
    queue, again = bus.queue("sessions"), bus.queue("sessions")
    messages = [ServiceBusMessage(f"{n}", session_id=f"s{n % 5}") for n in range(100)]
    send_all(bus, queue, messages)
    lake = captured(spark, bus, queue, tmp_path / "lake")
    assert replay(spark, replay_settings(bus, lake, again, batch=30)).rows == 100
    arrived(bus, again, 100)
    for number in range(5):
        with bus.client.get_queue_receiver(again, session_id=f"s{number}") as receiver:
            found = receiver.peek_messages(max_message_count=100)
        assert [int(str(message)) for message in found] == list(range(number, 100, 5))


# --- which, and how -----------------------------------------------------------------------


def test_filters_ids_manifests_and_a_dry_run(spark: SparkSession, bus: Bus, tmp_path: Path) -> None:
    queue, again = bus.queue(), bus.queue("once")
    send_all(bus, queue, keyed(40, 8))
    lake = captured(spark, bus, queue, tmp_path / "lake")
    chosen = {"filter": "partition_key = 'k3' AND cast(body AS string) < 30", "id_prefix": "again-"}
    dry = replay(spark, replay_settings(bus, lake, again, dry_run=True, speed=0.5, **chosen))
    assert (dry.rows, len(dry.fragments), len(dry.first_rows)) == (4, 1, 4)
    assert dry.lasts_s is not None
    assert dry.first_rows[0]["message_id"] == "m-3"
    assert bus.left(again) == (0, 0, 0)
    [window] = (lake / "_capture" / "windows").glob("*.json")
    here = {"state": str(tmp_path / "window-positions.json"), **chosen}
    assert replay(spark, replay_settings(bus, window, again, **here)).rows == 4
    arrived(bus, again, 4)
    assert {m.message_id for m in bus.peek(again)} == {
        "again-m-11",
        "again-m-19",
        "again-m-27",
        "again-m-3",
    }
    directly = {"deliver": "atLeastOnce", **chosen}
    second = replay(spark, replay_settings(bus, lake, again, **directly))
    assert (second.rows, second.duplicates) == (4, 4)
    last_year = {"since": NOW - datetime.timedelta(days=365), "until": NOW.replace(year=2020)}
    with pytest.raises(SettingsError, match="the end is before"):
        replay_settings(bus, lake, again, **last_year)
    past = replay_settings(bus, lake, again, until=datetime.datetime(2020, 1, 1), dry_run=True)
    assert replay(spark, past).rows == 0


def test_the_pace_and_shifted_times(spark: SparkSession, bus: Bus, tmp_path: Path) -> None:
    """Messages that came over 40 s, ten times as fast."""
    again, folder = bus.queue("plain"), tmp_path / "made"
    rows = spark.range(5).select(
        (f.col("id") + 1).alias("sequence_number"),
        f.timestamp_seconds(f.lit(1_700_000_000) + f.col("id") * 10).alias("enqueued_time"),
        f.timestamp_seconds(f.lit(1_700_100_000) + f.col("id") * 10).alias(
            "scheduled_enqueue_time"
        ),
        f.col("id").cast("string").cast("binary").alias("body"),
    )
    rows.write.parquet(str(folder))
    began = time.time()
    settings = replay_settings(bus, folder, again, speed=10, schedule="shift")
    assert replay(spark, settings).rows == 5
    assert time.time() - began >= 4
    until("the messages", lambda: bus.totals(again)["scheduled"] == 5)
    found = sorted(bus.peek(again), key=lambda m: m.sequence_number)
    assert [str(m) for m in found] == ["0", "1", "2", "3", "4"]
    times = [m.scheduled_enqueue_time_utc.timestamp() for m in found]
    assert [round(b - a) for a, b in itertools.pairwise(times)] == [1, 1, 1, 1]
    assert times[0] == pytest.approx(began + 10_000, abs=120)


# --- after an end -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("deliver", "kept_notes"), [("staged", 0), ("staged", 1), ("atLeastOnce", 1)]
)
def test_a_replay_that_ends_anywhere_goes_on(
    spark: SparkSession,
    bus: Bus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    deliver: str,
    kept_notes: int,
) -> None:
    """Killed after a batch was sent and before its positions were kept: the worst moment."""
    queue, again = bus.queue(), bus.queue()
    for part in range(4):
        send_all(bus, queue, keyed(50, 10, prefix=f"p{part}"))
    lake = captured(spark, bus, queue, tmp_path / "lake")
    settings = replay_settings(bus, lake, again, batch=50, deliver=deliver)
    notes = itertools.count()
    real = module.save_positions

    def break_off(*given: Any) -> None:
        if next(notes) > kept_notes:
            raise OSError("the driver is gone")
        real(*given)

    with monkeypatch.context() as patch:
        patch.setattr(module, "save_positions", break_off)
        with pytest.raises(OSError, match="the driver is gone"):
            replay(spark, settings)
    kept = json.loads(Path(str(settings.state)).read_text())
    assert (kept["rows"] > 0) == (kept_notes > 0)
    assert kept["rows"] < 200
    report = replay(spark, settings)
    assert report.resumed_behind == kept["rows"]
    assert report.rows + report.resumed_behind == 200
    if deliver == "staged":
        arrived(bus, again, 200)
        by_key = defaultdict(list)
        for message in bus.peek(again):
            by_key[message.partition_key].append(message.message_id)
        for key, ids in by_key.items():
            own = range(int(key[1:]), 50, 10)
            assert ids == [f"p{part}-{n}" for part in range(4) for n in own]
    ids = [m.message_id for m in bus.peek(again)]
    assert len(set(ids)) == 200
    assert (len(ids) == 200) == (deliver == "staged")
    # One that has ended begins again.
    assert replay(spark, replay_settings(bus, lake, again, dry_run=True, batch=50)).rows == 200
    if deliver == "staged":
        assert replay(spark, settings).rows == 200
        arrived(bus, again, 400)


# --- what is refused ----------------------------------------------------------------------


def test_what_cannot_be_replayed(spark: SparkSession, bus: Bus, tmp_path: Path) -> None:
    queue, lake = bus.queue("plain"), tmp_path / "lake"
    bus.send(queue, ServiceBusMessage("x" * 20_000), ServiceBusMessage("y"))
    captured(spark, bus, queue, lake)
    with pytest.raises(SettingsError, match=r"filter: .*subjet"):
        replay(spark, replay_settings(bus, lake, queue, filter="subjet = 'a'"))
    with pytest.raises(SettingsError, match="filter: "):
        replay(spark, replay_settings(bus, lake, queue, filter="subject ="))
    (tmp_path / "nothing").mkdir()
    with pytest.raises(SettingsError, match="no capture and no Parquet file"):
        replay(spark, replay_settings(bus, tmp_path / "nothing", queue))
    spark.range(3).write.parquet(str(tmp_path / "other"))
    with pytest.raises(SettingsError, match="no column 'sequence_number'") as caught:
        replay(spark, replay_settings(bus, tmp_path / "other", queue))
    assert "no column 'body'" in str(caught.value)
    with pytest.raises(PipelineFailed, match="no-such-queue"):
        replay(spark, replay_settings(bus, lake, "no-such-queue"))
    narrow = bus.queue("narrow")
    with pytest.raises(PipelineFailed, match=r"sequence number 1 was refused: .*16384") as failed:
        replay(spark, replay_settings(bus, lake, narrow))
    assert "sequence_number <> 1" in str(failed.value)
    fixed = replay_settings(bus, lake, narrow, filter="sequence_number <> 1", state=str(lake / "s"))
    assert replay(spark, fixed).rows == 1
    file = tmp_path / "other.json"
    file.write_text("{}")
    with pytest.raises(SettingsError, match="the positions of a replay"):
        replay(spark, replay_settings(bus, lake, queue, state=str(file)))
