"""Every refusal, as the exception that the stock Python client makes of it."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import pytest
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
)
from azure.servicebus.management import (
    AuthorizationRule,
    CorrelationRuleFilter,
    EntityStatus,
    QueueProperties,
    ServiceBusAdministrationClient,
    SqlRuleFilter,
)

from conformance.admin.conftest import Fresh
from support.sas import sas_token, with_key, with_token
from support.server import ServerProcess

Admin = ServiceBusAdministrationClient

MISSING: Final[dict[str, Callable[[Admin], Any]]] = {
    "get queue": lambda admin: admin.get_queue("missing"),
    "queue counts": lambda admin: admin.get_queue_runtime_properties("missing"),
    "delete queue": lambda admin: admin.delete_queue("missing"),
    "get topic": lambda admin: admin.get_topic("missing"),
    "topic counts": lambda admin: admin.get_topic_runtime_properties("missing"),
    "delete topic": lambda admin: admin.delete_topic("missing"),
    "get subscription": lambda admin: admin.get_subscription("target-topic", "missing"),
    "subscription of no topic": lambda admin: admin.get_subscription("missing", "sub"),
    "delete subscription": lambda admin: admin.delete_subscription("target-topic", "missing"),
    "create below no topic": lambda admin: admin.create_subscription("missing", "sub"),
    "subscriptions of no topic": lambda admin: list(admin.list_subscriptions("missing")),
    "subscriptions of a queue": lambda admin: list(admin.list_subscriptions("target")),
    "rules of no subscription": lambda admin: list(admin.list_rules("target-topic", "missing")),
    "rule of no subscription": lambda admin: admin.get_rule("target-topic", "missing", "r"),
    "rule below no subscription": lambda admin: admin.create_rule("target-topic", "missing", "r"),
}


@pytest.mark.rule("ERR-1")
@pytest.mark.parametrize("ask", MISSING.values(), ids=MISSING.keys())
def test_what_is_missing_is_not_found(admin: Admin, ask: Callable[[Admin], Any]) -> None:
    with pytest.raises(ResourceNotFoundError) as caught:
        ask(admin)
    assert "SubCode=40400" in str(caught.value)


@pytest.mark.rule("ENT-9", "ERR-2")
def test_a_used_name_is_refused(admin: Admin, fresh: Fresh) -> None:
    name = fresh("used")
    admin.create_queue(name)
    for create in (admin.create_queue, admin.create_topic):
        with pytest.raises(ResourceExistsError) as caught:
            create(name.upper())
        assert "SubCode=40900" in str(caught.value)
    assert admin.get_queue(name).name == name


def test_an_update_of_what_is_missing(admin: Admin, fresh: Fresh) -> None:
    name = fresh("gone")
    queue = admin.create_queue(name)
    admin.delete_queue(name)
    with pytest.raises(ResourceNotFoundError):
        admin.update_queue(queue)


def test_an_update_as_another_kind(admin: Admin, fresh: Fresh) -> None:
    name = fresh("kind")
    topic = admin.create_topic(name)
    queue = admin.get_queue("target")
    queue.name = name
    refused(lambda: admin.update_queue(queue), "TopicDescription")
    assert admin.get_topic(name).status == topic.status


def refused(ask: Callable[[], Any], word: str, sub_code: int = 40000) -> None:
    with pytest.raises(HttpResponseError) as caught:
        ask()
    assert caught.value.status_code == 400
    assert f"SubCode={sub_code}" in caught.value.message
    assert word in caught.value.message
    assert "TrackingId:" in caught.value.message


@pytest.mark.rule("PRP-2")
@pytest.mark.parametrize(
    "fixed", ["requires_session", "requires_duplicate_detection", "enable_partitioning"]
)
@pytest.mark.parametrize("before", [False, True])
def test_what_is_fixed_cannot_be_updated(
    admin: Admin, fresh: Fresh, fixed: str, before: bool
) -> None:
    name = fresh("fixed")
    queue = admin.create_queue(name, **{fixed: before})
    change = {fixed: not before, "lock_duration": timedelta(seconds=11)}
    refused(lambda: admin.update_queue(queue, **change), fixed)
    got = admin.get_queue(name)
    assert (got[fixed], got.lock_duration) == (before, timedelta(minutes=1))


@pytest.mark.rule("PRP-1", "ERR-14")
@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"lock_duration": timedelta(0)}, "lock_duration"),
        ({"lock_duration": timedelta(days=2)}, "lock_duration"),
        ({"max_delivery_count": 0}, "max_delivery_count"),
        ({"max_delivery_count": -1}, "max_delivery_count"),
        ({"max_delivery_count": 2**40}, "max_delivery_count"),
        ({"max_size_in_megabytes": -1}, "max_size_in_megabytes"),
        ({"max_message_size_in_kilobytes": -1}, "max_message_size_in_kilobytes"),
        ({"max_message_size_in_kilobytes": 10**9}, "max_message_size_in_kilobytes"),
        ({"default_message_time_to_live": timedelta(0)}, "default_message_time_to_live"),
        ({"auto_delete_on_idle": timedelta(minutes=4)}, "auto_delete_on_idle"),
        ({"user_metadata": "x" * 1025}, "user_metadata"),
        ({"status": EntityStatus.CREATING}, "status"),
        ({"status": "Sleeping"}, "Status"),
        ({"enable_express": True, "requires_duplicate_detection": True}, "enable_express"),
        ({"authorization_rules": [AuthorizationRule(key_name="k", rights=[])]}, "rights"),
        ({"authorization_rules": [AuthorizationRule(key_name="k", rights=["Manage"])]}, "Manage"),
        ({"authorization_rules": [AuthorizationRule(key_name="-", rights=["Send"])]}, "name"),
    ],
)
def test_wrong_values_make_nothing(
    admin: Admin, fresh: Fresh, wrong: dict[str, Any], word: str
) -> None:
    name = fresh("wrong")
    refused(lambda: admin.create_queue(name, **wrong), word)
    with pytest.raises(ResourceNotFoundError):
        admin.get_queue(name)


@pytest.mark.rule("FWD-2")
@pytest.mark.parametrize("which", ["forward_to", "forward_dead_lettered_messages_to"])
def test_a_forward_to_nowhere(admin: Admin, fresh: Fresh, which: str) -> None:
    name = fresh("nowhere")
    refused(lambda: admin.create_queue(name, **{which: "missing"}), which, 40400)
    with pytest.raises(ResourceNotFoundError):
        admin.get_queue(name)


@pytest.mark.rule("ENT-6", "ENT-7")
@pytest.mark.parametrize(
    "name",
    [
        *("a b", "a@b", "a?b", "a#b", "a*b", "-a", "a-", "$a", "ä", "a%b", "a%2Fb", "a//b"),
        *("a/../b", "a/./b", "a\x01b", "a:b", "a;b", "a&b", "a+b", "a=b", "a\\b", "<a>", "日本"),
        "x" * 261,
    ],
)
def test_names_that_are_none(admin: Admin, name: str) -> None:
    with pytest.raises(HttpResponseError) as caught:
        admin.create_queue(name)
    assert caught.value.status_code == 400
    with pytest.raises(HttpResponseError) as caught:
        admin.create_subscription("target-topic", name)
    assert caught.value.status_code in (400, 404)


@pytest.mark.parametrize("name", ["a/b", "a@b", "a?b", "a#b", "a*b", "a\\b", "r" * 51])
def test_names_of_rules_that_are_none(admin: Admin, fresh: Fresh, name: str) -> None:
    topic = fresh("rules")
    admin.create_topic(topic)
    admin.create_subscription(topic, "sub")
    with pytest.raises(HttpResponseError) as caught:
        admin.create_rule(topic, "sub", name)
    assert caught.value.status_code in (400, 404)
    assert [rule.name for rule in admin.list_rules(topic, "sub")] == ["$Default"]


@pytest.mark.rule("QTA-13", "COR-1")
@pytest.mark.parametrize(
    "wrong", [SqlRuleFilter("x" * 1025), SqlRuleFilter(""), CorrelationRuleFilter()]
)
def test_filters_that_are_none(admin: Admin, fresh: Fresh, wrong: Any) -> None:
    topic = fresh("filters")
    admin.create_topic(topic)
    admin.create_subscription(topic, "sub")
    with pytest.raises(HttpResponseError) as caught:
        admin.create_rule(topic, "sub", "rule", filter=wrong)
    assert caught.value.status_code == 400
    assert [rule.name for rule in admin.list_rules(topic, "sub")] == ["$Default"]


@pytest.mark.rule("QTA-14")
def test_too_many_authorization_rules(admin: Admin, fresh: Fresh) -> None:
    name = fresh("crowded")
    rules = [AuthorizationRule(key_name=f"k{number}", rights=["Send"]) for number in range(13)]
    with pytest.raises(HttpResponseError) as caught:
        admin.create_queue(name, authorization_rules=rules)
    assert caught.value.status_code == 403
    with pytest.raises(ResourceNotFoundError):
        admin.get_queue(name)


# --- rights -----------------------------------------------------------------------------------


def client(connection_string: str) -> Admin:
    return Admin.from_connection_string(connection_string, retry_total=0)


@pytest.mark.rule("SAS-8", "SAS-11", "ERR-12")
@pytest.mark.parametrize(
    ("policy", "key", "sub_code"),
    [
        ("RootManageSharedAccessKey", "wrong", 40103),
        ("NoSuchPolicy", "wrong", 40109),
        ("NamespaceListen", "namespace-listen-key", 40100),
        ("NamespaceSend", "namespace-send-key", 40100),
    ],
)
def test_only_manage_administers(
    server: ServerProcess, policy: str, key: str, sub_code: int
) -> None:
    for ask in (
        lambda admin: admin.get_queue("target"),
        lambda admin: list(admin.list_queues()),
        lambda admin: admin.get_namespace_properties(),
        lambda admin: admin.create_queue("not-made"),
        lambda admin: admin.delete_queue("target"),
    ):
        with (
            client(with_key(server.connection_string, policy, key)) as admin,
            pytest.raises(ClientAuthenticationError) as caught,
        ):
            ask(admin)
        assert f"SubCode={sub_code}" in str(caught.value)
    with client(server.connection_string) as admin:
        assert admin.get_queue("target").name == "target"
        with pytest.raises(ResourceNotFoundError):
            admin.get_queue("not-made")


@pytest.mark.rule("SAS-6")
def test_a_policy_of_a_queue_administers_it_alone(server: ServerProcess) -> None:
    def token(path: str) -> str:
        resource = f"https://127.0.0.1:{server.ready.amqp_port}/{path}"
        signed = sas_token(resource, policy="GuardedManage", key="guarded-manage-key")
        return with_token(server.connection_string, signed)

    with client(token("guarded")) as admin:
        queue = admin.get_queue("guarded")
        admin.update_queue(queue, user_metadata="seen")
        assert admin.get_queue("guarded").user_metadata == "seen"
        for ask in (
            lambda: admin.get_queue("target"),
            lambda: list(admin.list_queues()),
            admin.get_namespace_properties,
            lambda: admin.create_queue("other"),
        ):
            with pytest.raises(ClientAuthenticationError) as caught:
                ask()
            assert "SubCode=40104" in str(caught.value)
        # Its own rights do not reach the destination of a forward (FWD-3).
        with pytest.raises(ClientAuthenticationError):
            admin.update_queue(queue, forward_to="target")
        assert admin.get_queue("guarded").forward_to is None
    with client(token("")) as admin, pytest.raises(ClientAuthenticationError):
        admin.get_queue("guarded")


@pytest.mark.rule("SAS-11")
def test_an_expired_token(server: ServerProcess) -> None:
    resource = f"https://127.0.0.1:{server.ready.amqp_port}"
    token = sas_token(resource, lifetime_seconds=-60)
    with (
        client(with_token(server.connection_string, token)) as admin,
        pytest.raises(ClientAuthenticationError) as caught,
    ):
        admin.get_queue("target")
    assert "SubCode=40106" in str(caught.value)


def test_the_properties_of_another_client_are_taken(admin: Admin, fresh: Fresh) -> None:
    """A description written from nothing, with what must be there and no more."""
    name = fresh("scratch")
    admin.create_queue(name, max_delivery_count=4, user_metadata="old")
    wanted = dict.fromkeys(dict(admin.get_queue(name))) | {"name": name, "max_delivery_count": 7}
    admin.update_queue(QueueProperties(**wanted))
    got = admin.get_queue(name)
    assert (got.max_delivery_count, got.user_metadata) == (7, None)
