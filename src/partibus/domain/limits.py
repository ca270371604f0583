"""Profiles: named sets of limits and tier behaviours (section 1.10 of the semantics).

Owns the numbers, and nothing that enforces them: entity properties are admitted by
`domain.admission`, sizes and counts are enforced by the gateway and the catalog. A limit of
`UNLIMITED` is never reached. A file may set the limits of a profile
(`control.declared.limits_config`); fixed lengths are constants. docs/reference/limits.md shows all
of them.
"""

from dataclasses import dataclass, replace
from typing import Final, Literal

from partibus.domain.duration import DURATION_MAX_MS
from partibus.domain.errors import ArgumentError

# "per-entity": each entity chooses. "forced": every entity, no choice. "ignored": the request is
# accepted and has no effect. "namespace": the namespace's number applies to every entity.
Partitioning = Literal["per-entity", "forced", "ignored", "namespace", "refused"]

UNLIMITED: Final = 2**63 - 1
INT32_MAX: Final = 2**31 - 1

KILOBYTE: Final = 1024
SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

# The same in every profile.
ENTITY_PATH_LENGTH_MAX: Final = 260  # ENT-6
SUBSCRIPTION_NAME_LENGTH_MAX: Final = 50  # ENT-6
RULE_NAME_LENGTH_MAX: Final = 50  # ENT-6
POLICY_NAME_LENGTH_MAX: Final = 256
USER_METADATA_LENGTH_MAX: Final = 1024  # PRP-1
MESSAGE_ID_LENGTH_MAX: Final = 128  # QTA-8
SESSION_ID_LENGTH_MAX: Final = 128  # QTA-8
PROPERTY_BYTES_MAX: Final = 32 * KILOBYTE  # QTA-7
HEADER_BYTES_MAX: Final = 64 * KILOBYTE  # QTA-7
FILTER_LENGTH_MAX: Final = 1024  # QTA-13
ACTION_EXPRESSIONS_MAX: Final = 32  # QTA-13
FRAGMENTS_MAX: Final = 65_535  # a sequence number holds 16 bits of fragment (SEQ-4)
TIME_TO_LIVE_MS_MIN: Final = SECOND_MS  # TTL-11


@dataclass(slots=True, frozen=True, kw_only=True)
class Profile:
    """One column of the table; the defaults are those of the Standard tier."""

    name: str
    # Sessions, topics, transactions, duplicate detection, forwarding, express, own TTL (PRP-4).
    has_tier_features: bool = True
    has_express: bool = True
    has_tilde_in_names: bool = True
    partitioning: Partitioning = "per-entity"
    fragments_default: int = 16
    fragments_free: bool = False
    partitioned_entities_max: int = 100
    entities_max: int = 10_000
    entity_megabytes: tuple[int, ...] | None = (1024, 2048, 3072, 4096, 5120)  # None: free
    message_bytes_default: int = 256 * KILOBYTE
    message_bytes_max: int = 256 * KILOBYTE
    http_message_bytes_max: int = 256 * KILOBYTE
    has_large_messages: bool = False  # MaxMessageSizeInKilobytes begins at the default (Premium)
    lock_duration_ms_min: int = 5 * SECOND_MS
    lock_duration_ms_max: int = 5 * MINUTE_MS
    time_to_live_ms_max: int = DURATION_MAX_MS
    duplicate_window_ms_min: int = 20 * SECOND_MS
    duplicate_window_ms_max: int = 7 * DAY_MS
    max_delivery_count_max: int = INT32_MAX
    connections_max: int = 5_000  # QTA-9; of one worker process
    receives_per_entity_max: int = 5_000  # QTA-10; of one worker process
    subscriptions_per_topic_max: int = 2_000
    sql_filters_per_topic_max: int = 2_000
    correlation_filters_per_topic_max: int = 100_000
    batch_delete_messages_max: int = 500  # QTA-16
    peek_messages_max: int = 250  # QTA-16
    policies_per_level_max: int = 12  # QTA-14
    transaction_messages_max: int = 100  # QTA-15
    transaction_operations_max: int = 100  # TXN-8
    transaction_ms_max: int = 2 * MINUTE_MS  # TXN-7
    tokens_per_connection_max: int = 1_000  # SAS-9
    refuses_tokens_for_nothing: bool = True  # SAS-9: put-token for a missing entity is a 404
    links_per_connection_max: int = 2_500  # QTA-18
    auto_delete_on_idle_ms_min: int = 5 * MINUTE_MS  # IDL-1
    size_is_per_fragment: bool = True  # SEED-19; in Premium it is the entity's total (CON-17)
    splits_batches: bool = False  # BAT-3: mixed keys in a batch are split, or refused
    counts_dead_letters: bool = False  # DLV-4: deliveries among dead letters, ASK-25
    turns_decimals: bool = True  # MSG-5: decimal properties come back as .NET has them
    fills_tags: bool = False  # SEED-93: zeros as the tag of what is received and deleted, or none


