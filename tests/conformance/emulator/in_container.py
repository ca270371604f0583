"""A program for namespaces of its own: emulator mode with only what a tool gives a container.

Run as `unshare -rmn python in_container.py DIRECTORY CONFIG`. It makes a root directory of the
machine's own folders in which CONFIG lies where tools put it, starts the server there on its fixed
ports, and is the server's client too. What it saw is printed as one line of JSON.
"""

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

from azure.servicebus import ServiceBusClient, ServiceBusMessage

COMPOSE = (
    "Endpoint=sb://localhost;SharedAccessKeyName=RootManageSharedAccessKey;"
    "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
)
HTTP_PORT = "5301"


def make_root(directory: Path, config: str) -> None:
    """Become the root of a copy of the machine with one more file."""
    subprocess.run(["mount", "-t", "tmpfs", "root", str(directory)], check=True)
    for entry in Path("/").iterdir():
        inside = directory / entry.name
        if entry.is_symlink():
            inside.symlink_to(entry.readlink())
        elif entry.is_dir():
            inside.mkdir()
            subprocess.run(["mount", "--rbind", str(entry), str(inside)], check=True)
    file = directory / "ServiceBus_Emulator" / "ConfigFiles" / "Config.json"
    file.parent.mkdir(parents=True)
    file.write_text(config, encoding="utf-8")
    here = Path.cwd()
    os.chroot(directory)
    os.chdir(here)


def use() -> dict[str, object]:
    with urllib.request.urlopen(f"http://localhost:{HTTP_PORT}/health") as answer:
        health = [answer.status, json.load(answer)]
    with ServiceBusClient.from_connection_string(COMPOSE, retry_total=0) as client:
        with client.get_queue_sender("from.tool") as sender:
            sender.send_messages(ServiceBusMessage("hello"))
        with client.get_queue_receiver("from.tool") as receiver:
            (message,) = receiver.receive_messages(max_wait_time=30)
            receiver.complete_message(message)
            return {"health": health, "body": str(message)}


def main() -> None:
    config = Path(sys.argv[2]).read_text(encoding="utf-8")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    make_root(Path(sys.argv[1]), config)
    given = {"PARTIBUS_EMULATOR": "true", "EMULATOR_HTTP_PORT": HTTP_PORT, "ACCEPT_EULA": "Y"}
    command = [sys.executable, "-m", "partibus", "serve", "--memory"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | given) as up:
        assert up.stdout is not None
        try:
            lines = [up.stdout.readline().strip() for _ in range(2)]
            print(json.dumps({"lines": lines, **use()}), flush=True)
        finally:
            up.terminate()


if __name__ == "__main__":
    main()
