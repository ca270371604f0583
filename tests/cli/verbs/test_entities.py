"""`queue`, `topic`, `subscription` and `rule`: entities over the management API."""

import itertools

import pytest
from azure.servicebus.management import ServiceBusAdministrationClient

from cli.command import Partibus
from cli.verbs.conftest import MakeQueue
from support.sas import with_key
from support.server import ServerProcess

_numbers = itertools.count()


@pytest.fixture
def topic(partibus: Partibus) -> str:
    name = f"topic-{next(_numbers)}"
    partibus("topic", "create", name)
    return name


def test_a_queue_is_made_as_asked(partibus: Partibus, bus: ServerProcess) -> None:
    flags = ("--lock-duration", "30s", "--max-delivery-count", "3", "--ttl", "PT1H", "--sessions")
    more = ("--duplicate-detection", "--duplicate-window", "5m", "--metadata", "a & <b>")
    last = ("--dead-letter-expired", "--max-size-mb", "2048", "--auto-delete-on-idle", "never")
    made = partibus("queue", "create", "full", *flags, *more, *last, "--json").json
    expected = {
        "name": "full",
        "lock_duration": "PT30S",
        "max_delivery_count": 3,
        "default_message_time_to_live": "PT1H",
        "requires_session": True,
        "requires_duplicate_detection": True,
        "duplicate_detection_history_time_window": "PT5M",
        "user_metadata": "a & <b>",
        "dead_lettering_on_message_expiration": True,
        "max_size_in_megabytes": 2048,
        "auto_delete_on_idle": "P10675199DT2H48M5.4775807S",
        "status": "Active",
        "enable_partitioning": False,
    }
    assert expected.items() <= made.items()
    assert partibus("queue", "show", "full", "--json").json.items() >= expected.items()
    secure = f"Endpoint=sb://localhost:{bus.ready.amqp_port};SharedAccessKeyName="
    admin = ServiceBusAdministrationClient.from_connection_string(
        f"{secure}RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE",
        connection_verify=str(bus.ready.ca),
    )
    with admin:
        assert admin.get_queue("full").max_delivery_count == 3


def test_a_queue_that_exists_already(partibus: Partibus, queue: str) -> None:
    refused = partibus.try_("queue", "create", queue)
    assert refused.code == 8
    assert (
        refused.err == f"partibus: An entity named '{queue}' already exists; choose another name.\n"
    )
    assert (
        partibus("queue", "create", queue, "--if-missing").out == f"queue {queue} already exists\n"
    )


def test_people_see_a_table(partibus: Partibus, queue: str) -> None:
    partibus("send", queue, "x", "--count", "2")
    text = partibus("queue", "show", queue).out
    assert text.startswith(f"{queue}: queue, Active\n")
    rows = dict(line.split("  ", 1) for line in text.splitlines()[2:])
    assert rows["active messages"].strip() == "2"
    assert rows["auto_delete_on_idle"].strip() == "unlimited"
    assert rows["requires_session"].strip() == "no"
    listed = partibus("queue", "list").out
    (line,) = [line for line in listed.splitlines() if line.startswith(f"{queue} ")]
    assert line.split()[:5] == [queue, "Active", "2", "0", "0"]


def test_a_list_has_all_pages(
    partibus: Partibus, bus: ServerProcess, make_queue: MakeQueue
) -> None:
    names = {make_queue() for _ in range(120)}
    listed = partibus("queue", "list", "--json").json["queues"]
    assert names <= {entity["name"] for entity in listed}
    assert len(listed) == len({entity["name"] for entity in listed})


def test_an_update_changes_what_it_names(partibus: Partibus, make_queue: MakeQueue) -> None:
    queue = make_queue("--metadata", "note", "--forward-to", make_queue())
    done = partibus("queue", "update", queue, "--max-delivery-count", "7", "--lock-duration", "5s")
    assert done.out == f"queue {queue} updated: lock_duration, max_delivery_count\n"
    after = partibus("queue", "show", queue, "--json").json
    assert (after["max_delivery_count"], after["lock_duration"]) == (7, "PT5S")
    assert after["user_metadata"] == "note"
    assert after["forward_to"]
    partibus("queue", "update", queue, "--metadata", "", "--forward-to", "")
    after = partibus("queue", "show", queue, "--json").json
    assert not after.get("user_metadata")
    assert not after.get("forward_to")


def test_deleting_asks_first(partibus: Partibus, queue: str) -> None:
    assert partibus.process("queue", "delete", queue).code == 2
    assert partibus("queue", "delete", queue, "--yes").out == f"queue {queue} deleted\n"
    assert partibus.try_("queue", "delete", queue, "--yes").code == 4
    assert partibus.try_("queue", "show", queue).code == 4
    assert partibus.try_("queue", "update", queue, "--max-delivery-count", "7").code == 4


