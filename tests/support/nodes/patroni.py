"""A pair of PostgreSQL servers that Patroni keeps, with etcd, each on a machine of its own.

Owns their directories and processes. No commit is answered before both servers have it
(`synchronous_mode`), so a promotion loses nothing. The programs are Debian's; all of them run as
the user `postgres`. Tests that use it are of the group "patroni".
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from adversity.waiting import wait_until
from support.nodes.network import Machine, Network
from support.postgres import SETTINGS, binaries

TTL_S: Final = 20
"""The least that Patroni takes."""
ETCD_PORT: Final = 2379
POSTGRES_PORT: Final = 5432
API_PORT: Final = 8008
PROMOTED_S_MAX: Final = 180.0
_AS_USER: Final = ("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--")


class PatroniServer:
    """One PostgreSQL server with the Patroni that keeps it."""

    def __init__(self, name: str, machine: Machine, etcd: Machine, directory: Path) -> None:
        self.name = name
        self.machine = machine
        self._place = directory / name
        self._log = directory / f"{name}.log"
        self._config = directory / f"{name}.yml"
        # A document of JSON is one of YAML.
        self._config.write_text(json.dumps(self._settings(etcd)), encoding="utf-8")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Run Patroni, which runs PostgreSQL."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.machine.command, *_AS_USER, "/usr/bin/patroni", str(self._config)],
                stdout=log,
                stderr=log,
                cwd="/",
                env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            )

    def kill(self) -> None:
        """The machine is lost: neither has a chance to say anything."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        self.crash()

    def crash(self) -> None:
        """PostgreSQL ends at once, with all its processes; Patroni finds out."""
        pid_file = self._place / "postmaster.pid"
        if pid_file.exists():
            postmaster = int(pid_file.read_text().split()[0])
            with contextlib.suppress(ProcessLookupError):
                os.kill(postmaster, signal.SIGQUIT)
            wait_until(lambda: not Path(f"/proc/{postmaster}").exists(), "PostgreSQL has ended")

    def state(self) -> dict[str, Any]:
        """What Patroni says of it; empty when it does not answer."""
        url = f"http://{self.machine.address}:{API_PORT}/patroni"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return dict(json.load(answer))
        except (OSError, ValueError):
            return {}

    def log_text(self) -> str:
        """What Patroni wrote."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def _settings(self, etcd: Machine) -> dict[str, Any]:
        tools = binaries()
        account = {"username": "partibus"}
        host = self.machine.address
        shared: dict[str, Any] = {
            "ttl": TTL_S,
            "loop_wait": 1,
            "retry_timeout": 3,
            "master_start_timeout": 0,
            "synchronous_mode": True,
            "postgresql": {"use_pg_rewind": True, "parameters": SETTINGS | {"wal_log_hints": "on"}},
        }
        return {
            "scope": "pair",
            "name": self.name,
            "restapi": {"listen": f"{host}:{API_PORT}", "connect_address": f"{host}:{API_PORT}"},
            "etcd3": {"host": f"{etcd.address}:{ETCD_PORT}"},
            "bootstrap": {"dcs": shared, "initdb": [{"auth": "trust"}, "no-sync"]},
            "postgresql": {
                "listen": f"{host}:{POSTGRES_PORT}",
                "connect_address": f"{host}:{POSTGRES_PORT}",
                "data_dir": str(self._place),
                "bin_dir": str(tools),
                "pgpass": str(self._place.parent / f"{self.name}.pgpass"),
                "authentication": {"superuser": account, "replication": account, "rewind": account},
                # On a socket of Unix they would meet, since their ports are the same.
                "parameters": {"unix_socket_directories": ""},
                "pg_hba": ["host all all all trust", "host replication all all trust"],
            },
        }


class PatroniPair:
    """Two servers, of which one takes writes."""

    def __init__(self, servers: list[PatroniServer]) -> None:
        self.servers = servers

    @property
    def dsn(self) -> str:
        """The address of both, of whom the one is used that takes writes."""
        hosts = ",".join(f"{s.machine.address}:{POSTGRES_PORT}" for s in self.servers)
        return f"postgresql://partibus@{hosts}/postgres?target_session_attrs=read-write"

    def primary(self) -> PatroniServer | None:
        """The one that takes writes."""
        leads = [s for s in self.servers if s.state().get("role") in ("master", "primary")]
        return leads[0] if len(leads) == 1 else None

    def settle(self) -> PatroniServer:
        """Return the primary when the other follows it, and would be promoted with all it has."""
        found: list[PatroniServer] = []

        def is_whole() -> bool:
            lead = self.primary()
            found[:] = [] if lead is None else [lead]
            followers = [] if lead is None else lead.state().get("replication", [])
            return any(one.get("sync_state") == "sync" for one in followers)

        wait_until(is_whole, "the pair is whole", seconds=PROMOTED_S_MAX)
        return found[0]

    def promoted(self, lost: PatroniServer) -> PatroniServer:
        """Return the other one when it takes writes."""
        (other,) = [server for server in self.servers if server is not lost]
        wait_until(
            lambda: other.state().get("role") in ("master", "primary"),
            "Patroni has promoted the other",
            seconds=PROMOTED_S_MAX,
        )
        return other


@contextmanager
def patroni_pair(network: Network) -> Iterator[PatroniPair]:
    """A pair that runs and is whole, with an etcd of its own."""
    directory = Path(tempfile.mkdtemp(prefix="pb-patroni-"))
    shutil.chown(directory, "postgres", "postgres")
    watches = network.machine()
    etcd = _start_etcd(watches, directory)
    servers = [
        PatroniServer(name, network.machine(), watches, directory) for name in ("one", "two")
    ]
    pair = PatroniPair(servers)
    try:
        for server in servers:
            server.start()
        pair.settle()
        yield pair
    except BaseException:
        for server in servers:
            print(f"--- Patroni {server.name}\n{server.log_text()[-4000:]}")
        raise
    finally:
        for server in servers:
            server.kill()
        etcd.kill()
        etcd.wait()
        shutil.rmtree(directory, ignore_errors=True)


def _start_etcd(machine: Machine, directory: Path) -> "subprocess.Popen[bytes]":
    at = f"http://{machine.address}"
    clients, peers = f"{at}:{ETCD_PORT}", f"{at}:{ETCD_PORT + 1}"
    options = {
        "data-dir": str(directory / "etcd"),
        "listen-client-urls": clients,
        "advertise-client-urls": clients,
        "listen-peer-urls": peers,
        "initial-advertise-peer-urls": peers,
        "initial-cluster": f"default={peers}",
    }
    words = [f"--{name}={value}" for name, value in options.items()]
    with (directory / "etcd.log").open("wb") as log:
        return subprocess.Popen(
            [*machine.command, *_AS_USER, "/usr/bin/etcd", *words], stdout=log, stderr=log, cwd="/"
        )
