"""The current counts of an entity, as the workers report them.

Owns the form of the counts (CNT-1) and the protocol by which this package requests them. It counts
nothing itself. Implemented by the server's administration.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from partibus.control.catalog.record import EntityRecord


@dataclass(slots=True, frozen=True, kw_only=True)
class EntityCounts:
    """The counts of an entity, summed over its fragments (CNT-3, CNT-4, SEED-61)."""

    active: int = 0  # ready and locked
    dead_letter: int = 0
    scheduled: int = 0
    deferred: int = 0
    transfer: int = 0
    transfer_dead_letter: int = 0
    size_bytes: int = 0
    is_whole: bool = True  # False: a fragment did not answer or cannot be used (SEED-62)

    @property
    def total(self) -> int:
        """Every message that the entity keeps."""
        return (
            self.active
            + self.dead_letter
            + self.scheduled
            + self.deferred
            + self.transfer
            + self.transfer_dead_letter
        )


EMPTY: Final = EntityCounts()


class CountsSource(Protocol):
    """Asks all workers."""

    async def entity_counts(self, records: Sequence[EntityRecord]) -> Mapping[int, EntityCounts]:
        """The counts of each entity by its id."""
        ...
