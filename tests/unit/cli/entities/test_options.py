"""Flags of properties: made from the table, all of them different."""

import pytest
import typer

from partibus.cli.entities.namespace_file import spec_fields
from partibus.cli.entities.options import (
    FLAGS,
    field_parameters,
    flag_of,
    given_fields,
    iso_duration,
)
from partibus.control.declared import fields as definitions
from partibus.domain.entity import QueueSpec, SubscriptionSpec, TopicSpec
from partibus.domain.entity_properties import PROPERTIES, Kind

KINDS: list[Kind] = ["queue", "topic", "subscription"]


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("30s", "PT30S"),
        ("1h30m", "PT1H30M"),
        ("2d", "P2D"),
        ("pt5s", "PT5S"),
        ("unlimited", "P10675199DT2H48M5.4775807S"),
    ],
)
def test_durations_as_people_write_them(text: str, iso: str) -> None:
    assert iso_duration(text) == iso


@pytest.mark.parametrize("text", ["soon", "PX", "5", ""])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        iso_duration(text)


@pytest.mark.parametrize("kind", KINDS)
def test_flags_are_different_and_fixed_ones_are_for_creation(kind: Kind) -> None:
    flags = [flag_of(field) for field in PROPERTIES[kind]]
    assert len(set(flags)) == len(flags)
    for_update = {p.name for p in field_parameters(kind, for_update=True)}
    for_create = {p.name for p in field_parameters(kind, for_update=False)}
    assert for_create - for_update == {f.key for f in PROPERTIES[kind] if f.is_fixed}


def test_short_flags_stand_for_properties_that_exist() -> None:
    assert set(FLAGS) <= {field.key for kind in KINDS for field in PROPERTIES[kind]}


def test_the_table_has_what_a_file_can_say() -> None:
    """Only the number of partitions has no word in the management API."""
    for kind, told in (
        ("queue", definitions.QUEUE_FIELDS),
        ("topic", definitions.TOPIC_FIELDS),
        ("subscription", definitions.SUBSCRIPTION_FIELDS),
    ):
        keys = {field.key for field in PROPERTIES[kind]}  # type: ignore[index]
        assert set(told) - {"partition_count"} == keys


def test_a_spec_by_the_names_of_the_table() -> None:
    for spec in (QueueSpec(), TopicSpec(), SubscriptionSpec()):
        told = spec_fields(spec)
        assert told["status"] == "Active"
        assert told["auto_delete_on_idle"] == "P10675199DT2H48M5.4775807S"
    assert spec_fields(QueueSpec())["lock_duration"] == "PT1M"


def test_only_what_was_given_counts() -> None:
    assert given_fields("queue", {"lock_duration": None, "max_delivery_count": 3, "x": 1}) == {
        "max_delivery_count": 3
    }
