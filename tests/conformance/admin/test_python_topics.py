"""Topics and subscriptions, by the stock Python administration client."""

from datetime import timedelta
from typing import Any, Final

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.servicebus.management import (
    ApiVersion,
    CorrelationRuleFilter,
    EntityStatus,
    ServiceBusAdministrationClient,
    SqlRuleFilter,
)

from conformance.admin.conftest import Fresh

UNLIMITED: Final = timedelta(days=10675199, seconds=10085, microseconds=477581)
TOPIC: Final[dict[str, Any]] = {
    "default_message_time_to_live": UNLIMITED,
    "max_size_in_megabytes": 1024,
    "requires_duplicate_detection": False,
    "duplicate_detection_history_time_window": timedelta(minutes=10),
    "enable_batched_operations": True,
    "filtering_messages_before_publishing": False,
    "status": EntityStatus.ACTIVE,
    "support_ordering": True,
    "auto_delete_on_idle": UNLIMITED,
    "enable_partitioning": False,
    "enable_express": False,
    "user_metadata": None,
    "max_message_size_in_kilobytes": 1024,
}
TOPIC_CHANGES: Final[dict[str, Any]] = {
    "default_message_time_to_live": timedelta(days=3),
    "max_size_in_megabytes": 4096,
    "duplicate_detection_history_time_window": timedelta(minutes=4),
    "enable_batched_operations": False,
    "status": EntityStatus.SEND_DISABLED,
    "support_ordering": False,
    "auto_delete_on_idle": timedelta(hours=1),
    "user_metadata": "notes",
    "max_message_size_in_kilobytes": 2048,
}
SUBSCRIPTION: Final[dict[str, Any]] = {
    "lock_duration": timedelta(minutes=1),
    "requires_session": False,
    "default_message_time_to_live": UNLIMITED,
    "dead_lettering_on_message_expiration": False,
    "dead_lettering_on_filter_evaluation_exceptions": True,
    "max_delivery_count": 10,
    "enable_batched_operations": True,
    "status": EntityStatus.ACTIVE,
    "forward_to": None,
    "user_metadata": None,
    "forward_dead_lettered_messages_to": None,
    "auto_delete_on_idle": UNLIMITED,
}
SUBSCRIPTION_CHANGES: Final[dict[str, Any]] = {
    "lock_duration": timedelta(seconds=30),
    "default_message_time_to_live": timedelta(days=3),
    "dead_lettering_on_message_expiration": True,
    "dead_lettering_on_filter_evaluation_exceptions": False,
    "max_delivery_count": 3,
    "enable_batched_operations": False,
    "status": EntityStatus.RECEIVE_DISABLED,
    "user_metadata": "notes",
    "auto_delete_on_idle": timedelta(hours=1),
}


def properties(described: Any, names: Any) -> dict[str, Any]:
    return {name: described[name] for name in names}


@pytest.mark.rule("PRP-1", "HTP-6")
@pytest.mark.parametrize("version", list(ApiVersion))
def test_the_life_of_topic_and_subscription(
    connection: str, fresh: Fresh, version: ApiVersion
) -> None:
    topic, subscription = fresh("topic"), "sub"
    expected = TOPIC
    if version is ApiVersion.V2017_04:
        expected = TOPIC | {"max_message_size_in_kilobytes": None}
    with ServiceBusAdministrationClient.from_connection_string(
        connection, api_version=version, retry_total=0
    ) as admin:
        assert properties(admin.create_topic(topic), TOPIC) == expected
        assert properties(admin.get_topic(topic), TOPIC) == expected
        assert topic in [one.name for one in admin.list_topics()]
        assert topic not in [one.name for one in admin.list_queues()]
        created = admin.create_subscription(topic, subscription)
        assert properties(created, SUBSCRIPTION) == SUBSCRIPTION
        got = admin.get_subscription(topic, subscription)
        assert properties(got, SUBSCRIPTION) == SUBSCRIPTION
        assert [one.name for one in admin.list_subscriptions(topic)] == [subscription]
        admin.delete_subscription(topic, subscription)
        assert list(admin.list_subscriptions(topic)) == []
        admin.create_subscription(topic, subscription)
        admin.delete_topic(topic)
        with pytest.raises(ResourceNotFoundError):
            admin.get_subscription(topic, subscription)


