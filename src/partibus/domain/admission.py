"""Whether a profile admits an entity, and how it adapts it.

Owns the ranges of PRP-1 as each profile narrows them, and what a profile decides by itself (the
number of fragments, the TTL ceiling). A refusal is a `PropertyRefused` that names the property and
what is allowed. Pure: it knows no other entity, so existence and counts are checked by the catalog,
which calls it. Names are checked by `domain.names`.
"""

from dataclasses import replace
from typing import Final, TypeVar

from partibus.domain import limits
from partibus.domain.address import strip_authority
from partibus.domain.duration import DURATION_MAX_MS, format_duration
from partibus.domain.entity import (
    DEFAULT_DUPLICATE_WINDOW_MS,
    DEFAULT_LOCK_DURATION_MS,
    DEFAULT_MAX_DELIVERY_COUNT,
    DEFAULT_SIZE_MEGABYTES,
    CorrelationFilter,
    EntitySpec,
    FilterType,
    QueueSpec,
    RuleSpec,
    SubscriptionSpec,
    TopicSpec,
)
from partibus.domain.entity_properties import FIXED_FIELDS
from partibus.domain.limits import Profile
from partibus.domain.refusal import PropertyImmutable, PropertyRefused

_STATUSES: Final = {
    QueueSpec: ("Active", "Disabled", "SendDisabled", "ReceiveDisabled"),
    TopicSpec: ("Active", "Disabled", "SendDisabled"),
    SubscriptionSpec: ("Active", "Disabled", "ReceiveDisabled"),
}

_Sized = TypeVar("_Sized", QueueSpec, TopicSpec)
_Received = TypeVar("_Received", QueueSpec, SubscriptionSpec)
_Any = TypeVar("_Any", QueueSpec, TopicSpec, SubscriptionSpec)


def admit(spec: EntitySpec, profile: Profile) -> EntitySpec:
    """The spec adapted to the profile; refused values raise `PropertyRefused`."""
    if isinstance(spec, QueueSpec):
        return admit_queue(spec, profile)
    if isinstance(spec, TopicSpec):
        return admit_topic(spec, profile)
    return admit_subscription(spec, profile)


def admit_queue(spec: QueueSpec, profile: Profile) -> QueueSpec:
    """The queue adapted to the profile."""
    _refuse_basic(spec, profile)
    _check_common(spec, profile)
    _check_received(spec, profile)
    _check_sized(spec, profile)
    return _settle_forwarding(_settle_received(_settle_sized(spec, profile), profile))


def admit_topic(spec: TopicSpec, profile: Profile) -> TopicSpec:
    """The topic adapted to the profile."""
    if not profile.has_tier_features:
        raise PropertyRefused("topic", f"the {profile.name} profile has no topics.")
    _check_common(spec, profile)
    _check_sized(spec, profile)
    spec = _settle_sized(spec, profile)
    return replace(spec, support_ordering=spec.support_ordering and not spec.enable_partitioning)


def admit_subscription(spec: SubscriptionSpec, profile: Profile) -> SubscriptionSpec:
    """The subscription adapted to the profile."""
    _check_common(spec, profile)
    _check_received(spec, profile)
    names = [rule.name.lower() for rule in spec.rules]
    if len(set(names)) != len(names):
        raise PropertyRefused("rule", "two rules have the same name.")
    for rule in spec.rules:
        admit_rule(rule)
    return _settle_forwarding(_settle_received(_cap_time_to_live(spec, profile), profile))


def admit_rule(rule: RuleSpec) -> None:
    """Refuse a rule whose name or lengths are out of bounds (FLT-11, QTA-13, COR-1)."""
    if not 1 <= len(rule.name) <= limits.RULE_NAME_LENGTH_MAX:
        raise PropertyRefused(
            "name", f"a rule name must have 1 to {limits.RULE_NAME_LENGTH_MAX} characters."
        )
    for name, text in (("sql_filter", rule.sql_expression), ("action", rule.action)):
        if len(text) > limits.FILTER_LENGTH_MAX:
            raise PropertyRefused(
                name, f"at most {limits.FILTER_LENGTH_MAX} characters are allowed, not {len(text)}."
            )
    if rule.filter_type is FilterType.CORRELATION and rule.correlation in (
        None,
        CorrelationFilter(),
    ):
        raise PropertyRefused("correlation_filter", "at least one condition is needed.")
    if rule.filter_type is FilterType.SQL and not rule.sql_expression.strip():
        raise PropertyRefused("sql_filter", "an expression is needed, for example 1=1.")


