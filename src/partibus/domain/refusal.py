"""Why a property of an entity was refused.

Owns the two errors that admission, names and the catalog raise. They have the property in the
spelling of the definitions file, so that the reader of a file can name the line.
"""

from typing import ClassVar

from partibus.domain.errors import ArgumentError


class PropertyRefused(ArgumentError):
    """A property has a value that is not allowed."""

    sub_code: ClassVar[int] = 40000

    def __init__(self, property_name: str, reason: str) -> None:
        self.property_name = property_name
        self.reason = reason
        super().__init__(f"{property_name}: {reason}")


class TargetNotFound(PropertyRefused):
    """A property names an entity that does not exist (FWD-2)."""

    sub_code: ClassVar[int] = 40400


class PropertyImmutable(PropertyRefused):
    """A property that is fixed at creation was asked to change (PRP-2)."""
