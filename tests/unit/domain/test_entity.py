"""Specs: the vendor's defaults, and what a status lets through."""

import pytest

from partibus.domain.duration import format_duration
from partibus.domain.entity import (
    EntityKind,
    EntityStatus,
    FilterType,
    QueueSpec,
    SubscriptionSpec,
    TopicSpec,
    asked_megabytes,
    kind_of,
    message_bytes_max,
    shown_megabytes,
)
from partibus.domain.limits import BASIC, PREMIUM_2017, SELFHOST, STANDARD, Profile


@pytest.mark.rule("PRP-1")
def test_a_queue_has_the_vendors_defaults() -> None:
    queue = QueueSpec()
    assert format_duration(queue.lock_duration_ms) == "PT1M"
    assert queue.max_delivery_count == 10
    assert queue.max_size_in_megabytes == 1024
    assert format_duration(queue.default_message_time_to_live_ms) == "P10675199DT2H48M5.4775807S"
    assert format_duration(queue.auto_delete_on_idle_ms) == "P10675199DT2H48M5.4775807S"
    assert format_duration(queue.duplicate_detection_history_time_window_ms) == "PT10M"
    assert queue.enable_batched_operations
    assert queue.status is EntityStatus.ACTIVE
    assert not (
        queue.requires_session
        or queue.requires_duplicate_detection
        or queue.enable_partitioning
        or queue.dead_lettering_on_message_expiration
        or queue.enable_express
        or queue.forward_to
        or queue.forward_dead_lettered_messages_to
    )


@pytest.mark.rule("FLT-2")
def test_a_subscription_begins_with_the_default_rule() -> None:
    (rule,) = SubscriptionSpec().rules
    assert (rule.name, rule.filter_type, rule.action) == ("$Default", FilterType.TRUE, "")


@pytest.mark.parametrize(
    ("status", "sends", "receives"),
    [
        (EntityStatus.ACTIVE, True, True),
        (EntityStatus.DISABLED, False, False),
        (EntityStatus.SEND_DISABLED, False, True),
        (EntityStatus.RECEIVE_DISABLED, True, False),
        (EntityStatus.DELETING, False, False),
    ],
)
def test_a_status_says_what_passes(status: EntityStatus, sends: bool, receives: bool) -> None:
    assert (status.allows_send, status.allows_receive) == (sends, receives)


def test_a_spec_knows_its_kind() -> None:
    kinds = [kind_of(spec) for spec in (QueueSpec(), TopicSpec(), SubscriptionSpec())]
    assert kinds == [EntityKind.QUEUE, EntityKind.TOPIC, EntityKind.SUBSCRIPTION]


def test_the_largest_message_is_the_entitys_or_the_profiles() -> None:
    assert message_bytes_max(QueueSpec(), STANDARD) == 262_144
    assert message_bytes_max(QueueSpec(), SELFHOST) == 1_048_576
    assert message_bytes_max(QueueSpec(max_message_size_in_kilobytes=4), SELFHOST) == 4096


@pytest.mark.rule("SEED-19", "SEED-24", "CON-17")
@pytest.mark.parametrize(
    ("profile", "shown"),
    [(BASIC, 32_768), (STANDARD, 32_768), (PREMIUM_2017, 2048), (SELFHOST, 2048)],
)
def test_the_size_that_is_shown_is_read_back(profile: Profile, shown: int) -> None:
    spec = QueueSpec(enable_partitioning=True, fragments=16, max_size_in_megabytes=2048)
    assert shown_megabytes(spec, profile) == shown
    assert asked_megabytes(shown, 16, profile) == 2048
    assert asked_megabytes(1000, 16, profile) == 1000
