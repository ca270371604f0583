"""Queues, by the stock Python administration client: every operation and property."""

from datetime import timedelta
from typing import Any, Final

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.management import (
    AccessRights,
    ApiVersion,
    AuthorizationRule,
    EntityStatus,
    ServiceBusAdministrationClient,
)

from conformance.admin.conftest import Fresh
from support.server import ServerProcess

UNLIMITED: Final = timedelta(days=10675199, seconds=10085, microseconds=477581)
DEFAULTS: Final = {
    "lock_duration": timedelta(minutes=1),
    "max_size_in_megabytes": 1024,
    "requires_duplicate_detection": False,
    "requires_session": False,
    "default_message_time_to_live": UNLIMITED,
    "dead_lettering_on_message_expiration": False,
    "duplicate_detection_history_time_window": timedelta(minutes=10),
    "max_delivery_count": 10,
    "enable_batched_operations": True,
    "status": EntityStatus.ACTIVE,
    "auto_delete_on_idle": UNLIMITED,
    "enable_partitioning": False,
    "enable_express": False,
    "forward_to": None,
    "forward_dead_lettered_messages_to": None,
    "user_metadata": None,
    "max_message_size_in_kilobytes": 1024,
    "availability_status": "Available",
}
# What can be changed after creation, with another value for each.
MUTABLE: Final[dict[str, Any]] = {
    "lock_duration": timedelta(seconds=30),
    "max_size_in_megabytes": 4096,
    "default_message_time_to_live": timedelta(days=3),
    "dead_lettering_on_message_expiration": True,
    "duplicate_detection_history_time_window": timedelta(minutes=4),
    "max_delivery_count": 3,
    "enable_batched_operations": False,
    "status": EntityStatus.RECEIVE_DISABLED,
    "auto_delete_on_idle": timedelta(hours=1),
    "user_metadata": 'line one\nline "two" & <three>',
    "max_message_size_in_kilobytes": 4096,
}
FIXED: Final = {"requires_session": True, "requires_duplicate_detection": True}


def properties(described: Any) -> dict[str, Any]:
    return {name: described[name] for name in DEFAULTS}


@pytest.mark.rule("PRP-1", "HTP-6")
@pytest.mark.parametrize("version", list(ApiVersion))
def test_the_life_of_a_queue(connection: str, fresh: Fresh, version: ApiVersion) -> None:
    name = fresh("life")
    with ServiceBusAdministrationClient.from_connection_string(
        connection, api_version=version, retry_total=0
    ) as admin:
        created = admin.create_queue(name)
        expected = DEFAULTS
        if version is ApiVersion.V2017_04:  # it knew no large messages
            expected = DEFAULTS | {"max_message_size_in_kilobytes": None}
        assert properties(created) == expected
        assert properties(admin.get_queue(name)) == expected
        assert name in [queue.name for queue in admin.list_queues()]
        admin.delete_queue(name)
        assert name not in [queue.name for queue in admin.list_queues()]


def test_every_property_at_creation(admin: ServiceBusAdministrationClient, fresh: Fresh) -> None:
    name = fresh("full")
    asked = MUTABLE | FIXED | {"enable_partitioning": True}
    admin.create_queue(name, **asked)
    got = properties(admin.get_queue(name))
    assert got == DEFAULTS | asked
    (listed,) = [queue for queue in admin.list_queues() if queue.name == name]
    assert properties(listed) == got


@pytest.mark.rule("PRP-3")
@pytest.mark.parametrize("changed", MUTABLE)
def test_each_mutable_property_can_be_updated(
    admin: ServiceBusAdministrationClient, fresh: Fresh, changed: str
) -> None:
    name = fresh("mutable")
    queue = admin.create_queue(name)
    admin.update_queue(queue, **{changed: MUTABLE[changed]})
    assert properties(admin.get_queue(name)) == DEFAULTS | {changed: MUTABLE[changed]}
    admin.update_queue(admin.get_queue(name), **{changed: DEFAULTS[changed]})
    assert properties(admin.get_queue(name)) == DEFAULTS


def test_an_update_by_a_mapping(admin: ServiceBusAdministrationClient, fresh: Fresh) -> None:
    name = fresh("mapping")
    queue = admin.create_queue(name, **FIXED)
    admin.update_queue(dict(queue) | {"lock_duration": timedelta(seconds=20)})
    assert properties(admin.get_queue(name)) == DEFAULTS | FIXED | {
        "lock_duration": timedelta(seconds=20)
    }


def test_express_is_accepted(admin: ServiceBusAdministrationClient, fresh: Fresh) -> None:
    assert admin.create_queue(fresh("express"), enable_express=True).enable_express is True


def test_names_with_slashes_and_in_another_case(
    admin: ServiceBusAdministrationClient, fresh: Fresh
) -> None:
    name = f"Team/{fresh('Orders')}/v1.0_x-y~z"
    admin.create_queue(name)
    assert admin.get_queue(name.upper()).lock_duration == timedelta(minutes=1)
    assert name in [queue.name for queue in admin.list_queues()]
    admin.delete_queue(name.lower())


