"""The options of the source and the sink, read and judged together.

Owns their names, defaults and what goes with what. Every complaint names the option and says
what to write instead; all complaints come at once. Secrets are kept out of `repr`, and out of
everything that travels: only the driver, or whoever can follow the reference, knows the key.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from partibus.client.connection_string import (
    ConnectionString,
    ConnectionStringError,
    parse_connection_string,
)
from pyspark_servicebus.schema import COLUMNS, RAW_COLUMN

MODES: Final = ("cursor", "claim", "peek")
SUB_QUEUES: Final = ("none", "deadletter")
POSITIONS: Final = ("earliest", "latest")
MEBIBYTE: Final = 1024 * 1024
BYTES_PER_TRIGGER: Final = 64 * MEBIBYTE
CLAIM_MS: Final = 5 * 60 * 1000
RETENTION_MS: Final = 7 * 24 * 3600 * 1000
RETENTION_BYTES: Final = 10 * 1024 * MEBIBYTE

PATIENCE_MS: Final = 60 * 1000

_COMMON: Final = (
    "connectionString",
    "connectionStringRef",
    "caFile",
    "queue",
    "topic",
    "retryDuration",
)
SOURCE_OPTIONS: Final = (
    *_COMMON,
    "subscription",
    "subQueue",
    "mode",
    "cursor",
    "claimOwner",
    "claimDuration",
    "startingPosition",
    "startingTimestamp",
    "startingPositionsByFragment",
    "maxMessagesPerTrigger",
    "maxBytesPerTrigger",
    "minPartitions",
    "fragments",
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
)
DELIVERIES: Final = ("atLeastOnce", "dedup", "staged")
_DURATION: Final = re.compile(r"^(\d+)\s*(ms|s|m|h|d)?$")
_UNIT_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZE: Final = re.compile(r"^(\d+)\s*(b|k|kb|kib|m|mb|mib|g|gb|gib)?$")
_UNIT_BYTES: Final = {"b": 1, "k": 1024, "m": MEBIBYTE, "g": 1024 * MEBIBYTE}


class OptionsError(ValueError):
    """Options that cannot be used; the text has a line for each complaint."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Where the connection string comes from; the string itself only when it was given as is."""

    reference: str | None
    literal: str | None = field(default=None, repr=False)
    ca_file: str | None = None

    def place(self) -> ConnectionString:
        """The connection string, read now."""
        text = self.literal
        if text is None:
            text = _follow(self.reference or "")
        try:
            return parse_connection_string(text)
        except ConnectionStringError as error:
            raise OptionsError(f"connectionString: {error}") from None

    def ca(self) -> bytes | None:
        """The certificate of the authority to trust; None for the machine's own."""
        return Path(self.ca_file).read_bytes() if self.ca_file else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What to read, and how."""

    credentials: Credentials
    entity: str
    sub_queue: str = "none"
    mode: str = "peek"
    cursor: str = ""
    claim_owner: str = ""
    claim_ms: int = CLAIM_MS
    starting_position: str | None = None
    starting_timestamp_ms: int | None = None
    starting_positions: dict[int, int] = field(default_factory=dict)
    messages_per_trigger: int | None = None
    bytes_per_trigger: int = BYTES_PER_TRIGGER
    partitions_min: int = 1
    fragments: tuple[int, ...] | None = None
    columns: tuple[str, ...] = tuple(COLUMNS)
    fails_on_data_loss: bool = True
    retention_ms: int = RETENTION_MS
    retention_bytes: int = RETENTION_BYTES
    patience_s: float = PATIENCE_MS / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Where to write, and what is promised."""

    credentials: Credentials
    entity: str
    deliver: str = "atLeastOnce"
    dedup_key: tuple[str, ...] = ()
    extra_columns_are_properties: bool = False
    bad_row_queue: str | None = None
    batch_bytes: int = MEBIBYTE
    patience_s: float = PATIENCE_MS / 1000


