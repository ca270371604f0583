"""The tables of a database with lanes, and how they are created.

Owns the DDL, its version and the names of the tables. Every change of the schema is a further step
in `MIGRATIONS`, which must never be edited after its release. Knows nothing about the content of a
row. Called when a lane is opened.
"""

from typing import Any, Final, LiteralString

import psycopg

from partibus.domain.errors import StoreUnavailable

SCHEMA: Final = "partibus"

# Any constant will do; it must be the same in every release.
MIGRATION_LOCK: Final = 0x70617274

MIGRATIONS: Final[tuple[LiteralString, ...]] = (
    """
    CREATE TABLE partibus.lane (
        lane integer PRIMARY KEY,
        log_id bytea NOT NULL,
        epoch bigint NOT NULL,
        tail bigint NOT NULL,
        checkpoint bigint NOT NULL,
        owner text NOT NULL
    ) WITH (fillfactor = 50);
    CREATE TABLE partibus.segment (
        lane integer NOT NULL,
        base bigint NOT NULL,
        PRIMARY KEY (lane, base)
    );
    CREATE TABLE partibus.state (
        lane integer NOT NULL,
        fragment bigint NOT NULL,
        data bytea NOT NULL,
        PRIMARY KEY (lane, fragment)
    );
    CREATE TABLE partibus.page (
        lane integer NOT NULL,
        number bigint NOT NULL,
        data bytea NOT NULL,
        PRIMARY KEY (lane, number)
    );
    ALTER TABLE partibus.state ALTER COLUMN data SET STORAGE EXTERNAL;
    ALTER TABLE partibus.page ALTER COLUMN data SET STORAGE EXTERNAL;
    """,
    # Compaction: a segment of a later revision has the remains of [base, kept_until).
    """
    ALTER TABLE partibus.segment ADD COLUMN generation integer NOT NULL DEFAULT 0;
    ALTER TABLE partibus.segment ADD COLUMN kept_until bigint;
    CREATE TABLE partibus.garbage (
        lane integer NOT NULL,
        table_name text NOT NULL,
        PRIMARY KEY (lane, table_name)
    );
    """,
)
"""The steps from an empty database to the schema of this release; step N leads to version N."""


def migrate(connection: "psycopg.Connection[Any]") -> None:
    """Migrate the schema to the version of this release; two servers may try at the same time."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
        connection.execute("CREATE SCHEMA IF NOT EXISTS partibus")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS partibus.schema_version (version integer NOT NULL)"
        )
        row = connection.execute("SELECT max(version) FROM partibus.schema_version").fetchone()
        version = 0 if row is None or row[0] is None else int(row[0])
        if version > len(MIGRATIONS):
            raise StoreUnavailable(
                f"The database has schema version {version}; this release knows version "
                f"{len(MIGRATIONS)} and earlier. Run the newer release."
            )
        for number, step in enumerate(MIGRATIONS[version:], version + 1):
            connection.execute(step)
            connection.execute("INSERT INTO partibus.schema_version VALUES (%s)", (number,))


def segment_table(lane: int, base: int, revision: int = 0) -> str:
    """The table with the entries of a lane from the position `base` on.

    Their remains after compaction are a later revision, under another name.
    """
    name = f"entry_{lane}_{base:016x}"
    return f"{name}_{revision}" if revision else name
