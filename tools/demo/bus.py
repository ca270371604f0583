"""The server of the demo: one process over four stores, in its own directory.

Owns the namespace of the story, the life of the process, and the `partibus` commands that a person
would type. Everything it writes is below the directory it is given.
"""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

STORES: Final = 4
NAMESPACE: Final = """
[[topic]]
name = "orders"
enable_partitioning = true
requires_duplicate_detection = true

[[topic.subscription]]
name = "billing"
lock_duration = "PT10S"
max_delivery_count = 3

[[topic.subscription]]
name = "shipping"

[[topic.subscription.rule]]
name = "express"
sql_filter = "express = true"

[[queue]]
name = "to-be-checked"
"""
STOP_SECONDS_MAX: Final = 30


@dataclass(frozen=True, slots=True)
class Place:
    """Where a fragment lives."""

    fragment: int
    store: int
    worker: int


class Bus:
    """The server process, and the commands that a person would type."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._log = directory / "server.log"
        self._process: subprocess.Popen[str] | None = None
        self.connection_string = ""

    def start(self) -> float:
        """Start; returns the seconds until it was ready."""
        config = self._directory / "namespace.toml"
        config.write_text(NAMESPACE, encoding="utf-8")
        began = time.monotonic()
        command = [sys.executable, "-m", "partibus", "serve", "--port", "0", "--faults"]
        command += ["--stores", str(STORES), "--data", str(self._directory / "data")]
        command += ["--config", str(config), "--tls-port", "none", "--http-port", "none"]
        with self._log.open("ab") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        self._process = process
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("PARTIBUS READY"):
            raise SystemExit(f"The server did not start:\n{self._log.read_text('utf-8')}")
        self.connection_string = line.strip().split("connection-string=", 1)[1]
        return time.monotonic() - began

    @property
    def console_url(self) -> str:
        """Where its web console is."""
        endpoint = self.connection_string.split(";", 1)[0].removeprefix("Endpoint=sb://")
        return f"http://{endpoint}/console/"

    def stop(self) -> None:
        """Stop the process that was started here."""
        process, self._process = self._process, None
        if process is None:
            return
        os.kill(process.pid, signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()

    def command(self, *words: str) -> str:
        """What `partibus WORDS` prints."""
        full = [sys.executable, "-m", "partibus", *words]
        full += ["--connection-string", self.connection_string]
        done = subprocess.run(full, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"partibus {' '.join(words)} failed:\n{done.stderr}")
        return done.stdout

    def count(self, entity: str, what: str) -> int:
        """A count of an entity, over all its fragments."""
        return int(self._shown(entity)["totals"][what])

    def places(self, entity: str) -> list[Place]:
        """Where each fragment of an entity lives."""
        return [
            Place(int(one["index"]), int(one["store"]), int(one["worker"]))
            for one in self._shown(entity)["fragments"]
        ]

    def _shown(self, entity: str) -> dict[str, Any]:
        shown: dict[str, Any] = json.loads(self.command("entity", "show", entity, "--json"))
        return shown