def test_what_is_refused(partibus: Partibus, bus: ServerProcess, queue: str) -> None:
    for flags in (("--lock-duration", "soon"), ("--lock-duration", "PTX"), ("--status", "Odd"), ()):
        assert partibus.try_("queue", "update", queue, *flags).code == 2, flags
    assert partibus.try_("queue", "create", "x", "--max-delivery-count", "0").code == 2
    assert partibus.try_("queue", "create", "bad name?").code == 2
    reader = with_key(bus.connection_string, "Reader", "reader-key")
    assert partibus.try_("queue", "list", "--connection-string", reader).code == 6
    away = with_key("Endpoint=sb://127.0.0.1:1", "a", "b")
    assert partibus.try_("queue", "list", "--connection-string", away).code == 5


def test_topics_and_subscriptions(partibus: Partibus, topic: str) -> None:
    partibus("subscription", "create", topic, "all", "--max-delivery-count", "2")
    made = partibus("subscription", "create", topic, "some", "--sql-filter", "n > 5", "--json").json
    assert made["name"] == "some"
    listed = partibus("subscription", "list", topic, "--json").json["subscriptions"]
    assert {s["name"]: s["max_delivery_count"] for s in listed} == {"all": 2, "some": 10}
    assert partibus("topic", "show", topic, "--json").json["subscription_count"] == 2
    assert topic in partibus("topic", "list").out
    partibus("subscription", "update", topic, "all", "--dead-letter-expired")
    shown = partibus("subscription", "show", topic, "all", "--json").json
    assert shown["dead_lettering_on_message_expiration"] is True
    partibus("topic", "update", topic, "--ttl", "1d")
    assert partibus("topic", "show", topic, "--json").json["default_message_time_to_live"] == "P1D"
    partibus("subscription", "delete", topic, "all", "-y")
    assert partibus.try_("subscription", "show", topic, "all").code == 4
    partibus("topic", "delete", topic, "-y")
    assert partibus.try_("subscription", "list", topic).code == 4


def test_rules(partibus: Partibus, topic: str) -> None:
    partibus("subscription", "create", topic, "s")
    rule = ("rule", "list", topic, "s")
    assert partibus(*rule, "--json").json["rules"] == [{"name": "$Default"}]
    assert "every message" in partibus(*rule).out
    partibus(
        "rule", "create", topic, "s", "sql", "--sql-filter", "a = 'x'", "--action", "SET b = 1"
    )
    conditions = ("--correlation", "label=red", "-p", "n:int=5", "-p", "ok:bool=true", "-p", "t=5")
    made = partibus("rule", "create", topic, "s", "cor", *conditions, "--json").json
    assert made["correlation_filter"] == {
        "label": "red",
        "properties": {"n": 5, "ok": True, "t": "5"},
    }
    assert partibus("rule", "show", topic, "s", "sql", "--json").json == {
        "name": "sql",
        "sql_filter": "a = 'x'",
        "action": "SET b = 1",
    }
    assert partibus("rule", "show", topic, "s", "sql").out == "sql: a = 'x'\nthen SET b = 1\n"
    assert 'label = "red" and n = 5' in partibus("rule", "show", topic, "s", "cor").out
    partibus("rule", "update", topic, "s", "sql", "--sql-filter", "a = 'y'")
    changed = partibus("rule", "show", topic, "s", "sql", "--json").json
    assert changed == {"name": "sql", "sql_filter": "a = 'y'"}
    times = ("-p", "at:time=2020-07-05T11:12:13Z", "-p", "for:duration=PT1H")
    timed = partibus("rule", "update", topic, "s", "cor", *times, "--json").json
    assert timed["correlation_filter"]["properties"] == {
        "at": {"time": "2020-07-05T11:12:13Z"},
        "for": {"duration": "PT1H"},
    }
    assert 'for = duration "PT1H"' in partibus("rule", "show", topic, "s", "cor").out
    partibus("rule", "delete", topic, "s", "$Default", "--yes")
    assert [r["name"] for r in partibus(*rule, "--json").json["rules"]] == ["cor", "sql"]


def test_rules_that_are_refused(partibus: Partibus, topic: str) -> None:
    partibus("subscription", "create", topic, "s")
    create = ("rule", "create", topic, "s", "r")
    assert partibus.try_(*create, "--sql-filter", "1=1", "--correlation", "label=x").code == 2
    assert partibus.try_(*create, "--correlation", "lable=x").code == 2
    assert partibus.try_(*create, "-p", "x").code == 2
    partibus(*create)
    assert partibus.try_(*create).code == 8
    assert partibus.try_("rule", "show", topic, "s", "none").code == 4
    assert partibus.try_("rule", "list", topic, "none").code == 4
    assert partibus.try_("rule", "delete", topic, "s", "none", "-y").code == 4
    assert partibus.process("rule", "delete", topic, "s", "r").code == 2
