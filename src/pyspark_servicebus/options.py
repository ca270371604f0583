"""The options of the source and the sink, read and checked together.

Owns their names, defaults and which may be combined. Every error names the option and says what to
write instead; all errors are reported at once. Secrets are kept out of `repr`, and out of
everything that is sent: only the driver, or a process that can read the reference, knows the key.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pyspark_servicebus.choices import complain_of_choice
from pyspark_servicebus.credentials import Credentials, given_credentials
from pyspark_servicebus.given_options import MEBIBYTE, GivenOptions
from pyspark_servicebus.schema import COLUMNS, LOCK_COLUMN, RAW_COLUMN
from pyspark_servicebus.source.selection import Selection
from pyspark_servicebus.transport_options import (
    check_sink,
    check_source,
    default_mode,
    given_transport,
)

MODES: Final = ("cursor", "claim", "peek", "deferclaim", "peeklock")
SUB_QUEUES: Final = ("none", "deadletter")
WAITING: Final = "waiting"
"""What a snapshot of the main queue reads: what consumers can still get, without dead letters and
without messages that are only kept for cursors."""
POSITIONS: Final = ("earliest", "latest")
BYTES_PER_TRIGGER: Final = 64 * MEBIBYTE
CLAIM_MS: Final = 5 * 60 * 1000
TRIGGER_DELAY_MS: Final = 15 * 60 * 1000
RETENTION_MS: Final = 7 * 24 * 3600 * 1000
RETENTION_BYTES: Final = 10 * 1024 * MEBIBYTE

RETRY_MS: Final = 60 * 1000
NAME_CHARACTERS_MAX: Final = 180

_COMMON: Final = (
    "connectionString",
    "connectionStringRef",
    "caFile",
    "queue",
    "topic",
    "transport",
    "retryDuration",
)
SOURCE_OPTIONS: Final = (
    *_COMMON,
    "subscription",
    "entityPattern",
    "subQueue",
    "mode",
    "cursor",
    "claimOwner",
    "claimDuration",
    "claimLocation",
    "startingPosition",
    "startingTimestamp",
    "startingPositionsByFragment",
    "endingTimestamp",
    "endingPositionsByFragment",
    "maxMessagesPerTrigger",
    "maxBytesPerTrigger",
    "minMessagesPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "fragments",
    "filter",
    "sessionIds",
    "pushdown",
    "columns",
    "includeBody",
    "includeAmqp",
    "failOnDataLoss",
    "retention",
    "retentionBytes",
)
SINK_OPTIONS: Final = (
    *_COMMON,
    "deliver",
    "dedupKey",
    "extraColumns",
    "onBadRow",
    "badRowQueue",
    "batchBytes",
    "writer",
    "batchId",
)
DELIVERIES: Final = ("atLeastOnce", "dedup", "staged")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What to read, and how."""

    credentials: Credentials
    entity: str
    transport: str = "flight"
    sub_queue: str = "none"
    mode: str = "peek"
    cursor: str = ""
    claim_owner: str = ""
    claim_ms: int = CLAIM_MS
    claim_location: str = ""
    starting_position: str | None = None
    starting_timestamp_ms: int | None = None
    starting_positions: dict[int, int] = field(default_factory=dict)
    ending_timestamp_ms: int | None = None
    ending_positions: dict[int, int] = field(default_factory=dict)
    """Not included; only a batch read has an end."""
    messages_per_trigger: int | None = None
    bytes_per_trigger: int = BYTES_PER_TRIGGER
    messages_min: int = 0
    trigger_delay_ms: int = TRIGGER_DELAY_MS
    partitions_min: int = 1
    fragments: tuple[int, ...] | None = None
    patterns: tuple[str, ...] = ()
    """Globs over the paths of entities, instead of one entity."""
    selection: Selection = field(default_factory=Selection)
    pushes_filters: bool = False
    columns: tuple[str, ...] = tuple(COLUMNS)
    fails_on_data_loss: bool = True
    retention_ms: int = RETENTION_MS
    retention_bytes: int = RETENTION_BYTES
    retry_s: float = RETRY_MS / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Where to write, and the delivery guarantee."""

    credentials: Credentials
    entity: str
    transport: str = "flight"
    deliver: str = "atLeastOnce"
    dedup_key: tuple[str, ...] = ()
    extra_columns_are_properties: bool = False
    bad_row_queue: str | None = None
    batch_bytes: int = MEBIBYTE
    writer: str = ""
    batch_id: str = ""
    retry_s: float = RETRY_MS / 1000


def source_options(options: Mapping[str, str], *, is_stream: bool) -> SourceOptions:
    """The options of a read; OptionsError lists everything that is wrong with them."""
    given = GivenOptions(options, SOURCE_OPTIONS)
    credentials = given_credentials(given)
    entity = _source_entity(given)
    transport = given_transport(given)
    mode = given.one_of("mode", MODES, default_mode(transport, is_stream))
    check_source(given, transport, mode, is_stream)
    cursor, owner = given.text("cursor", "") or "", given.text("claimOwner", "") or ""
    sub_queue = given.one_of("subQueue", SUB_QUEUES, "none")
    given.complain(
        mode == "claim" and not owner,
        "claimOwner: mode=claim needs a name for this query, the same after a "
        "restart; for example the name of the job.",
    )
    given.complain(
        mode == "cursor" and is_stream and not cursor,
        "cursor: mode=cursor needs a name for the position that the bus keeps, the same after a "
        "restart; for example the name of the job.",
    )
    given.complain(
        sub_queue != "none" and mode in ("cursor", "claim"),
        f"subQueue: dead letters are read with mode=peek, not mode={mode}.",
    )
    if mode == "peek" and sub_queue == "none" and not is_stream:
        sub_queue = WAITING
    position, timestamp_ms, positions = _starting(given)
    patterns, selection = given.names("entityPattern"), _selection(given)
    complain_of_choice(given, mode, is_stream)
    found = SourceOptions(
        credentials=credentials,
        entity=entity,
        transport=transport,
        sub_queue=sub_queue,
        mode=mode,
        cursor=cursor,
        claim_owner=owner,
        claim_ms=max(1000, given.duration_ms("claimDuration", CLAIM_MS)),
        claim_location=given.text("claimLocation", "") or "",
        starting_position=position,
        starting_timestamp_ms=timestamp_ms,
        starting_positions=positions,
        ending_timestamp_ms=given.moment_ms("endingTimestamp"),
        ending_positions=_positions(given, "endingPositionsByFragment"),
        messages_per_trigger=given.number("maxMessagesPerTrigger", None),
        bytes_per_trigger=given.size("maxBytesPerTrigger", BYTES_PER_TRIGGER),
        messages_min=given.number("minMessagesPerTrigger", 0) or 0,
        trigger_delay_ms=given.duration_ms("maxTriggerDelay", TRIGGER_DELAY_MS),
        partitions_min=given.number("minPartitions", 1) or 1,
        fragments=_fragments(given),
        patterns=patterns,
        selection=selection,
        pushes_filters=given.switch("pushdown", False),
        columns=_columns(given),
        fails_on_data_loss=given.switch("failOnDataLoss", True),
        retention_ms=given.duration_ms("retention", RETENTION_MS),
        retention_bytes=given.size("retentionBytes", RETENTION_BYTES),
        retry_s=given.duration_ms("retryDuration", RETRY_MS) / 1000,
    )
    given.finish()
    return found


def source_columns(options: Mapping[str, str]) -> tuple[str, ...]:
    """The columns of a read, even if other options are wrong."""
    return _columns(GivenOptions(options, SOURCE_OPTIONS))


def sink_options(options: Mapping[str, str], *, is_stream: bool = False) -> SinkOptions:
    """The options of a write; those that Spark adds itself are ignored."""
    given = GivenOptions(options, (*SINK_OPTIONS, "checkpointLocation", "queryName"))
    credentials = given_credentials(given)
    queue, topic = given.text("queue"), given.text("topic")
    given.complain(bool(queue) == bool(topic), "queue, topic: give exactly one of them.")
    transport = given_transport(given)
    deliver = given.one_of("deliver", DELIVERIES, "atLeastOnce")
    check_sink(given, transport, deliver)
    writer, batch_id = _staged(given, deliver, is_stream)
    bad_row_queue = given.text("badRowQueue")
    bad_rows = given.one_of(
        "onBadRow", ("fail", "deadletter"), "deadletter" if bad_row_queue else "fail"
    )
    given.complain(
        (bad_rows == "deadletter") != bool(bad_row_queue),
        "onBadRow, badRowQueue: deadletter needs the queue that bad rows go to, and fail has none.",
    )
    found = SinkOptions(
        credentials=credentials,
        entity=queue or topic or "",
        transport=transport,
        deliver=deliver,
        dedup_key=given.names("dedupKey"),
        extra_columns_are_properties=given.one_of(
            "extraColumns", ("refuse", "properties"), "refuse"
        )
        == "properties",
        bad_row_queue=bad_row_queue,
        batch_bytes=given.size("batchBytes", MEBIBYTE),
        writer=writer,
        batch_id=batch_id,
        retry_s=given.duration_ms("retryDuration", RETRY_MS) / 1000,
    )
    given.finish()
    return found


def _staged(given: GivenOptions, deliver: str, is_stream: bool) -> tuple[str, str]:
    writer, batch_id = given.text("writer", "") or "", given.text("batchId", "") or ""
    given.complain(
        deliver == "staged" and not writer,
        "writer: deliver=staged needs a name for this writer, its own for each query "
        "or job and the same after a restart; for example the name of the job.",
    )
    given.complain(
        deliver != "staged" and bool(writer or batch_id),
        "writer, batchId: they are for deliver=staged.",
    )
    given.complain(
        is_stream and bool(batch_id),
        "batchId: Spark numbers the batches of a stream; leave it out.",
    )
    given.complain(
        max(len(writer), len(batch_id)) > NAME_CHARACTERS_MAX,
        f"writer, batchId: they have at most {NAME_CHARACTERS_MAX} characters.",
    )
    return writer, batch_id


def _source_entity(given: GivenOptions) -> str:
    queue, topic = given.text("queue"), given.text("topic")
    subscription = given.text("subscription")
    if given.text("entityPattern"):
        given.complain(
            bool(queue or topic or subscription),
            "entityPattern: it replaces queue, topic and subscription; give one or the other.",
        )
        return ""
    given.complain(bool(queue) == bool(topic), "queue, topic: give exactly one of them.")
    given.complain(
        bool(topic) != bool(subscription),
        "topic, subscription: messages are read from a subscription; give both, or a queue.",
    )
    return queue or f"{topic}/Subscriptions/{subscription}"


def _starting(given: GivenOptions) -> tuple[str | None, int | None, dict[int, int]]:
    position = given.text("startingPosition")
    if position is not None:
        position = given.one_of("startingPosition", POSITIONS, "earliest")
    stamp, by_fragment = given.text("startingTimestamp"), given.text("startingPositionsByFragment")
    given.complain(
        sum(value is not None for value in (position, stamp, by_fragment)) > 1,
        "startingPosition, startingTimestamp, startingPositionsByFragment: give one of them.",
    )
    return (
        position,
        given.moment_ms("startingTimestamp"),
        _positions(given, "startingPositionsByFragment"),
    )


def _positions(given: GivenOptions, name: str) -> dict[int, int]:
    text = given.text(name)
    if text is None:
        return {}
    try:
        return {int(index): int(number) for index, number in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError):
        given.complain(True, f'{name}: expected JSON such as {{"0": 17, "1": 4}}.')
        return {}


def _selection(given: GivenOptions) -> Selection:
    chosen = Selection(given.text("filter", "") or "")
    names = given.names("sessionIds")
    return chosen.with_sessions(names) if names else chosen


def _fragments(given: GivenOptions) -> tuple[int, ...] | None:
    names = given.names("fragments")
    if not names:
        return None
    if not all(name.isdecimal() for name in names):
        given.complain(True, "fragments: write the indexes of fragments, like 0,3,7.")
        return None
    return tuple(int(name) for name in names)


def _columns(given: GivenOptions) -> tuple[str, ...]:
    known: tuple[str, ...] = tuple(COLUMNS)
    if (given.text("mode") or "").lower() == "peeklock":
        known = (*known, LOCK_COLUMN)
    names = given.names("columns") or known
    unknown = [name for name in names if name not in known]
    given.complain(bool(unknown), f"columns: there is no column '{unknown[0] if unknown else ''}'.")
    if not given.switch("includeBody", True):
        names = tuple(name for name in names if name not in ("body", "body_type"))
    if given.switch("includeAmqp", False):
        names = (*names, RAW_COLUMN)
    return names if not unknown else tuple(COLUMNS)
