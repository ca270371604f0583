"""What each profile admits, refuses, and decides by itself."""

from dataclasses import replace

import pytest

from partibus.domain.admission import (
    admit,
    admit_queue,
    admit_rule,
    admit_subscription,
    admit_topic,
    refuse_immutable_change,
)
from partibus.domain.entity import (
    CorrelationFilter,
    EntityStatus,
    FilterType,
    QueueSpec,
    RuleSpec,
    SubscriptionSpec,
    TopicSpec,
    duplicate_window_ms,
    forwards,
)
from partibus.domain.limits import (
    BASIC,
    DAY_MS,
    EMULATOR,
    HOUR_MS,
    MINUTE_MS,
    PREMIUM,
    PREMIUM_2017,
    PREMIUM_2020,
    PROFILES,
    SECOND_MS,
    SELFHOST,
    STANDARD,
    Profile,
)
from partibus.domain.refusal import PropertyImmutable, PropertyRefused


def refused(spec: QueueSpec | TopicSpec | SubscriptionSpec, profile: Profile) -> PropertyRefused:
    with pytest.raises(PropertyRefused) as caught:
        admit(spec, profile)
    return caught.value


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
def test_the_defaults_are_admitted_by_every_profile_and_stay(profile: Profile) -> None:
    once = admit_queue(QueueSpec(), profile)
    assert admit_queue(once, profile) == once


@pytest.mark.rule("PRP-1")
@pytest.mark.parametrize(
    ("changes", "property_name"),
    [
        ({"lock_duration_ms": 4_999}, "lock_duration"),
        ({"lock_duration_ms": 5 * MINUTE_MS + 1}, "lock_duration"),
        ({"max_delivery_count": 0}, "max_delivery_count"),
        ({"max_delivery_count": 2**31}, "max_delivery_count"),
        ({"max_size_in_megabytes": 1000}, "max_size_in_megabytes"),
        ({"max_size_in_megabytes": 10240}, "max_size_in_megabytes"),
        ({"max_message_size_in_kilobytes": 257}, "max_message_size_in_kilobytes"),
        ({"default_message_time_to_live_ms": 999}, "default_message_time_to_live"),
        (
            {"duplicate_detection_history_time_window_ms": 19_999},
            "duplicate_detection_history_time_window",
        ),
        (
            {"duplicate_detection_history_time_window_ms": 7 * DAY_MS + 1},
            "duplicate_detection_history_time_window",
        ),
        ({"auto_delete_on_idle_ms": 5 * MINUTE_MS - 1}, "auto_delete_on_idle"),
        ({"user_metadata": "x" * 1025}, "user_metadata"),
        ({"status": EntityStatus.DELETING}, "status"),
    ],
)
def test_values_out_of_range_are_refused_by_name(
    changes: dict[str, object], property_name: str
) -> None:
    error = refused(replace(QueueSpec(), **changes), STANDARD)  # type: ignore[arg-type]
    assert error.property_name == property_name
    assert error.text.startswith(f"{property_name}: ")
    assert "allowed" in error.reason


def test_a_refusal_says_what_is_allowed() -> None:
    error = refused(QueueSpec(lock_duration_ms=10 * MINUTE_MS), STANDARD)
    assert error.text == "lock_duration: PT10M is not allowed; allowed: PT5S to PT5M."


def test_the_edges_of_the_ranges_are_allowed() -> None:
    for lock_duration_ms in (5_000, 5 * MINUTE_MS):
        admit_queue(QueueSpec(lock_duration_ms=lock_duration_ms), STANDARD)
    admit_queue(QueueSpec(lock_duration_ms=1_000), SELFHOST)
    admit_queue(QueueSpec(max_size_in_megabytes=7), SELFHOST)


@pytest.mark.rule("SES-24")
def test_the_basic_tier_has_no_sessions() -> None:
    assert refused(QueueSpec(requires_session=True), BASIC).property_name == "requires_session"
    assert admit_queue(QueueSpec(requires_session=True), STANDARD).requires_session


@pytest.mark.rule("DUP-4")
@pytest.mark.parametrize(
    ("profile", "least_ms", "most_ms"),
    [
        (STANDARD, 20 * SECOND_MS, 7 * DAY_MS),
        (PREMIUM, 20 * SECOND_MS, 7 * DAY_MS),
        (EMULATOR, 5 * SECOND_MS, 5 * MINUTE_MS),
    ],
)
def test_the_duplicate_window_has_the_range_of_its_profile(
    profile: Profile, least_ms: int, most_ms: int
) -> None:
    def windowed(window_ms: int) -> QueueSpec:
        return QueueSpec(
            requires_duplicate_detection=True, duplicate_detection_history_time_window_ms=window_ms
        )

    for window_ms in (least_ms, most_ms):
        assert duplicate_window_ms(admit_queue(windowed(window_ms), profile)) == window_ms
    for window_ms in (least_ms - 1, most_ms + 1):
        error = refused(windowed(window_ms), profile)
        assert error.property_name == "duplicate_detection_history_time_window"


