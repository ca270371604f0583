"""The TOML file: what it declares, and how it complains."""

from pathlib import Path

import pytest

from partibus.control.declared.definitions import Definitions, load_definitions, parse_toml
from partibus.domain.duration import DURATION_MAX_MS
from partibus.domain.entity import (
    CorrelationFilter,
    EntityStatus,
    FilterType,
    QueueSpec,
    RuleSpec,
    SubscriptionSpec,
    TopicSpec,
)
from partibus.domain.errors import ConfigError
from partibus.domain.property_value import TimeValue
from partibus.domain.rights import ALL_RIGHTS, Rights

FILE = Path("bus.toml")


def read(text: str) -> Definitions:
    return parse_toml(FILE, text)


def complaint(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(text)
    return caught.value.text


def test_an_empty_file_declares_nothing() -> None:
    definitions = read("")
    assert (definitions.entities, definitions.policies, definitions.server) == ((), (), {})


def test_a_queue_with_every_property() -> None:
    (queue,) = read(
        """
        [[queue]]
        name = "orders"
        lock_duration = "PT30S"
        max_delivery_count = 5
        max_size_in_megabytes = 2048
        max_message_size_in_kilobytes = 512
        default_message_time_to_live = "P1D"
        dead_lettering_on_message_expiration = true
        requires_duplicate_detection = true
        duplicate_detection_history_time_window = "PT5M"
        requires_session = true
        enable_partitioning = true
        partition_count = 8
        auto_delete_on_idle = "P10675199DT2H48M5.4775807S"
        enable_batched_operations = false
        enable_express = false
        forward_to = ""
        forward_dead_lettered_messages_to = "dead"
        status = "SendDisabled"
        user_metadata = "note"
        """
    ).entities
    assert queue.path == "orders"
    assert queue.spec == QueueSpec(
        lock_duration_ms=30_000,
        max_delivery_count=5,
        max_size_in_megabytes=2048,
        max_message_size_in_kilobytes=512,
        default_message_time_to_live_ms=86_400_000,
        dead_lettering_on_message_expiration=True,
        requires_duplicate_detection=True,
        duplicate_detection_history_time_window_ms=300_000,
        requires_session=True,
        enable_partitioning=True,
        fragments=8,
        auto_delete_on_idle_ms=DURATION_MAX_MS,
        enable_batched_operations=False,
        forward_dead_lettered_messages_to="dead",
        status=EntityStatus.SEND_DISABLED,
        user_metadata="note",
    )


def test_a_topic_with_subscriptions_and_rules() -> None:
    topic, plain, ruled = read(
        """
        [[topic]]
        name = "events"
        enable_partitioning = true
        enable_filtering_messages_before_publishing = true

        [[topic.subscription]]
        name = "all"

        [[topic.subscription]]
        name = "some"
        max_delivery_count = 3
        [[topic.subscription.rule]]
        name = "big"
        sql_filter = "size > @least"
        parameters = { least = 10 }
        action = "SET big = @big"
        action_parameters = { big = true }
        [[topic.subscription.rule]]
        name = "red"
        [topic.subscription.rule.correlation_filter]
        label = "red"
        properties = { n = 1, s = "x", t = 2020-07-05T11:12:13, d = { duration = "PT1H" } }
        [[topic.subscription.rule]]
        name = "rest"
        """
    ).entities
    assert topic.spec == TopicSpec(
        enable_partitioning=True, enable_filtering_messages_before_publishing=True
    )
    assert plain.path == "events/Subscriptions/all"
    assert plain.spec == SubscriptionSpec()
    assert ruled.spec == SubscriptionSpec(
        max_delivery_count=3,
        rules=(
            RuleSpec(
                name="big",
                filter_type=FilterType.SQL,
                sql_expression="size > @least",
                parameters={"least": 10},
                action="SET big = @big",
                action_parameters={"big": True},
            ),
            RuleSpec(
                name="red",
                filter_type=FilterType.CORRELATION,
                sql_expression="",
                correlation=CorrelationFilter(
                    label="red",
                    properties={
                        "n": 1,
                        "s": "x",
                        "t": TimeValue("dateTime", "2020-07-05T11:12:13"),
                        "d": TimeValue("duration", "PT1H"),
                    },
                ),
            ),
            RuleSpec(name="rest"),
        ),
    )


def test_policies_of_namespace_queue_and_topic() -> None:
    definitions = read(
        """
        [[policy]]
        name = "Reader"
        rights = ["Listen"]
        key = "k1"
        [[queue]]
        name = "q"
        [[queue.policy]]
        name = "Writer"
        rights = ["send", "Listen"]
        key = "k2"
        secondary_key = "k3"
        [[topic]]
        name = "t"
        [[topic.policy]]
        name = "Owner"
        rights = ["Manage", "Send", "Listen"]
        key = "k4"
        """
    )
    found = [(p.scope, p.name, p.rights, p.key, p.secondary_key) for p in definitions.policies]
    assert found == [
        ("", "Reader", Rights.LISTEN, "k1", None),
        ("q", "Writer", Rights.SEND | Rights.LISTEN, "k2", "k3"),
        ("t", "Owner", ALL_RIGHTS, "k4", None),
    ]
    assert not definitions.declares_root_policy
    assert "k2" not in repr(definitions.policies)


def test_the_root_policy_may_be_declared() -> None:
    definitions = read(
        '[[policy]]\nname = "RootManageSharedAccessKey"\nkey = "SAS_KEY_VALUE"\n'
        'rights = ["Manage", "Send", "Listen"]\n'
    )
    assert definitions.declares_root_policy


def test_the_server_table_is_handed_on() -> None:
    assert read("[server]\nport = 0\n").server == {"port": 0}


QUEUES = '[[queue]]\nname = "a"\n\n[[queue]]\nname = "b"\n'
TOPIC = '[[topic]]\nname = "t"\n[[topic.subscription]]\nname = "s"\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            QUEUES + 'lock_duraton = "PT1M"\n',
            "bus.toml:6: queue[1].lock_duraton: unknown key; did you mean 'lock_duration'?",
        ),
        (
            QUEUES + "lock_duration = 30\n",
            "bus.toml:6: queue[1].lock_duration: expected a duration such as \"PT30S\", got '30'.",
        ),
        (
            QUEUES + '# two\nlock_duration = "30s"\n',
            "bus.toml:7: queue[1].lock_duration: '30s' is not an ISO 8601 duration; for example: "
            "PT30S, PT1M30S or P7D.",
        ),
        (
            QUEUES + 'requires_session = "yes"\n',
            "bus.toml:6: queue[1].requires_session: expected true or false, got 'yes'.",
        ),
        (
            QUEUES + "max_delivery_count = true\n",
            "bus.toml:6: queue[1].max_delivery_count: expected a whole number, got true.",
        ),
        (
            QUEUES + 'status = "Sleeping"\n',
            "bus.toml:6: queue[1].status: 'Sleeping' is not a status; allowed: Active, "
            "Disabled, SendDisabled and ReceiveDisabled.",
        ),
        (QUEUES + "[[queue]]\n", "bus.toml:6: queue[2]: the key 'name' is missing."),
        (
            QUEUES + "[[queue]]\nname = 7\n",
            "bus.toml:7: queue[2].name: expected a string, got '7'.",
        ),
        (
            QUEUES + '[[queue]]\nname = "A"\n',
            "bus.toml:7: queue[2].name: 'A' is already declared, in line 1.",
        ),
        (
            QUEUES + "enable_partitioning = true\npartition_count = 1\n",
            "bus.toml:7: queue[1].partition_count: 1 is not allowed with enable_partitioning; "
            "write 2 or more, or leave both out.",
        ),
        ("queue = 3\n", "bus.toml:1: queue: expected a list, got '3'."),
        ("queue = [1]\n", "bus.toml:1: queue[0]: expected a table, got '1'."),
        ("\nserver = 1\n", "bus.toml:2: server: expected a table, got '1'."),
        (
            "[[queues]]\n",
            "bus.toml:1: queues: unknown key; did you mean 'queue'?",
        ),
        (
            TOPIC + "requires_duplicate_detection = true\n",
            "bus.toml:5: topic[0].subscription[0].requires_duplicate_detection: unknown key; "
            "expected one of ",
        ),
        (
            TOPIC + '[[topic.subscription.rule]]\nname = "r"\nsql_filter = 1\n',
            "bus.toml:7: topic[0].subscription[0].rule[0].sql_filter: expected a string, got '1'.",
        ),
        (
            TOPIC
            + '[[topic.subscription.rule]]\nname = "r"\nsql_filter = "1=1"\n'
            + 'correlation_filter = {label = "x"}\n',
            "bus.toml:5: topic[0].subscription[0].rule[0]: a rule has sql_filter or "
            "correlation_filter, not both.",
        ),
        (
            TOPIC
            + '[[topic.subscription.rule]]\nname = "r"\n'
            + "[topic.subscription.rule.correlation_filter]\nsubject = 1\n",
            "bus.toml:8: topic[0].subscription[0].rule[0].correlation_filter.subject: unknown key; "
            "expected one of ",
        ),
        (
            '[[policy]]\nname = "p"\nkey = "k"\nrights = ["Read"]\n',
            "bus.toml:4: policy[0].rights: 'Read' is not a valid right; allowed: Manage, Send, "
            "Listen.",
        ),
        (
            '[[policy]]\nname = "p"\nkey = "k"\nrights = "Send"\n',
            'bus.toml:4: policy[0].rights: expected a list, for example ["Send", "Listen"].',
        ),
        (
            '[[policy]]\nname = "p"\nrights = ["Send"]\n',
            "bus.toml:1: policy[0]: the key 'key' is missing.",
        ),
    ],
)
def test_complaints_name_line_path_and_what_is_allowed(text: str, expected: str) -> None:
    assert complaint(text).startswith(expected)


def test_broken_toml_is_told_with_its_line() -> None:
    assert "line 2" in complaint('[[queue]]\nname = "a\n')


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_definitions(tmp_path / "absent.toml")
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_definitions(binary)


def test_the_format_is_told_by_name_or_content(tmp_path: Path) -> None:
    json_text = '// c\n{"UserConfig": {"Namespaces": [{"Name": "n", "Queues": [{"Name": "q"}]}]}}'
    for name, text in (
        ("a.toml", '[[queue]]\nname = "q"\n'),
        ("b.conf", '\ufeff[[queue]]\nname = "q"\n'),
        ("c.json", json_text),
        ("d.conf", json_text),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
        (entity,) = load_definitions(tmp_path / name).entities
        assert entity.path == "q"