def refuse_immutable_change(old: EntitySpec, new: EntitySpec) -> None:
    """Refuse an update of what is fixed at creation (PRP-2). Both specs are admitted ones."""
    if type(old) is not type(new):
        raise PropertyImmutable("kind", "an entity cannot become another kind; delete it first.")
    for name in FIXED_FIELDS:
        before, after = getattr(old, name, None), getattr(new, name, None)
        if before != after:
            raise PropertyImmutable(
                "partition_count" if name == "fragments" else name,
                f"it is {_spoken(before)} and cannot become {_spoken(after)}: it is fixed when "
                "the entity is created. Restore the value, or delete the entity and "
                "create it again.",
            )


# --- the checks -----------------------------------------------------------------------------


def _check_common(spec: EntitySpec, profile: Profile) -> None:
    time_to_live_ms = spec.default_message_time_to_live_ms
    if time_to_live_ms != DURATION_MAX_MS:
        _in_time_range(
            "default_message_time_to_live",
            time_to_live_ms,
            limits.TIME_TO_LIVE_MS_MIN,
            profile.time_to_live_ms_max,
        )
    _in_time_range(
        "auto_delete_on_idle",
        spec.auto_delete_on_idle_ms,
        profile.auto_delete_on_idle_ms_min,
        DURATION_MAX_MS,
    )
    if len(spec.user_metadata) > limits.USER_METADATA_LENGTH_MAX:
        raise PropertyRefused(
            "user_metadata", f"at most {limits.USER_METADATA_LENGTH_MAX} characters are allowed."
        )
    allowed = _STATUSES[type(spec)]
    if spec.status.value not in allowed:
        raise _not_allowed("status", spec.status.value, ", ".join(allowed))


def _check_received(spec: QueueSpec | SubscriptionSpec, profile: Profile) -> None:
    if spec.lock_duration_ms != DEFAULT_LOCK_DURATION_MS:
        _in_time_range(
            "lock_duration",
            spec.lock_duration_ms,
            profile.lock_duration_ms_min,
            profile.lock_duration_ms_max,
        )
    if spec.max_delivery_count != DEFAULT_MAX_DELIVERY_COUNT:
        _in_range("max_delivery_count", spec.max_delivery_count, 1, profile.max_delivery_count_max)


def _check_sized(spec: QueueSpec | TopicSpec, profile: Profile) -> None:
    window_ms = spec.duplicate_detection_history_time_window_ms
    if window_ms != DEFAULT_DUPLICATE_WINDOW_MS:
        _in_time_range(
            "duplicate_detection_history_time_window",
            window_ms,
            profile.duplicate_window_ms_min,
            profile.duplicate_window_ms_max,
        )
    size, sizes = spec.max_size_in_megabytes, profile.entity_megabytes
    if sizes is None:
        _in_range("max_size_in_megabytes", size, 1, limits.INT32_MAX)
    elif size not in sizes and size != DEFAULT_SIZE_MEGABYTES:
        raise _not_allowed("max_size_in_megabytes", size, ", ".join(map(str, sizes)))
    kilobytes = spec.max_message_size_in_kilobytes
    if kilobytes is not None:
        most = profile.message_bytes_max // limits.KILOBYTE
        least = (
            profile.message_bytes_default // limits.KILOBYTE if profile.has_large_messages else 1
        )
        least = min(least, most)  # a file may have lowered the maximum
        if not least <= kilobytes <= most:
            raise PropertyRefused(
                "max_message_size_in_kilobytes",
                f"{kilobytes} is not allowed; the value for 'MaxMessageSizeInKilobytes' must be "
                f"between {least} and {most}.",
            )
    if spec.enable_express and not profile.has_express:
        raise PropertyRefused("enable_express", f"the {profile.name} profile does not allow it.")
    if spec.enable_express and spec.requires_duplicate_detection:  # PRP-6
        raise PropertyRefused("enable_express", "it conflicts with requires_duplicate_detection.")


def _refuse_basic(spec: QueueSpec, profile: Profile) -> None:
    """The Basic tier refuses everything but its own defaults (PRP-4)."""
    if profile.has_tier_features:
        return
    plain = QueueSpec()
    time_to_live_ms = (plain.default_message_time_to_live_ms, profile.time_to_live_ms_max)
    for name, allowed in (
        ("requires_duplicate_detection", (False,)),
        ("requires_session", (False,)),
        ("auto_delete_on_idle_ms", (plain.auto_delete_on_idle_ms,)),
        ("default_message_time_to_live_ms", time_to_live_ms),
        ("duplicate_detection_history_time_window_ms", (DEFAULT_DUPLICATE_WINDOW_MS,)),
        ("enable_express", (False,)),
        ("forward_to", ("",)),
        ("forward_dead_lettered_messages_to", ("",)),
    ):
        if getattr(spec, name) not in allowed:
            raise PropertyRefused(
                name.removesuffix("_ms"), f"the {profile.name} profile does not support it."
            )


