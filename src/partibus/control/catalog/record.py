"""What the catalog returns: entity records, placements, and entries of the change feed.

Owns only the data types. Records are frozen: a change makes a new one, so that code that has one
may go on reading it. Made by the catalog, read by the gateway and the server.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from partibus.domain.entity import EntityKind, EntitySpec, QueueSpec


class Placement(NamedTuple):
    """Where a fragment is: its id, which is never reused, and the number of its store."""

    fragment_id: int
    store: int


@dataclass(slots=True, frozen=True, kw_only=True)
class EntityRecord:
    """An entity as the catalog knows it; the position in `fragments` is the fragment's index."""

    entity_id: int
    path: str
    kind: EntityKind
    spec: EntitySpec
    fragments: tuple[Placement, ...]
    created_ms: int
    updated_ms: int

    @property
    def queue(self) -> QueueSpec:
        """The spec of a record that is known to be a queue."""
        assert isinstance(self.spec, QueueSpec)
        return self.spec


class ChangeKind(Enum):
    """What happened to an entity, or to the policies of a scope."""

    CREATED = "created"
    UPDATED = "updated"
    DELETED = "deleted"
    POLICIES = "policies"


@dataclass(slots=True, frozen=True)
class Change:
    """One entry of the change feed. `path` is "" for the namespace's policies."""

    kind: ChangeKind
    path: str
    before: EntityRecord | None = None
    after: EntityRecord | None = None


ChangeListener = Callable[[Change], None]
