"""Properties of an entity from names and plain values, outside of a file.

Owns the conversion of the keys of the definitions file to a new spec, or to a changed one. The keys
and their valid values are in the table of `fields`; ranges are checked by the catalog. Called by
the server's JSON interface.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from partibus.control.declared.fields import QUEUE_FIELDS, SUBSCRIPTION_FIELDS, TOPIC_FIELDS, Field
from partibus.domain.entity import SPECS, EntityKind, EntitySpec, kind_of
from partibus.domain.errors import ArgumentError
from partibus.domain.refusal import PropertyRefused

FIELDS: Final[Mapping[EntityKind, Mapping[str, Field]]] = {
    EntityKind.QUEUE: QUEUE_FIELDS,
    EntityKind.TOPIC: TOPIC_FIELDS,
    EntityKind.SUBSCRIPTION: SUBSCRIPTION_FIELDS,
}


def new_spec(kind_name: str, properties: Mapping[str, object]) -> EntitySpec:
    """The spec of a new entity; what is not named has the vendor's default."""
    try:
        kind = EntityKind(kind_name)
    except ValueError:
        kinds = ", ".join(kind.value for kind in EntityKind)
        raise ArgumentError(f"'{kind_name}' is not a kind of entity; allowed: {kinds}.") from None
    return SPECS[kind](**_read(kind, properties))  # type: ignore[arg-type]  # as below


def changed_spec(spec: EntitySpec, properties: Mapping[str, object]) -> EntitySpec:
    """The spec with new values for what is named."""
    changes = _read(kind_of(spec), properties)
    return replace(spec, **changes)  # type: ignore[arg-type]  # each was read by its field


def _read(kind: EntityKind, properties: Mapping[str, object]) -> dict[str, object]:
    fields = FIELDS[kind]
    values: dict[str, object] = {}
    for name, value in properties.items():
        field = fields.get(name)
        if field is None:
            raise PropertyRefused(name, f"a {kind.value} has no such property.")
        try:
            values[field.target] = field.read(value)
        except ArgumentError as error:
            raise PropertyRefused(name, error.text) from error
    return values
