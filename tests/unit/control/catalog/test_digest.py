"""Damage in the catalog's file: what is read is what was written, or it is refused."""

import random
import sqlite3
from pathlib import Path

import pytest

from partibus.control.access.policies import AccessPolicy
from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.digest import teach
from partibus.domain.entity import QueueSpec, SubscriptionSpec, TopicSpec
from partibus.domain.errors import BusError, ConfigError, StoreCorrupt
from partibus.domain.rights import ALL_RIGHTS

PAGE_BYTES = 4096
FLIPS_PER_PAGE = 24


def filled(file: Path) -> Catalog:
    """A catalog with something in every table."""
    catalog = Catalog(file, stores=2)
    for number in range(30):
        catalog.create(f"queue-{number}", QueueSpec(lock_duration_ms=5_000 + number))
    catalog.create("news", TopicSpec())
    catalog.create("news/subscriptions/all", SubscriptionSpec())
    catalog.put_policy("", AccessPolicy("root", "a" * 44, "b" * 44, ALL_RIGHTS))
    catalog.put_policy("news", AccessPolicy("reader", "c" * 44, "d" * 44, ALL_RIGHTS))
    catalog.put_idle_times({3: 60_000, 5: 120_000})
    for number in (7, 29):
        catalog.delete(f"queue-{number}")
    with catalog.identify() as identity:
        identity.add_store(0)
        identity.add_store(1)
    return catalog


def content(catalog: Catalog) -> list[object]:
    identity = catalog.identity
    return [
        catalog.entities(),
        {scope: catalog.policies(scope) for scope in ("", "news")},
        catalog.idle_times(),
        (identity.namespace(), identity.generation(), identity.fragment_sequence()),
        (identity.stores(), identity.tombstones()),
    ]


def test_no_single_bit_changes_what_is_read(tmp_path: Path) -> None:
    file = tmp_path / "catalog.db"
    catalog = filled(file)
    expected = content(catalog)
    catalog.close()
    sound = file.read_bytes()
    rng = random.Random(14)
    offsets = list(range(100))  # the header of the file, every byte
    for page in range(0, len(sound), PAGE_BYTES):
        offsets += [page + rng.randrange(PAGE_BYTES) for _ in range(FLIPS_PER_PAGE)]
        offsets += range(page, page + 12)  # the header of the page
    refused = 0
    for offset in offsets:
        damaged = bytearray(sound)
        damaged[offset] ^= 1 << rng.randrange(8)
        file.write_bytes(damaged)
        try:
            again = Catalog(file, stores=2)
        except (ConfigError, StoreCorrupt) as error:
            assert "catalog.db" in error.text
            refused += 1
            continue
        finally:
            for beside in ("-wal", "-shm"):
                Path(f"{file}{beside}").unlink(missing_ok=True)
        assert content(again) == expected, f"a flip at {offset} went unnoticed"
        again.close()
    assert refused > len(offsets) // 10


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM fragment WHERE fragment_id = 3",
        "UPDATE fragment SET store = 1 - store WHERE fragment_id = 3",
        "UPDATE policy SET rights = 'Listen' WHERE name = 'root'",
        "DELETE FROM tombstone",
        "UPDATE sqlite_sequence SET seq = 31 WHERE name = 'fragment'",
        "DELETE FROM digest WHERE name = 'idle'",
    ],
)
def test_rows_that_were_changed_behind_the_catalog_are_found(
    tmp_path: Path, statement: str
) -> None:
    file = tmp_path / "catalog.db"
    filled(file).close()
    connection = sqlite3.connect(file)
    teach(connection)
    texts = dict(connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'"))
    with connection:
        for name in texts:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(statement)
        for text in texts.values():
            connection.execute(text)
    connection.close()
    with pytest.raises(StoreCorrupt, match=r"catalog\.db is damaged.*partibus store repair"):
        Catalog(file, stores=2)


def test_another_program_cannot_write_unnoticed(tmp_path: Path) -> None:
    file = tmp_path / "catalog.db"
    filled(file).close()
    connection = sqlite3.connect(file)
    with pytest.raises(sqlite3.OperationalError, match="fold_row"):
        connection.execute("DELETE FROM entity WHERE entity_id = 1")
    connection.close()


def test_the_log_of_the_database_is_empty_after_each_change(tmp_path: Path) -> None:
    """SQLite takes a damaged log for a shorter one: nothing acknowledged may lie in it alone."""
    file = tmp_path / "catalog.db"
    catalog = filled(file)
    assert Path(f"{file}-wal").stat().st_size == 0
    catalog.create("late", QueueSpec())
    copy = tmp_path / "copy.db"
    copy.write_bytes(file.read_bytes())
    assert Catalog(copy, stores=2).lookup("late") is not None
    catalog.close()


def test_a_change_that_fails_leaves_the_digests_right(tmp_path: Path) -> None:
    file = tmp_path / "catalog.db"
    catalog = filled(file)
    with pytest.raises(BusError), catalog.batch():
        catalog.create("more", QueueSpec())
        catalog.create("more", QueueSpec())
    expected = content(catalog)
    catalog.close()
    assert content(Catalog(file, stores=2)) == expected
