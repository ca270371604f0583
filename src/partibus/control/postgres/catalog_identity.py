"""The namespace of a cluster's catalog, its lanes, and the fragments being deleted.

Owns what differs from `control.catalog.identity` in PostgreSQL. A lane records the namespace that
it belongs to, so one of another cluster is recognised. A new generation wakes the followers when
its transaction ends. Called through the catalog.
"""

from collections.abc import Iterable
from typing import Final, LiteralString

from partibus.control.catalog.identity import IdentityRows
from partibus.control.postgres.catalog_link import CatalogLink

ENTITY_IDS: Final = "partibus_cluster.entity_entity_id_seq"
FRAGMENT_IDS: Final = "partibus_cluster.fragment_fragment_id_seq"


class PostgresCatalogIdentity(IdentityRows):
    """The identity of the catalog of a cluster; writes in a transaction."""

    __slots__ = ("_link",)

    def __init__(self, link: CatalogLink) -> None:
        super().__init__(link.run_shared)
        self._link = link

    def entity_sequence(self) -> int:
        return self._sequence(ENTITY_IDS)

    def fragment_sequence(self) -> int:
        return self._sequence(FRAGMENT_IDS)

    def _sequence(self, name: LiteralString) -> int:
        found = self._link.run(f"SELECT last_value, is_called FROM {name}")  # noqa: S608
        last, is_called = found.fetchone() or (0, False)
        return int(last) if is_called else 0

    def advance(self, least: int = 0) -> int:
        generation = super().advance(least)
        self._link.run("SELECT pg_notify('partibus_catalog', '')")
        return generation

    def raise_entity_sequence(self, least: int) -> None:
        if self.entity_sequence() < least:
            self._link.run("SELECT setval(%s, %s)", (ENTITY_IDS, least))

    def raise_fragment_sequence(self, least: int) -> None:
        if self.fragment_sequence() < least:
            self._link.run("SELECT setval(%s, %s)", (FRAGMENT_IDS, least))

    def unbury(self, fragment_ids: Iterable[int]) -> None:
        self._link.run(
            "DELETE FROM partibus_cluster.tombstone WHERE fragment_id = ANY(%s)",
            (list(fragment_ids),),
        )
