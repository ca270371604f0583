"""Limits of a profile, set in the [limits] table of the definitions file.

Owns which limits can be set, under which name, their valid values and which pairs must be
consistent. What is not set stays as the profile has it. docs/reference/limits.md says where each
limit is enforced. Called when the settings of the server are resolved.

    [limits]
    connections_max = 20
    lock_duration_max = "PT15M"
    entities_max = "unlimited"
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from partibus.control.declared.fields import Section, Table
from partibus.control.declared.source import DefinitionSource
from partibus.domain.duration import DURATION_MAX_MS, parse_duration
from partibus.domain.errors import ArgumentError
from partibus.domain.limits import (
    INT32_MAX,
    MESSAGE_BYTES_MOST,
    MINUTE_MS,
    SECOND_MS,
    UNLIMITED,
    Profile,
)

UNLIMITED_WORD: Final = "unlimited"


class Limit(NamedTuple):
    """A limit that can be set: the field of the profile, and how its value is read."""

    field: str
    read: Callable[[object], object]
    holds: str
    """The valid values, for people."""


def _count(least: int = 0, most: int = INT32_MAX) -> Callable[[object], object]:
    """An integer, or the word for no limit."""

    def read(value: object) -> int:
        if value == UNLIMITED_WORD:
            return UNLIMITED
        return _whole(value, least, most, f' or "{UNLIMITED_WORD}"')

    return read


def _number(least: int, most: int) -> Callable[[object], object]:
    """An integer; this limit cannot be switched off."""
    return lambda value: _whole(value, least, most, "")


def _whole(value: object, least: int, most: int, further: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ArgumentError(f"expected a whole number from {least} to {most}{further}.")
    return value


def _duration(least_ms: int, most_ms: int = DURATION_MAX_MS) -> Callable[[object], object]:
    def read(value: object) -> int:
        if not isinstance(value, str):
            raise ArgumentError('expected a duration, for example "PT5M".')
        duration_ms = parse_duration(value)
        if not least_ms <= duration_ms <= most_ms:
            seconds = least_ms // SECOND_MS
            raise ArgumentError(f"expected a duration of {seconds} s or more, got '{value}'.")
        return duration_ms

    return read


def _sizes(value: object) -> tuple[int, ...] | None:
    if value == "any":
        return None
    is_list = isinstance(value, list) and len(value) > 0
    if not is_list or not all(type(size) is int and size > 0 for size in value):  # type: ignore[attr-defined]
        raise ArgumentError('expected a list of sizes such as [1024, 2048], or "any".')
    assert isinstance(value, list)
    return tuple(value)


_COUNT: Final = 'a number, or "unlimited"'
_DURATION: Final = "a duration"
_BYTES: Final = f"1 to {MESSAGE_BYTES_MOST}"

LIMITS: Final[Mapping[str, Limit]] = {
    "entities_max": Limit("entities_max", _count(), _COUNT),
    "partitioned_entities_max": Limit("partitioned_entities_max", _count(), _COUNT),
    "entity_megabytes": Limit("entity_megabytes", _sizes, 'a list of numbers, or "any"'),
    "subscriptions_per_topic_max": Limit("subscriptions_per_topic_max", _count(), _COUNT),
    "sql_filters_per_topic_max": Limit("sql_filters_per_topic_max", _count(), _COUNT),
    "correlation_filters_per_topic_max": Limit(
        "correlation_filters_per_topic_max", _count(), _COUNT
    ),
    "policies_per_level_max": Limit("policies_per_level_max", _count(1), _COUNT),
    "message_bytes_default": Limit("message_bytes_default", _number(1, MESSAGE_BYTES_MOST), _BYTES),
    "message_bytes_max": Limit("message_bytes_max", _number(1, MESSAGE_BYTES_MOST), _BYTES),
    "http_message_bytes_max": Limit(
        "http_message_bytes_max", _number(1, MESSAGE_BYTES_MOST), _BYTES
    ),
    "lock_duration_min": Limit("lock_duration_ms_min", _duration(SECOND_MS), _DURATION),
    "lock_duration_max": Limit("lock_duration_ms_max", _duration(SECOND_MS), _DURATION),
    "time_to_live_max": Limit("time_to_live_ms_max", _duration(SECOND_MS), _DURATION),
    "duplicate_window_min": Limit("duplicate_window_ms_min", _duration(SECOND_MS), _DURATION),
    "duplicate_window_max": Limit("duplicate_window_ms_max", _duration(SECOND_MS), _DURATION),
    "auto_delete_on_idle_min": Limit("auto_delete_on_idle_ms_min", _duration(MINUTE_MS), _DURATION),
    "max_delivery_count_max": Limit(
        "max_delivery_count_max", _number(1, INT32_MAX), f"1 to {INT32_MAX}"
    ),
    "connections_max": Limit("connections_max", _count(1), _COUNT),
    "links_per_connection_max": Limit("links_per_connection_max", _number(4, 5_000), "4 to 5000"),
    "tokens_per_connection_max": Limit(
        "tokens_per_connection_max", _number(1, 100_000), "1 to 100000"
    ),
    "receives_per_entity_max": Limit("receives_per_entity_max", _count(1), _COUNT),
    "peek_messages_max": Limit("peek_messages_max", _number(1, 10_000), "1 to 10000"),
    "batch_delete_messages_max": Limit(
        "batch_delete_messages_max", _number(1, 10_000), "1 to 10000"
    ),
    "transaction_messages_max": Limit("transaction_messages_max", _number(1, 10_000), "1 to 10000"),
    "transaction_operations_max": Limit(
        "transaction_operations_max", _number(1, 10_000), "1 to 10000"
    ),
    "transaction_duration_max": Limit(
        "transaction_ms_max", _duration(SECOND_MS, 60 * MINUTE_MS), "a duration up to PT1H"
    ),
}
_PAIRS: Final = (
    ("lock_duration_min", "lock_duration_max"),
    ("duplicate_window_min", "duplicate_window_max"),
    ("message_bytes_default", "message_bytes_max"),
)
"""The first of each pair must not exceed the second."""


def with_limits(profile: Profile, source: DefinitionSource, table: Table) -> Profile:
    """The profile with the limits of a file; invalid ones are a ConfigError with their line."""
    limits = Section(source, ("limits",), table)
    limits.refuse_unknown(LIMITS)
    for name in table:
        value = limits.read(name, LIMITS[name].read)
        profile = replace(profile, **{LIMITS[name].field: value})  # type: ignore[arg-type]
    for low, high in _PAIRS:
        if getattr(profile, LIMITS[low].field) > getattr(profile, LIMITS[high].field):
            raise limits.error(low if low in table else high, f"{low} is above {high}; set both.")
    return profile