# --- what the profile decides ---------------------------------------------------------------


def _settle_sized(spec: _Sized, profile: Profile) -> _Sized:
    """Fragments by profile (1.10), and defaults moved into the profile's ranges."""
    partitioned, fragments = _fragments(spec, profile)
    window_ms = max(
        profile.duplicate_window_ms_min,
        min(spec.duplicate_detection_history_time_window_ms, profile.duplicate_window_ms_max),
    )
    sizes = profile.entity_megabytes
    size = spec.max_size_in_megabytes
    return replace(
        _cap_time_to_live(spec, profile),
        enable_partitioning=partitioned,
        fragments=fragments,
        duplicate_detection_history_time_window_ms=window_ms,
        max_size_in_megabytes=size if sizes is None or size in sizes else sizes[0],
    )


def _settle_received(spec: _Received, profile: Profile) -> _Received:
    """The vendor's defaults moved into the profile's ranges, which a file may have changed."""
    lock_ms = max(
        profile.lock_duration_ms_min, min(spec.lock_duration_ms, profile.lock_duration_ms_max)
    )
    deliveries = min(spec.max_delivery_count, profile.max_delivery_count_max)
    return replace(spec, lock_duration_ms=lock_ms, max_delivery_count=deliveries)


def _fragments(spec: QueueSpec | TopicSpec, profile: Profile) -> tuple[bool, int]:
    """(partitioned, how many fragments); a request the profile cannot meet is refused."""
    wished = spec.enable_partitioning
    if profile.partitioning != "per-entity" and spec.fragments not in (
        1,
        profile.fragments_default,
    ):
        raise PropertyRefused(
            "partition_count",
            f"the {profile.name} profile sets it: every entity has "
            f"{profile.fragments_default}. Leave it out, or choose another profile.",
        )
    if profile.partitioning == "ignored":  # CON-1: accepted without effect, like the checkbox
        return False, 1
    if profile.partitioning == "forced":  # SEED-21
        return True, profile.fragments_default
    if profile.partitioning in ("namespace", "refused"):
        if wished and profile.fragments_default == 1:
            raise PropertyRefused(
                "enable_partitioning", f"the {profile.name} profile has no partitioned entities."
            )
        return profile.fragments_default > 1, profile.fragments_default
    if not wished:
        if spec.fragments != 1:
            raise PropertyRefused("partition_count", "set enable_partitioning = true with it.")
        return False, 1
    # One fragment is the default of a spec, so the profile's number replaces it.
    fragments = profile.fragments_default if spec.fragments == 1 else spec.fragments
    if fragments != profile.fragments_default and not profile.fragments_free:
        raise PropertyRefused(
            "partition_count", f"the {profile.name} profile always has {profile.fragments_default}."
        )
    _in_range("partition_count", fragments, 2, limits.FRAGMENTS_MAX)
    return True, fragments


def _cap_time_to_live(spec: _Any, profile: Profile) -> _Any:
    capped_ms = min(spec.default_message_time_to_live_ms, profile.time_to_live_ms_max)
    return replace(spec, default_message_time_to_live_ms=capped_ms)


def _settle_forwarding(spec: _Received) -> _Received:
    """Destinations as paths; clients write them as full addresses."""
    return replace(
        spec,
        forward_to=strip_authority(spec.forward_to),
        forward_dead_lettered_messages_to=strip_authority(spec.forward_dead_lettered_messages_to),
    )


# --- ranges ---------------------------------------------------------------------------------


def _in_range(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise _not_allowed(name, value, f"{least} to {most}")


def _in_time_range(name: str, value_ms: int, least_ms: int, most_ms: int) -> None:
    if not least_ms <= value_ms <= most_ms:
        allowed = f"{format_duration(least_ms)} to {format_duration(most_ms)}"
        raise _not_allowed(name, format_duration(value_ms), allowed)


def _not_allowed(name: str, value: object, allowed: str) -> PropertyRefused:
    return PropertyRefused(name, f"{value} is not allowed; allowed: {allowed}.")


def _spoken(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
