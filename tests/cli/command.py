"""The `partibus` command against a server: its exit code and what it printed."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from typer.testing import CliRunner

from partibus.cli.main import app
from support.server import SOURCE

FRAGMENTS = 8
STORES = 4
QUEUES = 30


@dataclass(frozen=True, slots=True)
class Done:
    """What a run of the command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Partibus:
    """The command, with its server in the environment."""

    def __init__(self, connection_string: str | None) -> None:
        self._env: dict[str, str | None] = {
            k: None for k in os.environ if k.startswith("PARTIBUS_")
        }
        self._env |= {"TERM": "dumb", "COLUMNS": "120"}
        if connection_string is not None:
            self._env["PARTIBUS_CONNECTION_STRING"] = connection_string

    def try_(self, *arguments: str) -> Done:
        """Run and see; in this process, which saves half a second each time."""
        result = CliRunner().invoke(app, arguments, env=self._env)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Done(result.exit_code, result.stdout, result.stderr)

    def process(self, *arguments: str) -> Done:
        """Run as a user does: a process of its own."""
        kept = {k: v for k, v in os.environ.items() if k not in self._env}
        env = kept | {k: v for k, v in self._env.items() if v is not None}
        command = [sys.executable, "-m", "partibus", *arguments]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=env | {"PYTHONPATH": str(SOURCE)},
            stdin=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def __call__(self, *arguments: str) -> Done:
        """Run what must succeed."""
        done = self.try_(*arguments)
        assert done.code == 0, done
        return done

    def store_states(self) -> list[str]:
        return [store["state"] for store in self("store", "list", "--json").json["stores"]]
