"""Copies a catalog from one database into another: from a single machine to a cluster, and back.

Owns what a copy is: every row with its id, the ids that were ever given, and the namespace's own
identity, so that the lanes of the one belong to the other as well. It is complete at its end, or
nothing is written. Must never copy the log of changes: followers of the copy read every entity
instead. A catalog that is marked as an incomplete copy is not served. Called by the offline verbs.
"""

from typing import Final

from partibus.control.catalog.rows import COLUMNS, CatalogRows
from partibus.domain.errors import ConfigError

COPYING: Final = "copying"
"""The setting of a cluster's catalog with the id of a copy that is not complete."""


def mark_copying(target: CatalogRows, copy_id: str | None) -> None:
    """Record that a copy is in progress, or with None that it is complete."""
    with target.transaction():
        settings = [row for row in target.read_table("setting") if row[0] != COPYING]
        if copy_id is not None:
            settings.append((COPYING, copy_id))
        target.replace_table("setting", settings)


def refuse_half_copied(rows: CatalogRows, place: str) -> None:
    """Refuse to serve an incomplete copy."""
    if rows.setting(COPYING):
        raise ConfigError(
            f"The {place} holds a copy that is not complete: run the same `partibus store copy` "
            "again, which starts over, or drop its schemas. Nothing was changed."
        )


def copy_catalog(source: CatalogRows, target: CatalogRows) -> int:
    """Copy `source` into `target`, which must have no entities or stores; returns the number of
    entities. A target that is marked as an incomplete copy stays marked."""
    with source.snapshot():
        content = {table: source.read_table(table) for table in COLUMNS}
        entity_last = source.identity.entity_sequence()
        fragment_last = source.identity.fragment_sequence()
    with target.transaction():
        if target.read_table("entity") or target.identity.stores():
            raise ConfigError(
                "The catalog to copy into has entities or stores already; nothing was copied. "
                "Give an empty one."
            )
        copying = target.setting(COPYING)
        for table in reversed(COLUMNS):
            target.replace_table(table, ())
        for table, rows in content.items():
            target.replace_table(table, rows)
        if copying:
            target.put_setting(COPYING, copying)
        target.identity.raise_entity_sequence(entity_last)
        target.identity.raise_fragment_sequence(fragment_last)
        _note_all(target)
        target.identity.advance()
    return len(content["entity"])


def _note_all(target: CatalogRows) -> None:
    for entity_id, *_ in target.read_table("entity"):
        target.changes.note_entity(entity_id)
    for scope in dict.fromkeys(row[0] for row in target.read_table("policy")):
        target.changes.note_policies(scope)
