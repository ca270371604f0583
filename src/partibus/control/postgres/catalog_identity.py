"""The namespace of a cluster's catalog, its lanes, and the fragments being deleted.

Owns the same as `control.catalog_identity`, which says what each means, in PostgreSQL. A lane
records the namespace that it belongs to, so one of another cluster is recognised. A new generation
wakes the followers when its transaction ends. Called through the catalog.
"""

import secrets
from collections.abc import Iterable

from partibus.control.catalog_identity import GENERATION, NAMESPACE, NAMESPACE_BYTES
from partibus.control.postgres.catalog_link import CatalogLink


class PostgresCatalogIdentity:
    """The identity of the catalog of a cluster; writes in a transaction."""

    __slots__ = ("_link",)

    def __init__(self, link: CatalogLink) -> None:
        self._link = link

    # --- reading ------------------------------------------------------------------------

    def namespace(self) -> bytes | None:
        """The id of the namespace."""
        value = self._setting(NAMESPACE)
        return None if value is None else bytes.fromhex(value)

    def generation(self) -> int:
        """How many changes the namespace has had."""
        return int(self._setting(GENERATION) or 0)

    def entity_sequence(self) -> int:
        """The highest id that an entity ever had."""
        found = self._link.run(
            "SELECT last_value, is_called FROM partibus_cluster.entity_entity_id_seq"
        )
        last, is_called = found.fetchone() or (0, False)
        return int(last) if is_called else 0

    def fragment_sequence(self) -> int:
        """The highest id that a fragment ever had."""
        found = self._link.run(
            "SELECT last_value, is_called FROM partibus_cluster.fragment_fragment_id_seq"
        )
        last, is_called = found.fetchone() or (0, False)
        return int(last) if is_called else 0

    def stores(self) -> list[int]:
        """The numbers of the lanes in use: each of them must exist."""
        rows = self._link.run("SELECT number FROM partibus_cluster.store ORDER BY number")
        return [number for (number,) in rows]

    def tombstones(self) -> dict[int, int]:
        """The lane of each fragment that is to be dropped."""
        rows = self._link.run("SELECT fragment_id, store FROM partibus_cluster.tombstone")
        return dict(rows.fetchall())

    # --- writing ------------------------------------------------------------------------

    def found(self) -> None:
        """Give the namespace its id."""
        self._put(NAMESPACE, secrets.token_bytes(NAMESPACE_BYTES).hex())

    def advance(self, least: int = 0) -> int:
        """Raise the generation, to at least `least`; returns it and wakes the followers."""
        generation = max(self.generation() + 1, least)
        self._put(GENERATION, str(generation))
        self._link.run("SELECT pg_notify('partibus_catalog', '')")
        return generation

    def raise_entity_sequence(self, least: int) -> None:
        """Never use an id up to `least` for an entity again."""
        if self.entity_sequence() < least:
            self._link.run("SELECT setval('partibus_cluster.entity_entity_id_seq', %s)", (least,))

    def raise_fragment_sequence(self, least: int) -> None:
        """Never use an id up to `least` for a fragment again."""
        if self.fragment_sequence() < least:
            self._link.run(
                "SELECT setval('partibus_cluster.fragment_fragment_id_seq', %s)", (least,)
            )

    def add_store(self, number: int) -> None:
        """A lane is in use and has recorded its number."""
        self._link.run(
            "INSERT INTO partibus_cluster.store (number) VALUES (%s) ON CONFLICT DO NOTHING",
            (number,),
        )

    def remove_store(self, number: int) -> None:
        """A lane no longer has to exist."""
        self._link.run("DELETE FROM partibus_cluster.store WHERE number = %s", (number,))

    def bury(self, entity_id: int) -> None:
        """The fragments of an entity are to be dropped."""
        self._link.run(
            "INSERT INTO partibus_cluster.tombstone (fragment_id, store)"
            " SELECT fragment_id, store FROM partibus_cluster.fragment WHERE entity_id = %s"
            " ON CONFLICT (fragment_id) DO UPDATE SET store = excluded.store",
            (entity_id,),
        )

    def unbury(self, fragment_ids: Iterable[int]) -> None:
        """Lanes have confirmed that these are dropped."""
        self._link.run(
            "DELETE FROM partibus_cluster.tombstone WHERE fragment_id = ANY(%s)",
            (list(fragment_ids),),
        )

    def _put(self, name: str, value: str) -> None:
        self._link.run(
            "INSERT INTO partibus_cluster.setting (name, value) VALUES (%s, %s)"
            " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (name, value),
        )

    def _setting(self, name: str) -> str | None:
        found = self._link.run(
            "SELECT value FROM partibus_cluster.setting WHERE name = %s", (name,)
        )
        row = found.fetchone()
        return None if row is None else str(row[0])
