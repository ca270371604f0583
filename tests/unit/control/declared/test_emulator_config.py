"""The vendor emulator's file: accepted as it is, and strict about what it does not know."""

import json
from pathlib import Path

import pytest

from partibus.control.catalog.catalog import Catalog
from partibus.control.declared.apply import apply_definitions
from partibus.control.declared.definitions import Definitions
from partibus.control.declared.emulator_config import parse_emulator_config
from partibus.domain.entity import (
    CorrelationFilter,
    FilterType,
    QueueSpec,
    RuleSpec,
    SubscriptionSpec,
    TopicSpec,
)
from partibus.domain.errors import ConfigError
from partibus.domain.limits import EMULATOR, SELFHOST, STANDARD, Profile

FILE = Path("Config.json")

FULL = """\
{
  "UserConfig": {
    "Namespaces": [ // exactly one
      {
        "Name": "sbemulatorns",
        "Queues": [
          {
            "Name": "queue.1",
            "Properties": {
              "DeadLetteringOnMessageExpiration": true,
              "DefaultMessageTimeToLive": "PT10M",
              "DuplicateDetectionHistoryTimeWindow": "PT30S",
              "ForwardDeadLetteredMessagesTo": "",
              "ForwardTo": "",
              "LockDuration": "PT2M",
              "MaxDeliveryCount": 4,
              "RequiresDuplicateDetection": true,
              "RequiresSession": true
            }
          },
          { "Name": "http://not-a-comment".replace }
        ],
        "Topics": [
          {
            "Name": "topic.1",
            "Properties": { "RequiresDuplicateDetection": true },
            "Subscriptions": [
              {
                "Name": "by.correlation",
                "Properties": { "LockDuration": "PT1M", "ForwardTo": "queue.2" },
                "Rules": [
                  {
                    "Name": "correlated",
                    "Properties": {
                      "FilterType": "Correlation",
                      "CorrelationFilter": {
                        "ContentType": "application/json",
                        /* "Label": "not now", */
                        "Properties": { "prop1": "value//1" }
                      }
                    }
                  }
                ]
              },
              { "Name": "all" },
              {
                "Name": "by.sql",
                "Rules": [
                  {
                    "Name": "expression",
                    "Properties": {
                      "FilterType": "Sql",
                      "SqlFilter": { "SqlExpression": "sys.Label = 'x'" },
                      "Action": { "SqlExpression": "SET sys.To = 'y'" }
                    }
                  }
                ]
              }
            ]
          }
        ]
      }
    ],
    "Logging": { "Type": "File,Console" }
  }
}
""".replace('"http://not-a-comment".replace', '"queue.2"')


def read(text: str) -> Definitions:
    return parse_emulator_config(FILE, text)


@pytest.mark.rule("EMU-9", "EMU-10")
@pytest.mark.parametrize("profile", [SELFHOST, STANDARD, EMULATOR], ids=lambda p: p.name)
def test_a_file_with_everything_is_read_and_applied(profile: Profile) -> None:
    definitions = read(FULL)
    specs = {entity.path: entity.spec for entity in definitions.entities}
    assert specs["queue.1"] == QueueSpec(
        dead_lettering_on_message_expiration=True,
        default_message_time_to_live_ms=600_000,
        duplicate_detection_history_time_window_ms=30_000,
        lock_duration_ms=120_000,
        max_delivery_count=4,
        requires_duplicate_detection=True,
        requires_session=True,
    )
    sql = specs["topic.1/Subscriptions/by.sql"]
    assert isinstance(sql, SubscriptionSpec)
    assert sql.rules == (
        RuleSpec(
            name="expression",
            filter_type=FilterType.SQL,
            sql_expression="sys.Label = 'x'",
            action="SET sys.To = 'y'",
        ),
    )
    correlated = specs["topic.1/Subscriptions/by.correlation"]
    assert isinstance(correlated, SubscriptionSpec)
    assert correlated.forward_to == "queue.2"
    assert correlated.rules[0].correlation == CorrelationFilter(
        content_type="application/json", properties={"prop1": "value//1"}
    )
    everything = specs["topic.1/Subscriptions/all"]
    assert isinstance(everything, SubscriptionSpec)
    assert [rule.filter_type for rule in everything.rules] == [FilterType.TRUE]
    catalog = Catalog(profile=profile)
    apply_definitions(catalog, definitions)
    assert len(catalog.entities()) == 6


@pytest.mark.rule("EMU-11")
def test_the_defaults_are_the_emulators() -> None:
    definitions = read(FULL)
    specs = {entity.path: entity.spec for entity in definitions.entities}
    assert specs["queue.2"] == QueueSpec(
        default_message_time_to_live_ms=3_600_000,
        duplicate_detection_history_time_window_ms=20_000,
        max_delivery_count=3,
    )
    assert specs["topic.1"] == TopicSpec(
        default_message_time_to_live_ms=3_600_000,
        duplicate_detection_history_time_window_ms=20_000,
        requires_duplicate_detection=True,
    )
    everything = specs["topic.1/Subscriptions/all"]
    assert isinstance(everything, SubscriptionSpec)
    assert everything.max_delivery_count == 3


def document(**queue: object) -> str:
    namespace = {"Name": "n", "Queues": [{"Name": "a"}, queue], "Topics": []}
    return json.dumps({"UserConfig": {"Namespaces": [namespace]}}, indent=1)


def with_rule(rule: object) -> str:
    topic = {"Name": "t", "Subscriptions": [{"Name": "s", "Rules": [rule]}]}
    namespace = {"Name": "n", "Topics": [topic]}
    return json.dumps({"UserConfig": {"Namespaces": [namespace]}}, indent=1)


