"""A program for a network of its own: a compose file with several nodes, used and restarted.

Run as `unshare --net --mount --pid ... python in_cluster.py PLAN`, with PLAN as JSON: the compose
file, a place for volumes, its variables. Every service is started as the file says; a stock SDK
sends and receives by the name that the nodes share while they are restarted one after the other.
What it saw is printed as one line of JSON.
"""

import json
import sys
import threading
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tools"), str(ROOT / "src")]

import psycopg  # noqa: E402
from azure.servicebus import ServiceBusClient, ServiceBusMessage  # noqa: E402

from adversity.waiting import wait_until  # noqa: E402
from deploy.built import built_image  # noqa: E402
from deploy.project import Project  # noqa: E402

NODES: Final = ("node-1", "node-2", "node-3")
DATABASES: Final = ("database-a", "database-b")
QUEUE: Final = "parts"
FLOWS: Final = 20
PACE_S: Final = 0.02
"""Between two sends: as fast as possible, they would take the processor from the nodes' starts."""
WAIT_S: Final = 300
"""Against hanging; a machine with much else to do is slow."""


class Traffic:
    """One sender without keys and one receiver, with the retries that the SDK has by itself."""

    def __init__(self, connection: str) -> None:
        self._connection = connection
        self.acknowledged: list[str] = []
        self.received: list[str] = []
        self.failed_sends: list[str] = []
        self._sends = threading.Event()
        self._receives = threading.Event()
        both = (self._send, self._receive)
        self._threads = [threading.Thread(target=run, daemon=True) for run in both]
        for thread in self._threads:
            thread.start()

    def flows(self) -> None:
        """Return when some more were sent and received."""
        sent, seen = len(self.acknowledged) + FLOWS, len(self.received) + FLOWS
        wait_until(lambda: len(self.acknowledged) >= sent, "more are sent", seconds=WAIT_S)
        wait_until(lambda: len(self.received) >= seen, "more are received", seconds=WAIT_S)

    def end(self) -> None:
        """Stop sending, and return when all that was promised has come."""
        self._sends.set()
        self._threads[0].join()
        wait_until(self._is_all_received, "all are received", seconds=WAIT_S)
        self._receives.set()
        self._threads[1].join()

    def _is_all_received(self) -> bool:
        return set(self.acknowledged) <= set(self.received)

    def _send(self) -> None:
        number = 0
        with (
            ServiceBusClient.from_connection_string(self._connection) as client,
            client.get_queue_sender(QUEUE) as sender,
        ):
            while not self._sends.wait(PACE_S):
                number += 1
                try:
                    sender.send_messages(ServiceBusMessage(str(number)))
                    self.acknowledged.append(str(number))
                except Exception as error:
                    self.failed_sends.append(repr(error))

    def _receive(self) -> None:
        while not self._receives.is_set():
            try:
                self._receive_on()
            except Exception as error:
                # A receiver may lose a lock; what counts is that everything arrives.
                print(repr(error), file=sys.stderr)

    def _receive_on(self) -> None:
        with (
            ServiceBusClient.from_connection_string(self._connection) as client,
            client.get_queue_receiver(QUEUE) as receiver,
        ):
            while not self._receives.is_set():
                for message in receiver.receive_messages(20, max_wait_time=1):
                    self.received.append(str(message))
                    receiver.complete_message(message)


def connection_string(project: Project) -> str:
    """As a service in the same network writes it: the key of the log, the name of the alias."""
    ready = project.log(NODES[0]).partition("connection-string=")[2].splitlines()[0]
    parts = dict(part.split("=", 1) for part in ready.rstrip(";").split(";"))
    parts["Endpoint"] = "sb://partibus:5672"
    return ";".join(f"{name}={value}" for name, value in parts.items()) + ";"


def restart(project: Project, name: str) -> int:
    """As an operator does it: the next one only when all lanes have an owner again."""
    code = project.stop(name)
    project.start(name)
    ready(project, name)
    project.run(name, "partibus", "cluster", "rebalance", "--wait", str(WAIT_S))
    return code


def ready(project: Project, name: str) -> None:
    """Return when it says so and its health check agrees."""
    starts = project.starts[name]

    def is_ready() -> bool:
        return project.log(name).count("PARTIBUS READY") == starts

    wait_until(is_ready, f"{name} is ready", seconds=WAIT_S)
    wait_until(lambda: project.is_healthy(name), f"{name} is healthy", seconds=WAIT_S)


def lanes(project: Project) -> list[int]:
    told = project.run(NODES[0], "partibus", "cluster", "status", "--json")
    return sorted(len(node["lanes"]) for node in json.loads(told)["nodes"])


def connections(project: Project, database: str) -> int:
    """How many connections a database has beside this one; the password is the one of the file."""
    env = project.services[database]["environment"]
    who = f"{env['POSTGRES_USER']}:{env['POSTGRES_PASSWORD']}"
    with psycopg.connect(f"postgresql://{who}@{database}/{env['POSTGRES_DB']}") as connection:
        row = connection.execute(
            "SELECT count(*) - 1 FROM pg_stat_activity WHERE backend_type = 'client backend'"
        ).fetchone()
        assert row is not None
        return int(row[0])


def main() -> None:
    plan = json.loads(sys.argv[1])
    image = built_image()
    project = Project(Path(plan["file"]), image, Path(plan["place"]), plan["variables"])
    project.network.make()
    print(json.dumps(used(project)), flush=True)


def used(project: Project) -> dict[str, Any]:
    for name in NODES:
        project.up(name)
        ready(project, name)
    project.run(NODES[0], "partibus", "cluster", "rebalance", "--wait", str(WAIT_S))
    seen: dict[str, Any] = {"lanes": lanes(project)}
    traffic = Traffic(connection_string(project))
    traffic.flows()
    seen["stopped"] = []
    for name in NODES:
        seen["stopped"].append(restart(project, name))
        traffic.flows()
    traffic.end()
    seen["failed sends"] = traffic.failed_sends
    seen["connections"] = [connections(project, name) for name in DATABASES]
    seen["sent"] = len(traffic.acknowledged)
    seen["lanes afterwards"] = lanes(project)
    seen["authority"] = "ca-key.pem" in project.run(
        NODES[0], "python3", "-c", "import os; print(os.listdir('/var/lib/partibus/cluster'))"
    )
    for name in (*NODES, *DATABASES):
        seen.setdefault("ends", {})[name] = project.stop(name)
    return seen


if __name__ == "__main__":
    main()
