"""The server as its operator sees it: entities, stores and faults, over HTTP and by command.

Owns the signed requests to `/$partibus`. The signature is made by the tests' own signing, so
that a mistake of the product cannot hide behind itself.
"""

import http.client
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from conformance.settlement.steps import until
from support.sas import sas_token
from support.server import SOURCE, ServerProcess

ANSWER_SECONDS_MAX: Final = 30
COMMAND_SECONDS_MAX: Final = 60


class Operator:
    """Asks a running server."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server

    def entity(self, name: str) -> dict[str, Any]:
        """What `partibus entity show` shows."""
        return self._ask("GET", f"/entities/{name}")

    def states(self, name: str) -> list[str]:
        """The states of an entity's partitions."""
        return [fragment["state"] for fragment in self.entity(name)["fragments"]]

    def placement(self, name: str) -> list[int]:
        """The store of each partition."""
        return [fragment["store"] for fragment in self.entity(name)["fragments"]]

    def partitions_in(self, name: str, store: int) -> set[int]:
        """The partitions that lie in a store."""
        return {index for index, place in enumerate(self.placement(name)) if place == store}

    def store(self, number: int) -> dict[str, Any]:
        answer: dict[str, Any] = self._ask("GET", "/stores")["stores"][number]
        return answer

    def break_store(self, number: int, mode: str = "down") -> None:
        """Returns when the server has noticed."""
        self.begin_outage(number, mode)
        until(f"store {number} to be down", lambda: self.store(number)["state"] == "down")

    def begin_outage(self, number: int, mode: str = "down") -> None:
        """Returns at once; the server notices with the next write."""
        self._ask("POST", "/faults", {"kind": "store", "store": number, "mode": mode})

    def mend_store(self, number: int) -> None:
        """Returns when the server has noticed."""
        self._ask("POST", "/faults", {"kind": "store", "store": number, "mode": "up"})
        until(f"store {number} to be up", lambda: self.store(number)["state"] == "up")

    def mend_all(self) -> None:
        """End every fault; returns when the server has noticed."""
        self._ask("DELETE", "/faults")
        until(
            "all stores to be up",
            lambda: all(s["state"] == "up" for s in self._ask("GET", "/stores")["stores"]),
        )

    def slow_store(self, number: int, delay_ms: int) -> None:
        fault = {"kind": "store", "store": number, "mode": "slow", "delay_ms": delay_ms}
        self._ask("POST", "/faults", fault)

    def stages(self, name: str) -> list[dict[str, Any]]:
        """The writers that `partibus stage list` shows."""
        writers: list[dict[str, Any]] = self._ask("GET", f"/entities/{name}/stages")["writers"]
        return writers

    def drop_cursor(self, name: str, cursor: str) -> None:
        """What `partibus cursor drop` does."""
        self._ask("POST", f"/entities/{name}/cursors/drop", {"name": cursor})

    def workers(self, name: str) -> list[int]:
        """The worker of each partition."""
        return [fragment["worker"] for fragment in self.entity(name)["fragments"]]

    def kill_worker(self, number: int) -> None:
        """Returns at once; the process ends a moment later."""
        self._ask("POST", "/faults", {"kind": "worker", "worker": number})

    def _ask(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        ready = self._server.ready
        connection = http.client.HTTPConnection(
            "127.0.0.1", ready.http_port, timeout=ANSWER_SECONDS_MAX
        )
        token = sas_token(f"http://127.0.0.1:{ready.http_port}/")
        content = None if body is None else json.dumps(body)
        try:
            connection.request(method, f"/$partibus{path}", content, {"Authorization": token})
            response = connection.getresponse()
            answer: dict[str, Any] = json.loads(response.read())
        finally:
            connection.close()
        assert response.status == 200, answer
        return answer


def command(*arguments: str, data: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """Run `partibus` to its end."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PARTIBUS_")}
    return subprocess.run(
        [sys.executable, "-m", "partibus", *arguments],
        capture_output=True,
        text=True,
        env=environment | {"PYTHONPATH": str(SOURCE), "COLUMNS": "200"},
        cwd=data,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
    )
