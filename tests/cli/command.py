"""The `partibus` command against a server: its exit code and what it printed."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from partibus.cli.main import wanted
from partibus.cli.verb_table import command_tree
from support.server import SOURCE
from support.signals import mind_interrupts

FRAGMENTS = 8
STORES = 4
QUEUES = 30
NO_HOME = Path("/nonexistent")


@dataclass(frozen=True, slots=True)
class Done:
    """What a run of the command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """Each line of the output as JSON."""
        return [json.loads(line) for line in self.out.splitlines()]


class Partibus:
    """The command, with its server in the environment."""

    def __init__(self, connection_string: str | None, home: Path | None = None) -> None:
        self._env: dict[str, str | None] = {
            k: None for k in os.environ if k.startswith("PARTIBUS_")
        }
        # Contexts of whoever runs the tests must not reach the command.
        self._env |= {"TERM": "dumb", "COLUMNS": "120", "XDG_CONFIG_HOME": str(home or NO_HOME)}
        if connection_string is not None:
            self._env["PARTIBUS_CONNECTION_STRING"] = connection_string

    def try_(self, *arguments: str, stdin: str | bytes | None = None) -> Done:
        """Run and see; in this process, which saves half a second each time."""
        app = command_tree(wanted(arguments))
        result = CliRunner().invoke(app, arguments, env=self._env, input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Done(result.exit_code, result.stdout, result.stderr)

    def process(self, *arguments: str, **variables: str) -> Done:
        """Run as a user does: a process of its own."""
        with self.start(*arguments, **variables) as process:
            out, err = process.communicate(timeout=60)
        return Done(process.returncode, out, err)

    @staticmethod
    def command(*arguments: str) -> list[str]:
        return [sys.executable, "-m", "partibus", *arguments]

    def environment(self) -> dict[str, str]:
        """What a process of the command sees."""
        kept = {k: v for k, v in os.environ.items() if k not in self._env}
        own = {k: v for k, v in self._env.items() if v is not None}
        return kept | own | {"PYTHONPATH": str(SOURCE)}

    def start(self, *arguments: str, **variables: str) -> "subprocess.Popen[str]":
        """A process that goes on; the caller ends it."""
        return subprocess.Popen(
            self.command(*arguments),
            text=True,
            env=self.environment() | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=mind_interrupts,  # noqa: PLW1509 - it takes no lock
        )

    def __call__(self, *arguments: str, stdin: str | bytes | None = None) -> Done:
        """Run what must succeed."""
        done = self.try_(*arguments, stdin=stdin)
        assert done.code == 0, done
        return done

    def store_states(self) -> list[str]:
        return [store["state"] for store in self("store", "list", "--json").json["stores"]]
