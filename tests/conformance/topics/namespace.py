"""The topics that the tests run against: many of a few kinds, each used once.

Owns the kinds, the TOML text that declares them and the handing out of fresh names. Every kind
is there whole and in four partitions, because a subscriber must not see the difference.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

STORES: Final = 2
SHAPES: Final = ("whole", "parted")
_PARTED: Final = {"enable_partitioning": "true", "partition_count": "4"}

Properties = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A sort of topic: how many there are of each shape, and its subscriptions with their rules."""

    count: int
    properties: Properties = field(default_factory=dict)
    subscriptions: Mapping[str, tuple[Properties, Mapping[str, Properties]]]


def subscription(
    rules: Mapping[str, Properties] | None = None, **properties: str
) -> tuple[Properties, Mapping[str, Properties]]:
    """A subscription's properties and rules, as TOML values."""
    return properties, rules or {}


def sql(expression: str, action: str = "") -> Properties:
    """A rule with a SQL filter."""
    rule = {"sql_filter": f'"{expression}"'}
    return rule | {"action": f'"{action}"'} if action else rule


KINDS: Final = {
    # Two subscriptions with the default rule.
    "plain": Kind(count=40, subscriptions={"first": subscription(), "second": subscription()}),
    "ruled": Kind(
        count=10,
        subscriptions={
            "all": subscription(),
            "red": subscription({"red": {"correlation_filter": '{ label = "red" }'}}),
            "large": subscription({"large": sql("size > 10")}),
            "red-or-large": subscription(
                {"red": {"correlation_filter": '{ label = "red" }'}, "large": sql("size > 10")}
            ),
            "none": subscription({"none": sql("1=0")}),
        },
    ),
    "acting": Kind(
        count=10,
        subscriptions={
            "all": subscription(),
            "changed": subscription(
                {
                    "any": sql("1=1"),
                    "red": sql("sys.Label = 'red'"),
                    "mark": sql("1=1", "SET mark = 'seen'; REMOVE secret"),
                    "rename": sql(
                        "size > 10", "SET sys.Label = 'big'; SET size = size * 2; SET sys.To = 'x'"
                    ),
                    "never": sql("size > 1000", "SET mark = 'never'"),
                }
            ),
            "later": subscription(
                {"later": sql("1=1", "SET sys.ScheduledEnqueueTimeUtc = sys.EnqueuedTimeUtc")}
            ),
        },
    ),
    "failing": Kind(
        count=4,
        subscriptions={
            "mourns": subscription({"odd": sql("name * 2 > 1")}),
            "shrugs": subscription(
                {"odd": sql("name * 2 > 1")}, dead_lettering_on_filter_evaluation_exceptions="false"
            ),
            "all": subscription(),
        },
    ),
    "sessions": Kind(
        count=10,
        subscriptions={
            "one": subscription(requires_session="true"),
            "two": subscription(requires_session="true"),
            "plain": subscription(),
        },
    ),
    "regrouped": Kind(
        count=4,
        subscriptions={
            "by-colour": subscription(
                {"colour": sql("1=1", "SET sys.SessionId = colour")}, requires_session="true"
            ),
        },
    ),
    "fleeting": Kind(
        count=4,
        properties={"default_message_time_to_live": '"PT2S"'},
        subscriptions={
            "follows": subscription(dead_lettering_on_message_expiration="true"),
            "longer": subscription(
                default_message_time_to_live='"PT1H"', dead_lettering_on_message_expiration="true"
            ),
        },
    ),
    "patient": Kind(
        count=4,
        properties={"default_message_time_to_live": '"PT1H"'},
        subscriptions={
            "shorter": subscription(
                default_message_time_to_live='"PT1S"', dead_lettering_on_message_expiration="true"
            ),
            "follows": subscription(),
        },
    ),
    "unique": Kind(
        count=4,
        properties={"requires_duplicate_detection": "true"},
        subscriptions={
            "all": subscription(),
            "same-id": subscription({"same": sql("1=1", "SET sys.MessageId = 'same'")}),
        },
    ),
    "strict": Kind(
        count=4,
        properties={"enable_filtering_messages_before_publishing": "true"},
        subscriptions={"red": subscription({"red": {"correlation_filter": '{ label = "red" }'}})},
    ),
    "closed": Kind(
        count=4, properties={"status": '"Disabled"'}, subscriptions={"open": subscription()}
    ),
    "half-open": Kind(
        count=4,
        subscriptions={"closed": subscription(status='"Disabled"'), "open": subscription()},
    ),
    "tiny": Kind(
        count=4,
        properties={"max_size_in_megabytes": "1"},
        subscriptions={"first": subscription(), "second": subscription()},
    ),
}


class Topics:
    """Hands out topic names of a kind and shape, each once."""

    def __init__(self) -> None:
        self._next = {(kind, shape): itertools.count() for kind in KINDS for shape in SHAPES}

    def fresh(self, kind: str, shape: str) -> str:
        number = next(self._next[kind, shape])
        assert number < KINDS[kind].count, f"declare more topics of the kind {kind!r}"
        return f"{kind}-{shape}-{number}"


def write_kinds(path: Path) -> Path:
    """Write the TOML file that declares every topic of every kind."""
    blocks = []
    for name, kind in KINDS.items():
        for shape in SHAPES:
            properties = {**kind.properties, **(_PARTED if shape == "parted" else {})}
            for number in range(kind.count):
                blocks += declare(f"{name}-{shape}-{number}", properties, kind.subscriptions)
    path.write_text("\n".join(blocks), encoding="utf-8")
    return path


def declare(
    topic: str,
    properties: Properties,
    subscriptions: Mapping[str, tuple[Properties, Mapping[str, Properties]]],
) -> list[str]:
    """The lines that declare one topic with all it has."""
    lines = _block("topic", topic, properties)
    for name, (own, rules) in subscriptions.items():
        lines += _block("topic.subscription", name, own)
        for rule, conditions in rules.items():
            lines += _block("topic.subscription.rule", rule, conditions)
    return lines


def _block(kind: str, name: str, properties: Properties) -> list[str]:
    return [f"[[{kind}]]", f'name = "{name}"', *[f"{k} = {v}" for k, v in properties.items()], ""]
