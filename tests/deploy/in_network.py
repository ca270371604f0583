"""A program for a network of its own: a compose file is brought up, used by a stock SDK, and down.

Run as `unshare --net python in_network.py PLAN`, with PLAN as JSON: the text of the compose file
and where it stands, the name of our image in it, its variables, the entity to use. It comes up
twice on the same volumes. What it saw is printed as one line of JSON.
"""

import json
import shutil
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tools")]

from azure.servicebus import ServiceBusClient, ServiceBusMessage  # noqa: E402

from deploy.built import built_image  # noqa: E402
from deploy.compose import Service, service_of  # noqa: E402

EMULATOR = (
    "Endpoint=sb://localhost;SharedAccessKeyName=RootManageSharedAccessKey;"
    "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
)


def main() -> None:
    plan = json.loads(sys.argv[1])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    place = Path(plan["place"])
    image = built_image()
    file = Path(plan["file"])
    service = service_of(file, plan["text"], plan["image"], image, place, **plan["variables"])
    service.container.create()
    first = life(service, plan["entity"], lambda entity: send(entity, "kept"))
    key = first["connection"]
    second = life(service, plan["entity"], lambda entity: receive(entity, key))
    shutil.rmtree(service.container.root)
    print(json.dumps({"first": first, "second": second}), flush=True)


class Up:
    """A container that is up."""

    def __init__(self, service: Service) -> None:
        self.process = service.container.start(stdout=subprocess.PIPE)
        self.lines: list[str] = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.strip())
            if line.startswith("PARTIBUS READY"):
                break
        self.connection = self.lines[-1].partition("connection-string=")[2]


def life(service: Service, entity: str, use: Any) -> dict[str, Any]:
    up = Up(service)
    try:
        return {**looked_at(service, up), "used": use((entity, up.connection))}
    finally:
        up.process.terminate()
        rest, _ = up.process.communicate(timeout=60)
        up.lines += rest.splitlines()


def send(where: tuple[str, str], body: str) -> str:
    entity, connection = where
    with (
        ServiceBusClient.from_connection_string(connection) as client,
        client.get_queue_sender(entity) as sender,
    ):
        sender.send_messages(ServiceBusMessage(body))
    return body


def receive(where: tuple[str, str], connection: str) -> str:
    entity, _ = where
    with (
        ServiceBusClient.from_connection_string(connection) as client,
        client.get_queue_receiver(entity) as receiver,
    ):
        (message,) = receiver.receive_messages(max_wait_time=30)
        receiver.complete_message(message)
        return str(message)


def looked_at(service: Service, up: Up) -> dict[str, Any]:
    """What anybody can see from outside."""
    health_port = service.ports[-1]
    with urllib.request.urlopen(f"http://localhost:{health_port}/health") as answer:
        health = json.load(answer)
    for port in service.ports:
        socket.create_connection(("localhost", port), timeout=10).close()
    status = Path("/proc", str(up.process.pid), "status").read_text()
    told = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    return {
        "health": health,
        "uid": told["Uid"].split()[0],
        "privileges": [told["CapEff"], told["NoNewPrivs"]],
        "check": service.container.run().returncode,
        "verb": service.container.run("partibus", "--version").stdout,
        "shell": service.container.run("/bin/sh", "-c", "true").returncode,
        "connection": up.connection,
        "emulator": up.connection.replace(":5672", "") == EMULATOR,
    }


if __name__ == "__main__":
    main()