@pytest.mark.rule("DUP-4")
def test_the_duplicate_window_is_ten_minutes_and_may_change() -> None:
    old = QueueSpec(requires_duplicate_detection=True)
    assert duplicate_window_ms(old) == 10 * MINUTE_MS
    assert duplicate_window_ms(QueueSpec()) == 0
    new = replace(old, duplicate_detection_history_time_window_ms=MINUTE_MS)
    refuse_immutable_change(old, new)


@pytest.mark.rule("PRP-6")
def test_express_and_duplicate_detection_exclude_each_other() -> None:
    spec = QueueSpec(enable_express=True, requires_duplicate_detection=True)
    assert refused(spec, STANDARD).property_name == "enable_express"


def test_premium_refuses_express() -> None:
    assert refused(QueueSpec(enable_express=True), PREMIUM).property_name == "enable_express"


@pytest.mark.rule("PRP-4", "DUP-11", "FWD-11")
@pytest.mark.parametrize(
    "spec",
    [
        QueueSpec(requires_duplicate_detection=True),
        QueueSpec(requires_session=True),
        QueueSpec(auto_delete_on_idle_ms=HOUR_MS),
        QueueSpec(default_message_time_to_live_ms=HOUR_MS),
        QueueSpec(duplicate_detection_history_time_window_ms=MINUTE_MS),
        QueueSpec(enable_express=True),
        QueueSpec(forward_to="other"),
        QueueSpec(forward_dead_lettered_messages_to="other"),
        TopicSpec(),
    ],
)
def test_basic_refuses_what_the_tier_lacks(spec: QueueSpec | TopicSpec) -> None:
    error = refused(spec, BASIC)
    assert error.sub_code == 40000
    assert error.http_status == 400


def test_basic_gives_every_queue_fourteen_days() -> None:
    admitted = admit_queue(QueueSpec(), BASIC)
    assert admitted.default_message_time_to_live_ms == 14 * DAY_MS


@pytest.mark.rule("FWD-4")
def test_a_session_queue_may_forward() -> None:
    spec = QueueSpec(requires_session=True, forward_to="other")
    assert admit_queue(spec, STANDARD).forward_to == "other"


@pytest.mark.rule("IDL-3", "FWD-12")
def test_a_forwarding_queue_keeps_what_does_not_apply_meanwhile() -> None:
    spec = QueueSpec(
        forward_to="sb://host/other",
        auto_delete_on_idle_ms=HOUR_MS,
        default_message_time_to_live_ms=DAY_MS,
    )
    admitted = admit_queue(spec, STANDARD)
    assert admitted == replace(spec, forward_to="other")
    assert forwards(admitted)


# --- partitioning -------------------------------------------------------------------------------


def partitioning(spec: QueueSpec, profile: Profile) -> tuple[bool, int]:
    admitted = admit_queue(spec, profile)
    return admitted.enable_partitioning, admitted.fragments


@pytest.mark.rule("CON-4")
def test_a_partitioned_entity_has_sixteen_fragments() -> None:
    wished = QueueSpec(enable_partitioning=True)
    assert partitioning(wished, STANDARD) == (True, 16)
    assert partitioning(wished, BASIC) == (True, 16)
    assert partitioning(wished, SELFHOST) == (True, 16)
    assert partitioning(QueueSpec(), STANDARD) == (False, 1)


def test_selfhost_lets_the_owner_choose_the_count() -> None:
    assert partitioning(QueueSpec(enable_partitioning=True, fragments=3), SELFHOST) == (True, 3)
    for fragments in (0, -1, 65_536):
        spec = QueueSpec(enable_partitioning=True, fragments=fragments)
        assert refused(spec, SELFHOST).property_name == "partition_count"


def test_a_count_without_partitioning_or_against_the_profile_is_refused() -> None:
    assert refused(QueueSpec(fragments=4), SELFHOST).property_name == "partition_count"
    spec = QueueSpec(enable_partitioning=True, fragments=4)
    assert refused(spec, STANDARD).property_name == "partition_count"


@pytest.mark.rule("CON-1")
def test_premium_vintages_decide_by_themselves() -> None:
    wished = QueueSpec(enable_partitioning=True)
    assert partitioning(QueueSpec(), PREMIUM_2017) == (True, 2)
    assert partitioning(wished, PREMIUM_2020) == (False, 1)
    assert refused(wished, PREMIUM).property_name == "enable_partitioning"
    namespace_of_four = replace(PREMIUM, fragments_default=4)
    assert partitioning(QueueSpec(), namespace_of_four) == (True, 4)


def test_the_emulator_refuses_partitioning() -> None:
    spec = QueueSpec(enable_partitioning=True)
    assert refused(spec, EMULATOR).property_name == "enable_partitioning"


