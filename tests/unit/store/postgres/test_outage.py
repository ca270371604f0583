"""An outage of a database: the lane is down, is probed, and returns with all it acknowledged."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from partibus.domain.errors import BusError, OperationTimeout, StoreUnavailable
from partibus.store.interface import StoreState
from partibus.store.postgres.schema import MIGRATIONS
from partibus.store.postgres.store import PostgresStore
from partibus.store.record import Record
from support.postgres import PostgresServer

pytestmark = pytest.mark.group("postgres")


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server that the test may spoil."""
    made = PostgresServer()
    made.start()
    yield made
    made.remove()


class Ledger:
    """Appends to a store and remembers what was acknowledged."""

    def __init__(self, dsn: str, pump: Any) -> None:
        self._dsn = dsn
        self._pump = pump
        self.acknowledged: list[bytes] = []
        self.store = self._open()

    def _open(self) -> PostgresStore:
        store = PostgresStore(self._dsn, 0, notify=self._pump.notify, probe_interval_s=0.001)
        self.found = [record.meta for record in store.open().records]
        return store

    def append(self, meta: bytes, size: int = 100) -> BusError | None:
        answer: BusError | None = self._pump.append(
            self.store, [Record(1, 1, meta, os.urandom(size))]
        )
        if answer is None:
            self.acknowledged.append(meta)
        return answer

    def wait_until_up(self) -> None:
        self._pump.until(lambda: self.store.state is StoreState.UP)

    def check(self) -> None:
        """Everything that was acknowledged is there, in order, and nothing else."""
        self.store.close()
        self.store = self._open()
        assert self.found == self.acknowledged
        self.store.close()


def test_a_database_that_may_only_be_read(server: PostgresServer, pump: Any) -> None:
    ledger = Ledger(server.dsn, pump)
    assert ledger.append(b"before") is None
    server.execute("ALTER SYSTEM SET default_transaction_read_only = on")
    server.execute("SELECT pg_reload_conf()")
    while ledger.append(b"while the setting spreads") is None:
        pass
    assert ledger.store.state is StoreState.DOWN
    assert isinstance(ledger.append(b"refused"), StoreUnavailable)
    server.execute("ALTER SYSTEM RESET default_transaction_read_only")
    server.execute("SELECT pg_reload_conf()")
    ledger.wait_until_up()
    assert ledger.append(b"after") is None
    ledger.check()


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 24 MiB."""
    place = Path(tempfile.mkdtemp(prefix="pb-small-"))
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m,mode=0777", "tmpfs", str(place)]
    subprocess.run(mount, check=True)
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)
    place.rmdir()


@pytest.mark.group("mounts")
def test_a_database_without_room(server: PostgresServer, small_disk: Path, pump: Any) -> None:
    spaces = small_disk / "space"
    spaces.mkdir()
    shutil.chown(spaces, "postgres")
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE TABLESPACE small LOCATION '{spaces}'".encode())
        connection.execute("ALTER DATABASE postgres SET default_tablespace = small")
    ledger = Ledger(server.dsn, pump)
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(12 << 20))
    number = 0
    while (answer := ledger.append(b"%d" % number, 1 << 20)) is None:
        number += 1
    assert isinstance(answer, StoreUnavailable)
    assert "No space left" in answer.text
    assert ledger.store.state is StoreState.DOWN
    assert number > 1
    assert isinstance(ledger.append(b"refused", 1), StoreUnavailable)
    ballast.unlink()
    ledger.wait_until_up()
    assert ledger.append(b"after", 1 << 20) is None
    ledger.check()


def test_a_database_that_fails_over(server: PostgresServer, pump: Any) -> None:
    standby = server.standby()
    both = f"postgresql://partibus@127.0.0.1:{server.port},127.0.0.1:{standby.port}/postgres"
    try:
        ledger = Ledger(f"{both}?target_session_attrs=read-write", pump)
        for number in range(50):
            assert ledger.append(b"%d" % number) is None
        server.kill()
        assert isinstance(ledger.append(b"lost"), OperationTimeout)
        standby.promote()
        ledger.wait_until_up()
        assert ledger.append(b"after") is None
        ledger.check()
    finally:
        standby.remove()


def test_a_lane_of_the_first_schema_is_opened(server: PostgresServer, pump: Any) -> None:
    ledger = Ledger(server.dsn, pump)
    for number in range(10):
        assert ledger.append(b"%d" % number) is None
    ledger.store.close()
    server.execute("ALTER TABLE partibus.segment DROP COLUMN generation, DROP COLUMN kept_until")
    server.execute("DROP TABLE partibus.garbage")
    server.execute("DELETE FROM partibus.schema_version WHERE version > 1")
    ledger.check()
    with psycopg.connect(server.dsn) as connection:
        row = connection.execute("SELECT max(version) FROM partibus.schema_version").fetchone()
    assert row == (len(MIGRATIONS),)


def test_a_schema_of_a_later_release_is_refused(server: PostgresServer, pump: Any) -> None:
    Ledger(server.dsn, pump).store.close()
    server.execute("INSERT INTO partibus.schema_version VALUES (1000)")
    with pytest.raises(StoreUnavailable, match="Run the newer release"):
        Ledger(server.dsn, pump)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits longer than a second for an answer."""
    monkeypatch.setattr("partibus.store.postgres.connection.ANSWER_S", 1.0)


@pytest.mark.usefixtures("impatient")
def test_an_idle_lane_notices_that_its_database_hangs(server: PostgresServer, pump: Any) -> None:
    """Its machine answers for it, so no connection breaks."""
    ledger = Ledger(server.dsn, pump)
    assert ledger.append(b"before") is None
    server.pause()
    try:
        pump.until(lambda: ledger.store.state is StoreState.DOWN)
    finally:
        server.resume()
    ledger.wait_until_up()
    assert ledger.append(b"after") is None
    ledger.check()


@pytest.mark.usefixtures("impatient")
def test_who_reads_from_a_database_that_hangs_hears_of_it(
    server: PostgresServer, pump: Any
) -> None:
    store = PostgresStore(server.dsn, 0, notify=pump.notify, recent_bytes=0)
    list(store.open().records)
    record = Record(1, 1, b"", b"body")
    assert pump.append(store, [record]) is None
    refs = [(record.position, 4)]
    assert pump.read(store, refs) == [b"body"]
    server.pause()
    try:
        assert isinstance(pump.read(store, refs), StoreUnavailable)
        assert isinstance(pump.checkpoint(store, {}), StoreUnavailable)
    finally:
        server.resume()
    assert pump.read(store, refs) == [b"body"]
    store.close()
