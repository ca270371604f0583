"""The image of PostgreSQL, played by Debian's package.

Owns what that image does with its variables and its command: a database of that name, owned by that
user, who comes in over the network with that password alone. PostgreSQL refuses to run as root, so
it becomes the user `postgres`.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from support.postgres import binaries

VARIABLES: Final = {"POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD"}
DATA: Final = "/var/lib/postgresql/data"


class PostgresContainer:
    """One service with that image, in a network of its own."""

    def __init__(
        self, data: Path, command: Sequence[str], env: Mapping[str, str], network: str
    ) -> None:
        tools = binaries()
        assert tools is not None, "the group postgres is marked as present"
        assert env.keys() == VARIABLES, env.keys()
        assert command[0] == "postgres"
        assert all(env.values()), "the image refuses an empty password"
        self._tools = tools
        self._data = data
        self._options = command[1:]
        self._env = env
        self._inside = ["nsenter", f"--net=/run/netns/{network}"]
        who = ["--reuid=postgres", "--regid=postgres", "--init-groups"]
        self._as_user = [*self._inside, "setpriv", *who]

    stop_signal = signal.SIGINT
    """Of the image: clients that are connected are not waited for."""

    def start(self, log: IO[str]) -> "subprocess.Popen[str]":
        """Run it, the first time on a fresh volume."""
        if not any(self._data.iterdir()):
            self._initialize()
        command = [*self._as_user, self._tools / "postgres", "-D", self._data, "-h", "*"]
        sockets = ["-k", self._data]
        words = [*command, *sockets, *self._options]
        return subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, text=True)

    def run(self, *words: str) -> int:
        """A command in it, such as the health check; answers the exit code."""
        command = [*self._inside, self._tools / words[0], *words[1:]]
        return subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode

    def _initialize(self) -> None:
        """As the entry point of the image does it."""
        shutil.chown(self._data, "postgres", "postgres")
        password = self._data.parent / f"{self._data.name}.password"
        password.write_text(self._env["POSTGRES_PASSWORD"], encoding="utf-8")
        password.chmod(0o644)
        who = ["-U", self._env["POSTGRES_USER"], f"--pwfile={password}"]
        how = ["--auth-host=scram-sha-256", "--auth-local=trust", "--no-sync"]
        self._tool("initdb", "-D", self._data, *who, *how)
        with (self._data / "pg_hba.conf").open("a", encoding="ascii") as file:
            file.write("host all all all scram-sha-256\n")
        single = [self._tools / "postgres", "--single", "-D", self._data, "postgres"]
        subprocess.run(
            [*self._as_user, *single],
            input=f'CREATE DATABASE "{self._env["POSTGRES_DB"]}"\n',
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )

    def _tool(self, name: str, *words: object) -> None:
        command = [*self._as_user, str(self._tools / name), *map(str, words)]
        subprocess.run(command, stdout=subprocess.DEVNULL, cwd=os.sep, check=True)