def test_a_partitioned_topic_does_not_keep_order() -> None:
    assert not admit_topic(TopicSpec(enable_partitioning=True), STANDARD).support_ordering
    assert admit_topic(TopicSpec(), STANDARD).support_ordering


def test_the_emulator_moves_defaults_into_its_ranges() -> None:
    admitted = admit_queue(QueueSpec(), EMULATOR)
    assert admitted.default_message_time_to_live_ms == HOUR_MS
    assert admitted.duplicate_detection_history_time_window_ms == 5 * MINUTE_MS
    assert admitted.max_size_in_megabytes == 100
    spec = QueueSpec(default_message_time_to_live_ms=2 * HOUR_MS)
    assert refused(spec, EMULATOR).property_name == "default_message_time_to_live"


@pytest.mark.rule("PRP-2")
@pytest.mark.parametrize(
    ("old", "new", "property_name"),
    [
        (QueueSpec(), QueueSpec(requires_session=True), "requires_session"),
        (
            QueueSpec(requires_duplicate_detection=True),
            QueueSpec(),
            "requires_duplicate_detection",
        ),
        (QueueSpec(), QueueSpec(enable_partitioning=True, fragments=16), "enable_partitioning"),
        (
            QueueSpec(enable_partitioning=True, fragments=4),
            QueueSpec(enable_partitioning=True, fragments=8),
            "partition_count",
        ),
        (QueueSpec(), TopicSpec(), "kind"),
    ],
)
def test_fixed_properties_cannot_change(
    old: QueueSpec, new: QueueSpec | TopicSpec, property_name: str
) -> None:
    with pytest.raises(PropertyImmutable) as caught:
        refuse_immutable_change(old, new)
    assert caught.value.property_name == property_name
    assert "delete" in caught.value.reason


def test_other_properties_may_change() -> None:
    refuse_immutable_change(QueueSpec(), QueueSpec(lock_duration_ms=5_000, max_delivery_count=1))


@pytest.mark.rule("CON-18")
def test_the_shortest_lock_of_the_tiers_is_five_seconds() -> None:
    assert admit(QueueSpec(lock_duration_ms=5_000), STANDARD).lock_duration_ms == 5_000
    assert refused(QueueSpec(lock_duration_ms=4_999), STANDARD).property_name == "lock_duration"


@pytest.mark.rule("CON-26")
def test_a_lock_lasts_a_minute_unless_told_otherwise() -> None:
    for spec in (QueueSpec(), SubscriptionSpec()):
        assert admit(spec, STANDARD).lock_duration_ms == 60_000


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        (TopicSpec(), EntityStatus.RECEIVE_DISABLED),
        (SubscriptionSpec(), EntityStatus.SEND_DISABLED),
    ],
)
def test_a_status_must_fit_the_kind(
    spec: TopicSpec | SubscriptionSpec, status: EntityStatus
) -> None:
    assert refused(replace(spec, status=status), STANDARD).property_name == "status"


# --- rules --------------------------------------------------------------------------------------


@pytest.mark.rule("QTA-13")
def test_filters_and_actions_have_a_longest_text() -> None:
    admit_rule(RuleSpec(name="r", filter_type=FilterType.SQL, sql_expression="x" * 1024))
    for rule in (
        RuleSpec(name="r", filter_type=FilterType.SQL, sql_expression="x" * 1025),
        RuleSpec(name="r", action="x" * 1025),
    ):
        with pytest.raises(PropertyRefused, match="1024"):
            admit_rule(rule)


@pytest.mark.rule("COR-1")
def test_a_correlation_filter_needs_a_condition() -> None:
    rule = RuleSpec(name="r", filter_type=FilterType.CORRELATION, correlation=CorrelationFilter())
    with pytest.raises(PropertyRefused, match="at least one"):
        admit_rule(rule)
    admit_rule(replace(rule, correlation=CorrelationFilter(label="x")))


def test_rule_names_are_unique_in_a_subscription() -> None:
    spec = SubscriptionSpec(rules=(RuleSpec(name="a"), RuleSpec(name="A")))
    with pytest.raises(PropertyRefused, match="same name"):
        admit_subscription(spec, STANDARD)


@pytest.mark.rule("QTA-6")
def test_premium_has_a_least_message_size() -> None:
    for wrong in (1023, 102_401):
        error = refused(QueueSpec(max_message_size_in_kilobytes=wrong), PREMIUM)
        assert error.property_name == "max_message_size_in_kilobytes"
        assert (
            "value for 'MaxMessageSizeInKilobytes' must be between 1024 and 102400" in error.reason
        )
    for kilobytes in (1024, 102_400):
        assert admit_queue(QueueSpec(max_message_size_in_kilobytes=kilobytes), PREMIUM)
    assert admit_queue(QueueSpec(max_message_size_in_kilobytes=1), STANDARD)
