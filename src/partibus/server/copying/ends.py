"""The two ends of a copy: a data directory, or the databases of a cluster.

Owns how each is locked during a copy, when a source is unfit, when a target counts as empty, and
the mark without which an incomplete copy would look complete: a file in a directory, a setting in
the catalog of a cluster. The mark is written first and removed last. The remains of an interrupted
copy are removed by the next one, since the mark proves that nothing else was there. Called by
`copy`.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from partibus.control.catalog.rows import CatalogRows
from partibus.domain.errors import ConfigError
from partibus.server.config import ServeSettings
from partibus.server.copying.lane_reading import LaneReading
from partibus.store.compaction.importing import LaneImport
from partibus.store.postgres.address import is_database


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenPlace:
    """A place as given by the user."""

    place: str
    stores: tuple[str, ...] = ()
    key_file: Path | None = None
    key_command: str | None = None

    @property
    def is_cluster(self) -> bool:
        """Whether it is the address of a cluster's database."""
        return is_database(self.place)


class End(Protocol):
    """A place that can be read."""

    rows: CatalogRows
    settings: ServeSettings

    @property
    def catalog_place(self) -> Path:
        """The name of its catalog in errors."""
        ...

    def lane(self, number: int) -> LaneReading:
        """A lane that is not empty."""
        ...


class Source(End, Protocol):
    """A place that is copied."""

    @property
    def is_encrypted(self) -> bool: ...


class Target(End, Protocol):
    """A place that is filled; it can be served only after `complete` has returned."""

    def fill(self, number: int) -> LaneImport:
        """An empty lane."""
        ...

    def complete(self) -> None:
        """Everything was written and compared."""
        ...


def open_source(place: GivenPlace, stack: contextlib.ExitStack) -> Source:
    """Lock a place, to read it."""
    if place.is_cluster:
        with _driver():
            from partibus.server.copying.cluster_end import CopiedCluster
        return CopiedCluster(place, stack)
    from partibus.server.copying.directory_end import CopiedDirectory

    return CopiedDirectory(place, stack)


def open_target(place: GivenPlace, lanes: int, stack: contextlib.ExitStack) -> Target:
    """Lock an empty place, to fill it."""
    if place.is_cluster:
        with _driver():
            from partibus.server.copying.cluster_end import FilledCluster
        return FilledCluster(place, lanes, stack)
    from partibus.server.copying.directory_end import FilledDirectory

    return FilledDirectory(place, lanes, stack)


@contextlib.contextmanager
def _driver() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigError(
            "The driver of the database is missing: pip install 'partibus[postgres]'."
        ) from error
