"""An entity's properties as written in a definitions file.

Owns the conversion of a spec to the keys and values of the definitions file, so that what the
administration shows can be pasted into one. The table of keys is in `fields`, which reads them.
Called by the server's administration and by `partibus namespace`.
"""

from enum import Enum

from partibus.control.declared.properties import FIELDS
from partibus.domain.duration import format_duration
from partibus.domain.entity import EntitySpec, kind_of


def describe(spec: EntitySpec) -> dict[str, object]:
    """The properties by their key in a definitions file; None for those not set."""
    fields = FIELDS[kind_of(spec)]
    return {
        key: _written(field.target, getattr(spec, field.target)) for key, field in fields.items()
    }


def _written(target: str, value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if target.endswith("_ms") and isinstance(value, int):
        return format_duration(value)
    return value
