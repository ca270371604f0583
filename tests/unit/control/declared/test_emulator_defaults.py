"""The entities of an emulator without a file: the vendor's names, properties and rules."""

import pytest

from partibus.control.catalog.catalog import Catalog
from partibus.control.declared.apply import apply_definitions
from partibus.control.declared.emulator_defaults import default_definitions
from partibus.domain.entity import (
    CorrelationFilter,
    FilterType,
    QueueSpec,
    RuleSpec,
    SubscriptionSpec,
    TopicSpec,
)
from partibus.domain.limits import EMULATOR, SELFHOST, Profile

TIMES = {"default_message_time_to_live_ms": 3_600_000}
WINDOW = {"duplicate_detection_history_time_window_ms": 20_000}
RECEIVED = {"lock_duration_ms": 60_000, "max_delivery_count": 3}


@pytest.mark.rule("EMU-11")
@pytest.mark.parametrize("profile", [SELFHOST, EMULATOR], ids=lambda p: p.name)
def test_they_are_the_vendors(profile: Profile) -> None:
    definitions = default_definitions()
    specs = {entity.path: entity.spec for entity in definitions.entities}
    rules = {
        path.rpartition("/")[2]: spec.rules
        for path, spec in specs.items()
        if isinstance(spec, SubscriptionSpec)
    }
    assert specs["queue.1"] == QueueSpec(**TIMES, **WINDOW, **RECEIVED)
    assert specs["topic.1"] == TopicSpec(**TIMES, **WINDOW)
    for name, own in rules.items():
        path = f"topic.1/Subscriptions/{name}"
        assert specs[path] == SubscriptionSpec(**TIMES, **RECEIVED, rules=own)
    assert len(specs) == 6
    assert rules["subscription.1"] == (
        _correlation("app-prop-filter-1", CorrelationFilter(content_type="application/json")),
    )
    assert rules["subscription.2"] == (
        _correlation("user-prop-filter-1", CorrelationFilter(properties={"prop1": "value1"})),
    )
    assert [rule.filter_type for rule in rules["subscription.3"]] == [FilterType.TRUE]
    assert rules["subscription.4"] == (
        RuleSpec(
            name="sql-filter-1",
            filter_type=FilterType.SQL,
            sql_expression="sys.MessageId = '123456' AND userProp1 = 'value1'",
            action="SET sys.To = 'Entity'",
        ),
    )
    catalog = Catalog(profile=profile)
    apply_definitions(catalog, definitions)
    assert len(catalog.entities()) == 6


def _correlation(name: str, conditions: CorrelationFilter) -> RuleSpec:
    return RuleSpec(
        name=name,
        filter_type=FilterType.CORRELATION,
        sql_expression="",
        correlation=conditions,
    )
