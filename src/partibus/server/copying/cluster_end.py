"""The databases of a cluster as one end of a copy.

Owns the checks that no node is alive and that a target is empty, and the mark in the catalog that
keeps nodes from joining an incomplete copy. Lanes keep their numbers and are distributed over the
databases in turn, as nodes expect. Lanes of an interrupted copy have its id, and are removed by the
next one. Called by `ends`.
"""

import asyncio
import contextlib
import secrets
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from partibus.control.catalog.copying import COPYING, mark_copying, refuse_half_copied
from partibus.control.catalog.rows import CatalogRows
from partibus.control.postgres import lane_seen
from partibus.control.postgres.catalog import PostgresCatalog
from partibus.control.postgres.lease_rows import LeaseRows, add_lanes, look
from partibus.control.postgres.session import (
    AsyncConnection,
    ControlSession,
    connect,
    database_name,
)
from partibus.domain.errors import ConfigError, StoreUnavailable
from partibus.server.config import ServeSettings
from partibus.server.copying.ends import GivenPlace
from partibus.server.copying.lane_reading import LaneReading, read_lane
from partibus.server.nodes.lane_notes import refuse_older
from partibus.server.nodes.settings import settle
from partibus.store.compaction.importing import LaneImport
from partibus.store.postgres.importing import DatabaseImport, erase_lane, lane_end, lanes_there

LANES_MAX: Final = 1024
T = TypeVar("T")


class CopiedCluster:
    """The databases of a cluster that are read."""

    is_encrypted = False

    def __init__(self, given: GivenPlace, stack: contextlib.ExitStack) -> None:
        _refuse_key(given)
        self.catalog_place = Path(f"the {database_name(given.place)}")
        if not _has_cluster(given.place):
            raise ConfigError(f"{self.catalog_place} holds no cluster: there is nothing to copy.")
        rows = PostgresCatalog(given.place)
        stack.callback(rows.close)
        self.rows: CatalogRows = rows
        refuse_half_copied(rows, database_name(given.place))
        found = _refuse_alive(given.place)
        databases = 1 + max((row.database for row in found.lanes), default=0)
        if len(given.stores or (given.place,)) != databases:
            raise ConfigError(
                f"The cluster has its lanes in {databases} database(s), and "
                f"{len(given.stores or (given.place,))} were given: name all of them with "
                "--from-store (or --to-store), in the order in which nodes are given them with "
                "--store."
            )
        self.settings = _settings(given, len(found.lanes), stack)
        self._seen = _run(given.place, lane_seen.noted)

    def lane(self, number: int) -> LaneReading:
        """A lane that is not empty, after a check that nothing of it is missing."""
        end = lane_end(self.settings.store_databases[number], number)
        found = None if end is None else lane_seen.LaneEnd(*end)
        refuse_older(self.settings.store_name(number), number, found, self._seen.get(number))
        return read_lane(self.settings, number, "a copy")


class FilledCluster:
    """The databases of a new cluster that are filled."""

    def __init__(self, given: GivenPlace, lanes: int, stack: contextlib.ExitStack) -> None:
        _refuse_key(given)
        self._url = given.place
        self.catalog_place = Path(f"the {database_name(given.place)}")
        databases = len(given.stores or (given.place,))
        if databases > lanes:
            raise ConfigError(
                f"The source has {lanes} lane(s), too few for {databases} databases: "
                "give at most as many databases as there are lanes."
            )
        self.settings = _settings(given, lanes, stack)
        self.rows: CatalogRows = PostgresCatalog(given.place)
        stack.callback(self.rows.close)
        found = _refuse_alive(given.place)
        self._clear(self.rows.setting(COPYING))
        self._refuse_used(found)
        self._id = secrets.token_hex(8)
        mark_copying(self.rows, self._id)
        _run(given.place, partial(add_lanes, lanes=lanes, databases=databases))

    def _clear(self, interrupted: str | None) -> None:
        """Remove what an interrupted copy has left behind."""
        if not interrupted:
            return
        for dsn in dict.fromkeys(self.settings.store_places):
            for number, owner in lanes_there(dsn, range(LANES_MAX)).items():
                if owner == _owner(interrupted):
                    erase_lane(dsn, number)
        with self.rows.transaction():
            for table in ("tombstone", "store", "idle", "policy", "fragment", "entity"):
                self.rows.replace_table(table, ())
        _run(self._url, _drop_lanes)

    def _refuse_used(self, found: LeaseRows) -> None:
        used = self.rows.read_table("entity") or self.rows.identity.stores()
        if not self.rows.setting(COPYING) and (used or found.lanes):
            raise _not_empty(str(self.catalog_place))
        for dsn in dict.fromkeys(self.settings.store_places):
            if lanes_there(dsn, range(LANES_MAX)):
                raise _not_empty(f"the {database_name(dsn)}")

    def fill(self, number: int) -> LaneImport:
        """An empty lane."""
        dsn = self.settings.store_databases[number]
        return DatabaseImport(dsn, number, _owner(self._id))

    def lane(self, number: int) -> LaneReading:
        """A lane that was filled."""
        return read_lane(self.settings, number, _owner(self._id))

    def complete(self) -> None:
        """Allow nodes to join from now on."""
        mark_copying(self.rows, None)


def _owner(copy_id: str) -> str:
    return f"copy {copy_id}"


def _not_empty(place: str) -> ConfigError:
    return ConfigError(
        f"{place[0].upper()}{place[1:]} is not empty: copy into a new database, or drop the "
        "schemas partibus and partibus_cluster if they are not needed; nothing was copied."
    )


def _refuse_key(given: GivenPlace) -> None:
    if given.key_file is not None or given.key_command is not None:
        raise ConfigError(
            "A cluster has no encryption key: have the databases encrypt their own disks."
        )


def _has_cluster(url: str) -> bool:
    with contextlib.closing(connect(url, "copy")) as connection:
        found = connection.execute("SELECT to_regclass('partibus_cluster.lane')").fetchone()
    return found is not None and found[0] is not None


def _refuse_alive(url: str) -> LeaseRows:
    """The node and lane tables; refused while a node is alive."""
    found = _run(url, look)
    alive = [row for row in found.nodes if row.alive]
    if alive:
        where = ", ".join(f"{row.address.host}:{row.address.port}" for row in alive)
        raise StoreUnavailable(
            f"The {database_name(url)} has live nodes ({where}): stop them, wait for three seconds "
            "if one was killed, and then copy. Nothing was changed."
        )
    return found


def _settings(given: GivenPlace, lanes: int, stack: contextlib.ExitStack) -> ServeSettings:
    # There is no separate file for a cluster.
    data = stack.enter_context(tempfile.TemporaryDirectory(prefix="partibus-copy-"))
    return settle(
        ServeSettings(data=Path(data), cluster=given.place, lanes=lanes, store_places=given.stores)
    )


def _run(url: str, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
    async def run() -> T:
        session = ControlSession(url, "copy")
        try:
            return await session.run(work)
        finally:
            await session.close()

    return asyncio.run(run())


async def _drop_lanes(connection: AsyncConnection) -> None:
    await connection.execute("DELETE FROM partibus_cluster.lane")
    await connection.execute("DELETE FROM partibus_cluster.lane_seen")