@pytest.mark.rule("SAS-1", "SAS-3")
def test_authorization_rules(
    admin: ServiceBusAdministrationClient, server: ServerProcess, fresh: Fresh
) -> None:
    name = fresh("ruled")
    rule = AuthorizationRule(
        type="SharedAccessAuthorizationRule",
        claim_type="SharedAccessKey",
        claim_value="None",
        rights=[AccessRights.SEND],
        key_name="sender",
        primary_key="the-primary-key",
        secondary_key="the-secondary-key",
    )
    admin.create_queue(name, authorization_rules=[rule])
    (got,) = admin.get_queue(name).authorization_rules
    assert (got.key_name, got.rights) == ("sender", ["Send"])
    assert (got.primary_key, got.secondary_key) == ("the-primary-key", "the-secondary-key")
    # The key is good for what it says, at once.
    endpoint = server.connection_string.split(";", 1)[0]
    access = "SharedAccessKeyName=sender;SharedAccessKey=the-secondary-key"
    with (
        ServiceBusClient.from_connection_string(
            f"{endpoint};{access};UseDevelopmentEmulator=true", retry_total=0
        ) as client,
        client.get_queue_sender(name) as sender,
    ):
        sender.send_messages(ServiceBusMessage("allowed"))
    # An update replaces the rules, too.
    queue = admin.get_queue(name)
    got.rights = [AccessRights.LISTEN]
    got.key_name = "listener"
    admin.update_queue(queue, authorization_rules=[got])
    (changed,) = admin.get_queue(name).authorization_rules
    assert (changed.key_name, changed.rights) == ("listener", ["Listen"])
    admin.update_queue(admin.get_queue(name), authorization_rules=[])
    assert not admin.get_queue(name).authorization_rules


@pytest.mark.rule("FWD-3")
def test_forwarding_is_set_shown_and_cleared(
    admin: ServiceBusAdministrationClient, server: ServerProcess, fresh: Fresh
) -> None:
    name, host = fresh("forwards"), f"127.0.0.1:{server.ready.amqp_port}"
    admin.create_queue(name, forward_to="target", forward_dead_lettered_messages_to="target-topic")
    queue = admin.get_queue(name)
    assert queue.forward_to == f"sb://{host}/target"
    assert queue.forward_dead_lettered_messages_to == f"sb://{host}/target-topic"
    admin.update_queue(queue, lock_duration=timedelta(seconds=30))
    assert admin.get_queue(name).forward_to == f"sb://{host}/target"
    admin.update_queue(queue, forward_to=None, forward_dead_lettered_messages_to=None)
    cleared = admin.get_queue(name)
    assert (cleared.forward_to, cleared.forward_dead_lettered_messages_to) == (None, None)


@pytest.mark.rule("CNT-1", "CNT-3", "CNT-4", "SEED-61")
@pytest.mark.parametrize("is_partitioned", [False, True], ids=["whole", "partitioned"])
def test_counts(
    admin: ServiceBusAdministrationClient, server: ServerProcess, fresh: Fresh, is_partitioned: bool
) -> None:
    name = fresh("counted")
    created = admin.create_queue(name, enable_partitioning=is_partitioned)
    assert created.enable_partitioning is is_partitioned
    with ServiceBusClient.from_connection_string(server.connection_string, retry_total=0) as client:
        with client.get_queue_sender(name) as sender:
            for number in range(6):
                sender.send_messages(ServiceBusMessage(f"m{number}"))
            sender.schedule_messages(ServiceBusMessage("later"), _tomorrow())
        with client.get_queue_receiver(name) as receiver:
            dead, held, _put_off = (receiver.receive_messages(1, 30)[0] for _ in range(3))
            receiver.dead_letter_message(dead)
            receiver.defer_message(_put_off)
            runtime = admin.get_queue_runtime_properties(name)
            assert held is not None
            assert runtime.active_message_count == 4  # three ready, one locked
            assert runtime.dead_letter_message_count == 1
            assert runtime.scheduled_message_count == 1
            assert runtime.transfer_message_count == 0
            assert runtime.transfer_dead_letter_message_count == 0
            assert runtime.total_message_count == 7
            assert runtime.size_in_bytes > 0
    assert runtime.created_at_utc <= runtime.updated_at_utc
    listed = {one.name: one for one in admin.list_queues_runtime_properties()}
    assert listed[name].total_message_count == 7


def _tomorrow() -> Any:
    from datetime import UTC, datetime

    return datetime.now(UTC) + timedelta(days=1)


def test_a_queue_made_at_run_time_carries_messages_and_goes_with_them(
    admin: ServiceBusAdministrationClient, server: ServerProcess, fresh: Fresh
) -> None:
    name = fresh("carries")
    admin.create_queue(name)
    with ServiceBusClient.from_connection_string(server.connection_string, retry_total=0) as client:
        with client.get_queue_sender(name) as sender:
            sender.send_messages(ServiceBusMessage("old"))
        admin.delete_queue(name)
        admin.create_queue(name)
        assert admin.get_queue_runtime_properties(name).total_message_count == 0
