"""The tables of the control plane in a database, and how they come into being.

Owns the DDL and its version. Every change of the schema is a further step in `MIGRATIONS`, which is
never edited after its release. Knows nothing about what a row means. Called by whoever opens the
control plane first; several nodes may try at the same time.
"""

from typing import Any, Final, LiteralString

import psycopg

from partibus.domain.errors import ConfigError

# Any constant will do; it must be the same in every release.
CLUSTER_MIGRATION_LOCK: Final = 0x70636C75
MIGRATION_MS: Final = 60_000
"""How long a step may take, and how long other nodes wait for it."""

MIGRATIONS: Final[tuple[LiteralString, ...]] = (
    """
    CREATE TABLE partibus_cluster.node (
        number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        host text NOT NULL,
        port integer NOT NULL,
        version text NOT NULL,
        draining boolean NOT NULL DEFAULT false,
        joined timestamptz NOT NULL DEFAULT clock_timestamp(),
        heartbeat timestamptz NOT NULL DEFAULT clock_timestamp()
    ) WITH (fillfactor = 50);
    CREATE TABLE partibus_cluster.lane (
        number integer PRIMARY KEY,
        database integer NOT NULL,
        owner integer REFERENCES partibus_cluster.node ON DELETE SET NULL,
        since timestamptz
    ) WITH (fillfactor = 50);
    CREATE FUNCTION partibus_cluster.is_alive(heartbeat timestamptz, lease_ms integer)
        RETURNS boolean LANGUAGE sql VOLATILE AS
        'SELECT abs(extract(epoch FROM clock_timestamp() - heartbeat)) * 1000 < lease_ms';
    """,
)
"""The steps from an empty database to the schema of this release; step N leads to version N."""


def migrate(connection: "psycopg.Connection[Any]") -> None:
    """Bring the schema to the version of this release."""
    with connection.transaction():
        connection.execute(f"SET LOCAL statement_timeout = {MIGRATION_MS}")
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (CLUSTER_MIGRATION_LOCK,))
        version = _version(connection)
        if version > len(MIGRATIONS):
            raise ConfigError(
                f"The cluster's database has schema version {version}; this release knows version "
                f"{len(MIGRATIONS)} and earlier. Run the newer release on this node."
            )
        for number, step in enumerate(MIGRATIONS[version:], version + 1):
            connection.execute(step)
            connection.execute("INSERT INTO partibus_cluster.schema_version VALUES (%s)", (number,))


def _version(connection: "psycopg.Connection[Any]") -> int:
    """The version that is there; a later start needs no right to make a schema."""
    there = connection.execute("SELECT to_regclass('partibus_cluster.schema_version')").fetchone()
    if there is None or there[0] is None:
        connection.execute("CREATE SCHEMA IF NOT EXISTS partibus_cluster")
        connection.execute(
            "CREATE TABLE partibus_cluster.schema_version (version integer NOT NULL)"
        )
    found = connection.execute("SELECT max(version) FROM partibus_cluster.schema_version")
    row = found.fetchone()
    return 0 if row is None or row[0] is None else int(row[0])
