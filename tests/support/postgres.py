"""PostgreSQL servers for the tests: made, started, killed and removed by the test that needs one.

Owns a data directory of its own and the process; the binaries are Debian's. PostgreSQL refuses to
run as root, so root becomes the user `postgres` for it.
"""

import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final, LiteralString

import psycopg

if TYPE_CHECKING:
    from support.nodes.network import Machine

LOOPBACK: Final = "127.0.0.1"
SETTINGS: Final = {
    "max_connections": "300",
    "shared_buffers": "64MB",
    "autovacuum": "off",
    "max_wal_size": "256MB",
    # Servers are killed here, machines are not: what was written is found without a sync.
    "fsync": "off",
    "full_page_writes": "off",
}

PORTS_MAX: Final = 5
MEMORY_FILES: Final = Path("/dev/shm")
MEMORY_BYTES_MIN: Final = 4 << 30
COPIES_FILES: Final = 15_00_00
"""Since this version databases are made through the log, unless it is told to copy files, which
takes a quarter of the time."""
_numbers: Final = count(1)


def binaries() -> Path | None:
    """Where `initdb` and `postgres` are, of the newest version that is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=_version)
    if found:
        return found[-1].parent
    which = shutil.which("initdb")
    return None if which is None else Path(which).parent


def _version(initdb: Path) -> int:
    return int(initdb.parents[1].name)


class PostgresServer:
    """One server on a free port of the loopback interface, or on a machine of a network."""

    def __init__(
        self, copies: "PostgresServer | None" = None, machine: "Machine | None" = None
    ) -> None:
        tools = binaries()
        assert tools is not None, "the group postgres is marked as present"
        self._tools = tools
        self._root = _new_root()
        self._data = self._root / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._on_machine = () if machine is None else machine.command
        self._host = LOOPBACK if machine is None else machine.address
        if copies is None:
            _run("cp", "--archive", _new_data(), self._data)
        else:
            # With -R it is told whom to follow.
            self._run("pg_basebackup", "-D", self._data, "-d", copies.dsn, "-R", "-c", "fast", "-N")
        if machine is not None:
            with (self._data / "pg_hba.conf").open("a") as access:
                access.write("host all all all trust\n")
        self.port = _free_port()
        self._was_up = False

    @property
    def dsn(self) -> str:
        """The address of its database."""
        return f"postgresql://partibus@{self._host}:{self.port}/postgres"

    def start(self) -> None:
        """Run it; returns when it takes connections. Until the first start another process may take
        its port, which is free only at the moment it was asked for."""
        for _ in range(1 if self._was_up else PORTS_MAX):
            if self._start():
                self._was_up = True
                return
            self.port = self.port if self._was_up else _free_port()
        raise AssertionError("PostgreSQL ended while it was starting")

    def _start(self) -> bool:
        settings = SETTINGS | {"listen_addresses": self._host}
        options = [f"-c{name}={value}" for name, value in settings.items()]
        command = [self._tools / "postgres", "-D", self._data, "-k", self._root]
        self._process = subprocess.Popen(
            [*self._on_machine, *_as_user(), *command, "-p", str(self.port), *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while self._process.poll() is None:
            if self._takes_connections():
                return True
        return False

    def execute(self, statement: LiteralString) -> None:
        """Run a statement as the operator, also when others may only read."""
        options = "-c default_transaction_read_only=off -c synchronous_commit=local"
        with psycopg.connect(self.dsn, autocommit=True, options=options) as connection:
            connection.execute(statement)

    def standby(self) -> "PostgresServer":
        """A copy that follows this server; from now on no commit is answered without it."""
        other = PostgresServer(copies=self)
        other.start()
        self.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.execute("SELECT pg_reload_conf()")
        return other

    def promote(self) -> None:
        """Follow nobody any more: take writes."""
        self.execute("ALTER SYSTEM RESET synchronous_standby_names")
        self._run("pg_ctl", "-D", self._data, "-w", "promote")

    def kill(self) -> None:
        """End it as a crash does; what was committed is found by the next start."""
        if self._process is not None:
            self._run("pg_ctl", "-D", self._data, "-w", "-m", "immediate", "stop", check=False)
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        """End it and delete its data."""
        self.kill()
        shutil.rmtree(self._root, ignore_errors=True)

    def pause(self) -> None:
        """Let no process of it run until `resume`."""
        postmaster = self._postmaster()
        os.kill(postmaster, signal.SIGSTOP)
        for process in _children(postmaster):
            os.kill(process, signal.SIGSTOP)

    def resume(self) -> None:
        """Go on after `pause`: the postmaster last, since one that runs removes what has ended."""
        postmaster = self._postmaster()
        for process in _children(postmaster):
            os.kill(process, signal.SIGCONT)
        os.kill(postmaster, signal.SIGCONT)

    def _postmaster(self) -> int:
        return int((self._data / "postmaster.pid").read_text().split()[0])

    def _takes_connections(self) -> bool:
        """Whether it answers, and not another server on its port."""
        try:
            with psycopg.connect(self.dsn, connect_timeout=5) as connection:
                found = connection.execute("SHOW data_directory").fetchone()
        except psycopg.Error:
            return False
        return found == (str(self._data),)

    def _run(self, tool: str, *arguments: object, check: bool = True) -> None:
        _run(self._tools / tool, *arguments, check=check)


def _children(process: int) -> list[int]:
    return [
        int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()
    ]


def _as_user() -> list[str]:
    """What becomes the program. `runuser` would stay beside it, and stop itself when the program is
    stopped, perhaps only after `resume`: then nobody would hear of the program's end."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]


