"""The table of properties fits the specs and the order of the management API."""

from typing import get_args

import pytest

from partibus.atom.descriptions import ORDER
from partibus.domain.entity import SPECS, EntityKind
from partibus.domain.entity_properties import FIXED_FIELDS, PROPERTIES, Kind

KINDS: tuple[Kind, ...] = get_args(Kind)
NOT_SET_BY_NAME = {"fragments", "rules"}
"""The number of fragments has a key in files only; rules have their own requests."""


@pytest.mark.parametrize("kind", KINDS)
def test_each_field_of_a_spec_is_a_property(kind: Kind) -> None:
    fields = {known.field for known in PROPERTIES[kind]}
    assert fields == set(SPECS[EntityKind(kind)].__dataclass_fields__) - NOT_SET_BY_NAME


@pytest.mark.rule("PRP-1")
@pytest.mark.parametrize("kind", KINDS)
def test_each_property_has_a_place_among_the_elements(kind: Kind) -> None:
    order = ORDER[EntityKind(kind)]
    assert {known.element for known in PROPERTIES[kind]} <= set(order)
    assert len(set(order)) == len(order)


@pytest.mark.rule("PRP-2", "SEED-16")
def test_what_is_fixed_at_creation() -> None:
    assert set(FIXED_FIELDS) == {
        "requires_session",
        "requires_duplicate_detection",
        "enable_partitioning",
        "fragments",
    }