def test_every_property_at_creation(admin: ServiceBusAdministrationClient, fresh: Fresh) -> None:
    topic = fresh("full")
    asked = TOPIC_CHANGES | {
        "requires_duplicate_detection": True,
        "enable_partitioning": True,
    }  # filtering_messages_before_publishing is taken by this client and never sent
    admin.create_topic(topic, **asked)
    assert properties(admin.get_topic(topic), TOPIC) == TOPIC | asked
    wanted = SUBSCRIPTION_CHANGES | {"requires_session": True}
    admin.create_subscription(topic, "sub", **wanted)
    assert properties(admin.get_subscription(topic, "sub"), SUBSCRIPTION) == SUBSCRIPTION | wanted


@pytest.mark.rule("PRP-3")
@pytest.mark.parametrize("changed", TOPIC_CHANGES)
def test_each_mutable_property_of_a_topic(
    admin: ServiceBusAdministrationClient, fresh: Fresh, changed: str
) -> None:
    name = fresh("mutable")
    topic = admin.create_topic(name)
    admin.update_topic(topic, **{changed: TOPIC_CHANGES[changed]})
    assert properties(admin.get_topic(name), TOPIC) == TOPIC | {changed: TOPIC_CHANGES[changed]}
    admin.update_topic(admin.get_topic(name), **{changed: TOPIC[changed]})
    assert properties(admin.get_topic(name), TOPIC) == TOPIC


@pytest.mark.rule("PRP-3")
@pytest.mark.parametrize("changed", SUBSCRIPTION_CHANGES)
def test_each_mutable_property_of_a_subscription(
    admin: ServiceBusAdministrationClient, fresh: Fresh, changed: str
) -> None:
    topic = fresh("mutable")
    admin.create_topic(topic)
    subscription = admin.create_subscription(topic, "sub")
    admin.create_rule(topic, "sub", "extra", filter=SqlRuleFilter("size > 3"))
    admin.update_subscription(topic, subscription, **{changed: SUBSCRIPTION_CHANGES[changed]})
    got = admin.get_subscription(topic, "sub")
    expected = SUBSCRIPTION | {changed: SUBSCRIPTION_CHANGES[changed]}
    assert properties(got, SUBSCRIPTION) == expected
    assert [rule.name for rule in admin.list_rules(topic, "sub")] == ["$Default", "extra"]
    admin.update_subscription(topic, got, **{changed: SUBSCRIPTION[changed]})
    assert properties(admin.get_subscription(topic, "sub"), SUBSCRIPTION) == SUBSCRIPTION


def test_a_subscription_forwards(
    admin: ServiceBusAdministrationClient, connection: str, fresh: Fresh
) -> None:
    topic = fresh("forwards")
    host = connection.split("sb://", 1)[1].split(";", 1)[0]
    with ServiceBusAdministrationClient.from_connection_string(connection, retry_total=0) as here:
        here.create_topic(topic)
        here.create_subscription(topic, "sub", forward_to="target")
        assert here.get_subscription(topic, "sub").forward_to == f"sb://{host}/target"


@pytest.mark.rule("CNT-2")
def test_figures_of_topics_and_subscriptions(
    admin: ServiceBusAdministrationClient, fresh: Fresh
) -> None:
    topic = fresh("counts")
    admin.create_topic(topic)
    for name in ("one", "two"):
        admin.create_subscription(topic, name)
    admin.create_rule(topic, "one", "match", filter=CorrelationRuleFilter(label="x"))
    runtime = admin.get_topic_runtime_properties(topic)
    assert runtime.subscription_count == 2
    assert runtime.sql_filter_count == 2
    assert runtime.correlation_filter_count == 1
    assert runtime.scheduled_message_count == 0
    assert runtime.size_in_bytes == 0
    assert runtime.created_at_utc is not None
    assert topic in [one.name for one in admin.list_topics_runtime_properties()]
    counts = admin.get_subscription_runtime_properties(topic, "one")
    assert counts.total_message_count == 0
    assert counts.active_message_count == 0
    assert counts.dead_letter_message_count == 0
    assert counts.transfer_message_count == 0
    assert counts.transfer_dead_letter_message_count == 0
    assert counts.updated_at_utc >= counts.created_at_utc
    names = [one.name for one in admin.list_subscriptions_runtime_properties(topic)]
    assert names == ["one", "two"]