class _Given:
    """Options by name in any case, with the complaints about them."""

    def __init__(self, options: Mapping[str, str], known: tuple[str, ...]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        self.complaints: list[str] = []
        names = {name.lower(): name for name in known}
        for name in self._values:
            # Spark adds the path of load() and save() under this name.
            if name not in names and name != "path":
                close = _nearest(name, list(names.values()))
                self.complaints.append(f"{name}: there is no such option; did you mean {close}?")

    def text(self, name: str, default: str | None = None) -> str | None:
        value = self._values.get(name.lower())
        return default if value is None or value == "" else value

    def one_of(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        value = self.text(name, default) or default
        found = {word.lower(): word for word in allowed}.get(value.lower())
        if found is None:
            self.complaints.append(f"{name}: '{value}' is none of {', '.join(allowed)}.")
            return default
        return found

    def switch(self, name: str, default: bool) -> bool:
        return self.one_of(name, ("true", "false"), str(default).lower()) == "true"

    def number(self, name: str, default: int | None, least: int = 1) -> int | None:
        value = self.text(name)
        if value is None:
            return default
        if not value.isdecimal() or int(value) < least:
            self.complaints.append(f"{name}: '{value}' is no whole number from {least} on.")
            return default
        return int(value)

    def duration_ms(self, name: str, default: int) -> int:
        value = self.text(name)
        if value is None:
            return default
        match = _DURATION.match(value.strip().lower())
        if match is None:
            self.complaints.append(f"{name}: '{value}' is no duration; write 30s, 5m or 12h.")
            return default
        return int(match[1]) * _UNIT_MS[match[2] or "ms"]

    def size(self, name: str, default: int) -> int:
        value = self.text(name)
        if value is None:
            return default
        match = _SIZE.match(value.strip().lower())
        if match is None or not int(match[1]):
            self.complaints.append(
                f"{name}: '{value}' is no size; write 64MiB or a number of bytes."
            )
            return default
        return int(match[1]) * _UNIT_BYTES[(match[2] or "b")[0]]

    def names(self, name: str) -> tuple[str, ...]:
        value = self.text(name) or ""
        return tuple(part.strip() for part in value.split(",") if part.strip())

    def complain(self, condition: bool, text: str) -> None:
        if condition:
            self.complaints.append(text)

    def finish(self) -> None:
        if self.complaints:
            raise OptionsError("the options cannot be used:\n  " + "\n  ".join(self.complaints))


def source_options(options: Mapping[str, str], *, is_stream: bool) -> SourceOptions:
    """The options of a read; OptionsError tells everything that is wrong with them."""
    given = _Given(options, SOURCE_OPTIONS)
    credentials = _credentials(given)
    entity = _source_entity(given)
    mode = given.one_of("mode", MODES, "cursor" if is_stream else "peek")
    cursor, owner = given.text("cursor", "") or "", given.text("claimOwner", "") or ""
    sub_queue = given.one_of("subQueue", SUB_QUEUES, "none")
    if mode == "claim":
        given.complain(not is_stream, "mode: claim is for streams; write peek for a snapshot.")
        given.complain(
            not owner,
            "claimOwner: mode=claim needs a name of your own for this query, the same after a "
            "restart; for example the name of the job.",
        )
    given.complain(
        mode == "cursor" and is_stream and not cursor,
        "cursor: mode=cursor needs a name for the position that the bus keeps, the same after a "
        "restart; for example the name of the job.",
    )
    given.complain(
        sub_queue != "none" and mode != "peek",
        f"subQueue: dead letters are read with mode=peek, not mode={mode}.",
    )
    position, timestamp_ms, positions = _starting(given)
    found = SourceOptions(
        credentials=credentials,
        entity=entity,
        sub_queue=sub_queue,
        mode=mode,
        cursor=cursor,
        claim_owner=owner,
        claim_ms=max(1000, given.duration_ms("claimDuration", CLAIM_MS)),
        starting_position=position,
        starting_timestamp_ms=timestamp_ms,
        starting_positions=positions,
        messages_per_trigger=given.number("maxMessagesPerTrigger", None),
        bytes_per_trigger=given.size("maxBytesPerTrigger", BYTES_PER_TRIGGER),
        partitions_min=given.number("minPartitions", 1) or 1,
        fragments=_fragments(given),
        columns=_columns(given),
        fails_on_data_loss=given.switch("failOnDataLoss", True),
        retention_ms=given.duration_ms("retention", RETENTION_MS),
        retention_bytes=given.size("retentionBytes", RETENTION_BYTES),
        patience_s=given.duration_ms("retryDuration", PATIENCE_MS) / 1000,
    )
    given.finish()
    return found


def source_columns(options: Mapping[str, str]) -> tuple[str, ...]:
    """The columns of a read, whatever else is wrong with its options."""
    return _columns(_Given(options, SOURCE_OPTIONS))


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """The options of a write; those that Spark adds for itself are passed over."""
    given = _Given(options, (*SINK_OPTIONS, "checkpointLocation"))
    credentials = _credentials(given)
    queue, topic = given.text("queue"), given.text("topic")
    given.complain(bool(queue) == bool(topic), "queue, topic: give exactly one of them.")
    deliver = given.one_of("deliver", DELIVERIES, "atLeastOnce")
    given.complain(
        deliver == "staged",
        "deliver: staged is not offered by this version; write dedup, with a queue that detects "
        "duplicates, or atLeastOnce.",
    )
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
        deliver=deliver,
        dedup_key=given.names("dedupKey"),
        extra_columns_are_properties=given.one_of(
            "extraColumns", ("refuse", "properties"), "refuse"
        )
        == "properties",
        bad_row_queue=bad_row_queue,
        batch_bytes=given.size("batchBytes", MEBIBYTE),
        patience_s=given.duration_ms("retryDuration", PATIENCE_MS) / 1000,
    )
    given.finish()
    return found


def _credentials(given: _Given) -> Credentials:
    literal, reference = given.text("connectionString"), given.text("connectionStringRef")
    given.complain(
        bool(literal) == bool(reference),
        "connectionString, connectionStringRef: give exactly one of them; a reference is "
        "env:NAME or file:PATH and is followed wherever the code runs.",
    )
    given.complain(
        reference is not None and not reference.startswith(("env:", "file:")),
        "connectionStringRef: it begins with neither env: nor file:; a connection string itself "
        "is given as connectionString.",
    )
    return Credentials(reference, literal, given.text("caFile"))


def _follow(reference: str) -> str:
    kind, _, name = reference.partition(":")
    if kind == "env":
        text = os.environ.get(name)
        if text is None:
            raise OptionsError(f"connectionStringRef: the variable {name} is not set here.")
        return text
    try:
        return Path(name).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise OptionsError(f"connectionStringRef: {name} cannot be read: {error}.") from None


def _source_entity(given: _Given) -> str:
    queue, topic = given.text("queue"), given.text("topic")
    subscription = given.text("subscription")
    given.complain(bool(queue) == bool(topic), "queue, topic: give exactly one of them.")
    given.complain(
        bool(topic) != bool(subscription),
        "topic, subscription: messages are read from a subscription; give both, or a queue.",
    )
    return queue or f"{topic}/Subscriptions/{subscription}"


def _starting(given: _Given) -> tuple[str | None, int | None, dict[int, int]]:
    position = given.text("startingPosition")
    if position is not None:
        position = given.one_of("startingPosition", POSITIONS, "earliest")
    stamp, by_fragment = given.text("startingTimestamp"), given.text("startingPositionsByFragment")
    given.complain(
        sum(value is not None for value in (position, stamp, by_fragment)) > 1,
        "startingPosition, startingTimestamp, startingPositionsByFragment: give one of them.",
    )
    return position, _timestamp_ms(given, stamp), _positions(given, by_fragment)


def _timestamp_ms(given: _Given, text: str | None) -> int | None:
    import datetime

    if text is None:
        return None
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        given.complain(True, f"startingTimestamp: '{text}' is no time; write 2026-01-31T12:00:00Z.")
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return int(moment.timestamp() * 1000)


def _positions(given: _Given, text: str | None) -> dict[int, int]:
    if text is None:
        return {}
    try:
        return {int(index): int(number) for index, number in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError):
        given.complain(
            True, 'startingPositionsByFragment: write JSON like {"0": 17, "1": 4}, not this.'
        )
        return {}


def _fragments(given: _Given) -> tuple[int, ...] | None:
    names = given.names("fragments")
    if not names:
        return None
    if not all(name.isdecimal() for name in names):
        given.complain(True, "fragments: write the indexes of fragments, like 0,3,7.")
        return None
    return tuple(int(name) for name in names)


def _columns(given: _Given) -> tuple[str, ...]:
    names = given.names("columns") or tuple(COLUMNS)
    unknown = [name for name in names if name not in COLUMNS]
    given.complain(bool(unknown), f"columns: there is no column '{unknown[0] if unknown else ''}'.")
    if not given.switch("includeBody", True):
        names = tuple(name for name in names if name not in ("body", "body_type"))
    if given.switch("includeAmqp", False):
        names = (*names, RAW_COLUMN)
    return names if not unknown else tuple(COLUMNS)


def _nearest(name: str, known: list[str]) -> str:
    import difflib

    lowered = {word.lower(): word for word in known}
    close = difflib.get_close_matches(name, list(lowered), 1, 0.0)
    return lowered[close[0]]