RULES = "UserConfig.Namespaces[0].Topics[0].Subscriptions[0].Rules[0]"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            document(Name="q", Properties={"LockDuraton": "PT1M"}),
            "Config.json:13: UserConfig.Namespaces[0].Queues[1].Properties.LockDuraton: unknown "
            "key; "
            "did you mean 'LockDuration'?",
        ),
        (
            document(Name="q", Properties={"LockDuration": "1 minute"}),
            "Config.json:13: UserConfig.Namespaces[0].Queues[1].Properties.LockDuration: "
            "'1 minute' is not an ISO 8601 duration",
        ),
        (
            document(Name="q", Properties={"MaxDeliveryCount": "3"}),
            "Config.json:13: UserConfig.Namespaces[0].Queues[1].Properties.MaxDeliveryCount: "
            "expected a whole number, got '3'.",
        ),
        (
            document(Properties={}),
            "Config.json:10: UserConfig.Namespaces[0].Queues[1]: the key 'Name' is missing.",
        ),
        (
            document(Name="A"),
            "Config.json:11: UserConfig.Namespaces[0].Queues[1].Name: 'A' is already declared, "
            "in line 7.",
        ),
        (
            document(Name="q", EnablePartitioning=True),
            "Config.json:12: UserConfig.Namespaces[0].Queues[1].EnablePartitioning: unknown key; "
            "expected one of Name, Properties.",
        ),
        ("{}", "Config.json: the key 'UserConfig' is missing."),
        ("[]", "Config.json: expected a table, got a list."),
        ('{"Config": {}}', "Config.json:1: Config: unknown key; "),
        (
            '{"UserConfig": {"Namespaces": []}}',
            "Config.json:1: UserConfig.Namespaces: exactly one namespace is allowed, not 0.",
        ),
        (
            '{"UserConfig": {\n"Namespaces": [],\n"Logging": {"Type": "Syslog"}}}',
            "Config.json:3: UserConfig.Logging.Type: expected one of File; Console; ",
        ),
        (
            '{"a": 1, // x\n "b" 2}',
            "Config.json:2: this is not valid JSON: Expecting ':' delimiter",
        ),
        ('{"a": 1,\n "a": 2}', "Config.json: the key 'a' appears twice in one object."),
        ("[" * 100_000, "Config.json is nested too deeply."),
        (
            with_rule({"Name": "r", "Properties": {"FilterType": "Correlation"}}),
            f"Config.json:15: {RULES}.Properties: the key 'CorrelationFilter' is missing.",
        ),
        (
            with_rule({"Name": "r"}),
            f"Config.json:13: {RULES}: the key 'Properties' is missing.",
        ),
    ],
)
def test_complaints_name_line_and_path(text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert caught.value.text.startswith(expected)


@pytest.mark.rule("EMU-11")
def test_an_unknown_filter_type_is_an_error() -> None:
    rule = {"Name": "r", "Properties": {"FilterType": "sql", "SqlFilter": {"SqlExpression": "1=1"}}}
    with pytest.raises(ConfigError, match=r"FilterType: 'sql' is not allowed; allowed: Corr"):
        read(with_rule(rule))


@pytest.mark.rule("EMU-11")
def test_ranges_are_those_of_the_profile() -> None:
    short = document(
        Name="q",
        Properties={
            "RequiresDuplicateDetection": True,
            "DuplicateDetectionHistoryTimeWindow": "PT5S",
        },
    )
    apply_definitions(Catalog(profile=EMULATOR), read(short))
    with pytest.raises(ConfigError) as caught:
        apply_definitions(Catalog(profile=STANDARD), read(short))
    assert caught.value.text.startswith(
        "Config.json:14: UserConfig.Namespaces[0].Queues[1].Properties."
        "DuplicateDetectionHistoryTimeWindow: PT5S is not allowed; allowed: PT20S to P7D."
    )


@pytest.mark.rule("FLT-8")
def test_a_rule_that_cannot_be_used_is_told_at_its_line() -> None:
    definitions = read(FULL.replace("sys.Label = 'x'", "sys.Lable = 'x'"))
    with pytest.raises(ConfigError) as caught:
        apply_definitions(Catalog(profile=EMULATOR), definitions)
    line = FULL[: FULL.index("SqlFilter")].count("\n") + 1
    assert caught.value.text.startswith(f"Config.json:{line}: UserConfig.Namespaces[0].Topics[0].")
    assert "Properties.SqlFilter: There is no system property Lable" in caught.value.text


@pytest.mark.rule("EMU-9")
def test_what_tools_write_beside_the_schema_is_accepted() -> None:
    """.NET Aspire names the namespace itself and copies words of the cloud's templates."""
    conditions = {"Label": "red", "RequiresPreprocessing": False}
    correlated = {"FilterType": "Correlation", "CorrelationFilter": conditions}
    text = with_rule({"Name": "r", "Properties": correlated}).replace('"n"', '"my-resource"')
    subscription = read(text).entities[-1].spec
    assert isinstance(subscription, SubscriptionSpec)
    assert subscription.rules[0].correlation == CorrelationFilter(label="red")
    beside = {"RequiresPreprocessing": True, "CompatibilityLevel": 20}
    sql = {
        "FilterType": "Sql",
        "SqlFilter": {"SqlExpression": "1=1", **beside},
        "Action": {"SqlExpression": "SET a = 1", **beside},
    }
    subscription = read(with_rule({"Name": "r", "Properties": sql})).entities[-1].spec
    assert isinstance(subscription, SubscriptionSpec)
    assert (subscription.rules[0].sql_expression, subscription.rules[0].action) == (
        "1=1",
        "SET a = 1",
    )
