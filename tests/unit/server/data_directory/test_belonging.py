"""A lane of another cluster is refused, by the namespace that the cluster's catalog has."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from partibus.control.catalog.catalog import Catalog
from partibus.domain.entity import QueueSpec
from partibus.domain.errors import StoreCorrupt
from partibus.fragment.upkeep.store_marks import StoreMarks
from partibus.server.config import ServeSettings
from partibus.server.data_directory.belonging import Belonging
from support.postgres import PostgresServer, temporary_database

pytestmark = pytest.mark.group("postgres")


class OpenLane:
    """What a lane says of itself."""

    log_end = None

    def __init__(self, namespace: bytes, generation: int, fragments: tuple[int, ...] = ()) -> None:
        self.marks = StoreMarks()
        self.marks.identify(namespace, 0)
        self.marks.follow(generation)
        self._fragments = fragments
        for fragment in fragments:
            self.marks.saw(fragment)

    def strangers(self) -> list[int]:
        return list(self._fragments)

    def stranger_bodies(self, fragment_id: int) -> int:
        return 1


@pytest.fixture
def clusters(postgres: PostgresServer) -> Iterator[tuple[Catalog, Catalog]]:
    """The catalogs of two clusters."""
    from partibus.control.postgres.catalog import PostgresCatalog

    with temporary_database(postgres.dsn) as here, temporary_database(postgres.dsn) as there:
        one, two = (Catalog(rows=PostgresCatalog(place)) for place in (here, there))
        with closing(one), closing(two):
            yield one, two


def check(catalog: Catalog, lane: OpenLane, data: Path) -> None:
    settings = ServeSettings(data=data)
    Belonging(Path("the cluster's catalog"), settings, catalog).check_store(0, lane)


def namespace(catalog: Catalog) -> bytes:
    found = catalog.identity.namespace()
    assert found is not None
    return found


def test_a_lane_of_the_own_cluster_is_taken(
    clusters: tuple[Catalog, Catalog], tmp_path: Path
) -> None:
    one, _ = clusters
    (fragment,) = one.create("a", QueueSpec()).fragments
    check(one, OpenLane(namespace(one), one.generation, (fragment.fragment_id,)), tmp_path)


def test_a_lane_of_another_cluster_is_refused(
    clusters: tuple[Catalog, Catalog], tmp_path: Path
) -> None:
    one, two = clusters
    with pytest.raises(StoreCorrupt, match=f"belongs to namespace {namespace(two).hex()}"):
        check(one, OpenLane(namespace(two), 0), tmp_path)


def test_a_lane_that_has_followed_further_than_the_catalog_is_refused(
    clusters: tuple[Catalog, Catalog], tmp_path: Path
) -> None:
    """The database of the catalog was restored from an older backup."""
    one, _ = clusters
    with pytest.raises(StoreCorrupt, match="is older than"):
        check(one, OpenLane(namespace(one), one.generation + 1), tmp_path)


def test_a_lane_with_fragments_that_the_catalog_never_made_is_refused(
    clusters: tuple[Catalog, Catalog], tmp_path: Path
) -> None:
    one, _ = clusters
    with pytest.raises(StoreCorrupt, match="the store has 77"):
        check(one, OpenLane(namespace(one), 0, (77,)), tmp_path)