def _run(tool: object, *arguments: object, check: bool = True) -> None:
    command = [*_as_user(), str(tool), *map(str, arguments)]
    subprocess.run(command, check=check, stdout=subprocess.DEVNULL, cwd="/")


def _new_root() -> Path:
    """A directory that PostgreSQL may use: in memory where there is enough, since each database has
    hundreds of files, which some file systems are slow to make and to delete."""
    root = Path(tempfile.mkdtemp(prefix="pb-postgres-", dir=_in_memory()))
    if os.geteuid() == 0:
        shutil.chown(root, "postgres", "postgres")
    return root


def _in_memory() -> Path | None:
    has_enough = MEMORY_FILES.is_dir() and shutil.disk_usage(MEMORY_FILES).free > MEMORY_BYTES_MIN
    return MEMORY_FILES if has_enough else None


@cache
def _new_data() -> Path:
    """The data of a server that never ran, which each new one copies: quicker than `initdb`."""
    tools, root = binaries(), _new_root()
    assert tools is not None, "the group postgres is marked as present"
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    made = root / "data"
    _run(tools / "initdb", "-D", made, "-U", "partibus", "--auth=trust", "--no-sync")
    return made


def new_database(dsn: str) -> str:
    """The address of an empty database, made in the server of another."""
    name = f"made_{next(_numbers)}"
    with psycopg.connect(dsn, autocommit=True) as admin:
        strategy = "STRATEGY file_copy" if admin.info.server_version >= COPIES_FILES else ""
        admin.execute(f"CREATE DATABASE {name} {strategy}")
    return f"{dsn.rpartition('/')[0]}/{name}"


_spare: Final[dict[str, list[str]]] = {}
"""Empty databases by the server they are in: to empty one takes less than to make another."""


@contextmanager
def temporary_database(dsn: str) -> Iterator[str]:
    """The address of an empty database, which is nobody's again at the end."""
    spare = _spare.setdefault(dsn, [])
    made = spare.pop() if spare else new_database(dsn)
    yield made
    _empty(made)
    spare.append(made)


def _empty(dsn: str) -> None:
    """End what others do there, with their locks, then drop everything."""
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    schemas = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'partibus%' ORDER BY 1"
    with psycopg.connect(dsn, autocommit=True) as admin:
        while admin.execute(f"SELECT pg_terminate_backend(pid) {others}").fetchone() is not None:
            pass
        for (schema,) in admin.execute(schemas).fetchall():
            admin.execute(f"DROP SCHEMA {schema} CASCADE")
        left = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        assert not admin.execute(left).fetchall(), "a test leaves something in the database"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