_PREMIUM_MEGABYTES: Final = (1024, 2048, 3072, 4096, 5120, 10240, 20480, 40960, 81920)
MESSAGE_BYTES_MOST: Final = 102_400 * KILOBYTE
"""No profile and no setting allows more: a message must fit in memory several times."""

BASIC: Final = Profile(name="basic", has_tier_features=False, time_to_live_ms_max=14 * DAY_MS)
STANDARD: Final = Profile(name="standard")
PREMIUM: Final = Profile(
    name="premium",
    size_is_per_fragment=False,
    has_express=False,
    partitioning="namespace",
    fragments_default=1,
    partitioned_entities_max=UNLIMITED,
    entities_max=1_000,
    entity_megabytes=_PREMIUM_MEGABYTES,
    has_large_messages=True,
    message_bytes_default=1024 * KILOBYTE,
    message_bytes_max=MESSAGE_BYTES_MOST,
    http_message_bytes_max=1024 * KILOBYTE,
    batch_delete_messages_max=4_000,
)
PREMIUM_2017: Final = replace(
    PREMIUM,
    name="premium-2017",
    partitioning="forced",
    fragments_default=2,
    has_large_messages=False,
    message_bytes_max=1024 * KILOBYTE,
)
PREMIUM_2020: Final = replace(
    PREMIUM,
    name="premium-2020",
    partitioning="ignored",
    partitioned_entities_max=STANDARD.partitioned_entities_max,
)
EMULATOR: Final = Profile(  # EMU-8, EMU-9
    name="emulator",
    fills_tags=True,
    refuses_tokens_for_nothing=False,
    has_tilde_in_names=False,
    partitioning="refused",
    fragments_default=1,
    partitioned_entities_max=0,
    entities_max=50,
    entity_megabytes=(100,),
    time_to_live_ms_max=HOUR_MS,
    duplicate_window_ms_min=5 * SECOND_MS,
    duplicate_window_ms_max=5 * MINUTE_MS,
    max_delivery_count_max=10,
    connections_max=10,
    receives_per_entity_max=200,
    subscriptions_per_topic_max=50,
    sql_filters_per_topic_max=70,
    correlation_filters_per_topic_max=1_000,
)
SELFHOST: Final = Profile(
    name="selfhost",
    splits_batches=True,
    counts_dead_letters=True,
    turns_decimals=False,
    fills_tags=True,
    refuses_tokens_for_nothing=False,
    fragments_free=True,
    partitioned_entities_max=UNLIMITED,
    entities_max=UNLIMITED,
    entity_megabytes=None,
    message_bytes_default=1024 * KILOBYTE,
    message_bytes_max=MESSAGE_BYTES_MOST,
    http_message_bytes_max=MESSAGE_BYTES_MOST,
    lock_duration_ms_min=SECOND_MS,
    lock_duration_ms_max=DAY_MS,  # ASK-7: longer than five minutes
    duplicate_window_ms_min=SECOND_MS,
    duplicate_window_ms_max=366 * DAY_MS,
    connections_max=UNLIMITED,
    receives_per_entity_max=UNLIMITED,
    subscriptions_per_topic_max=UNLIMITED,
    sql_filters_per_topic_max=UNLIMITED,
    correlation_filters_per_topic_max=UNLIMITED,
    batch_delete_messages_max=4_000,
)

PROFILES: Final[dict[str, Profile]] = {
    profile.name: profile
    for profile in (BASIC, STANDARD, PREMIUM_2017, PREMIUM_2020, PREMIUM, EMULATOR, SELFHOST)
}


def with_partitions(profile: Profile, partitions: int) -> Profile:
    """The profile of a namespace whose entities all have this many partitions (CON-1).

    A partitioned namespace has a lower limit on messages (section 1.10)."""
    assert profile.partitioning == "namespace"
    if partitions == 1:
        return profile
    bytes_max = min(profile.message_bytes_max, 1024 * KILOBYTE)
    return replace(profile, fragments_default=partitions, message_bytes_max=bytes_max)


def profile_named(name: str) -> Profile:
    """The profile with that name; an unknown one is an error that lists them all."""
    profile = PROFILES.get(name)
    if profile is None:
        raise ArgumentError(f"'{name}' is not a valid profile; allowed: {', '.join(PROFILES)}.")
    return profile
