"""Does an installed partibus work? Starts its server and uses it with the stock client.

Owns the shortest proof that a wheel is complete: the command line prints its version, `partibus
serve` becomes ready, a message goes there and back, the server stops. Run it with the Python that
has the wheel and `azure-servicebus`; cibuildwheel and `make release-check` do. It takes nothing
from the working copy; `--compiled yes` or `no` also requires that form of the hot modules.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from azure.servicebus import ServiceBusClient, ServiceBusMessage

NAMESPACE = '[[queue]]\nname = "smoke"\n'


def partibus() -> str:
    """The installed command, beside the interpreter."""
    return str(Path(sys.executable).parent / "partibus")


def check_version(compiled: str | None) -> None:
    found = json.loads(subprocess.check_output([partibus(), "version", "--json"], text=True))
    print(f"partibus {found['version']}, compiled: {found['compiled']}, Python {found['python']}")
    if compiled is not None and found["compiled"] is not (compiled == "yes"):
        raise SystemExit(f"compiled is {found['compiled']}, which is not what was asked for")


def serve(directory: Path) -> "subprocess.Popen[str]":
    config = directory / "namespace.toml"
    config.write_text(NAMESPACE, encoding="utf-8")
    command = [partibus(), "serve", "--data", str(directory / "data"), "--config", str(config)]
    command += ["--port", "0", "--tls-port", "none", "--http-port", "none"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PARTIBUS_")}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=directory, env=kept)


def there_and_back(connection: str) -> None:
    with ServiceBusClient.from_connection_string(connection) as client:
        with client.get_queue_sender("smoke") as sender:
            sender.send_messages(ServiceBusMessage("there and back"))
        with client.get_queue_receiver("smoke") as receiver:
            (message,) = receiver.receive_messages(max_wait_time=30)
            receiver.complete_message(message)
    assert str(message) == "there and back", message


def main() -> int:
    parser = argparse.ArgumentParser(description="Does an installed partibus work?")
    parser.add_argument(
        "--compiled", choices=["yes", "no"], help="must the hot modules be compiled?"
    )
    given = parser.parse_args()
    check_version(given.compiled)
    with tempfile.TemporaryDirectory(prefix="partibus-smoke-") as directory:
        began = time.monotonic()
        with serve(Path(directory)) as server:
            assert server.stdout is not None
            line = server.stdout.readline()
            print(f"ready after {time.monotonic() - began:.2f} s")
            try:
                there_and_back(line.partition("connection-string=")[2].strip())
            finally:
                server.terminate()
            code = server.wait(60)
    print(f"a message went there and back; the server ended with {code}")
    return code


if __name__ == "__main__":
    sys.exit(main())
