"""`make demo`: the story of the bus in half a minute, ending by itself with a report.

Starts a server on free ports over a temporary directory, lets several senders of the stock SDK
work, kills the server in the middle with SIGKILL, starts it again and counts what is still
there; then lets a message fail until it is dead-lettered. Exits 1 when a promise was broken.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSubQueue
from azure.servicebus.exceptions import ServiceBusError

SENDERS: Final = 4
ACKNOWLEDGED_AT_KILL: Final = 400
MESSAGE_BYTES: Final = 1024
NAMESPACE: Final = """
[[queue]]
name = "orders"

[[queue]]
name = "invoices"
max_delivery_count = 3
"""


class Bus:
    """The server process of the demo."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._config = directory / "namespace.toml"
        self._log = directory / "server.log"
        self._config.write_text(NAMESPACE, encoding="utf-8")
        self._process: subprocess.Popen[str] | None = None
        self.connection_string = ""

    def start(self, port: int = 0) -> float:
        """Start; returns the seconds until it could be used."""
        started = time.monotonic()
        command = [sys.executable, "-m", "partibus", "serve", "--port", str(port)]
        command += ["--data", str(self._directory / "data"), "--config", str(self._config)]
        command += ["--tls-port", "none", "--http-port", "none"]
        with self._log.open("ab") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        self._process = process
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("PARTIBUS READY"):
            raise SystemExit(f"the server did not start:\n{self._log.read_text('utf-8')}")
        self.connection_string = line.strip().split("connection-string=", 1)[1]
        return time.monotonic() - started

    @property
    def port(self) -> int:
        endpoint = self.connection_string.split(";", 1)[0]
        return int(endpoint.rsplit(":", 1)[1].rstrip("/"))

    def end(self, number: signal.Signals) -> None:
        """Send the signal to the one process started here, and wait for its end."""
        process, self._process = self._process, None
        if process is not None:
            os.kill(process.pid, number)
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


class Traffic:
    """Senders that go on until the server is gone, and what was acknowledged to them."""

    def __init__(self, connection_string: str) -> None:
        self._connection_string = connection_string
        self._lock = threading.Lock()
        self.acknowledged: set[str] = set()
        self.enough = threading.Event()

    def run(self, sender_number: int) -> None:
        client = ServiceBusClient.from_connection_string(self._connection_string, retry_total=0)
        message_number = 0
        try:
            with client, client.get_queue_sender("orders") as sender:
                while True:
                    message_id = f"{sender_number}-{message_number}"
                    message = ServiceBusMessage(b"x" * MESSAGE_BYTES, message_id=message_id)
                    sender.send_messages(message)
                    self._note(message_id)
                    message_number += 1
        except ServiceBusError:
            pass  # The server was killed: what was not acknowledged is not promised.

    def _note(self, message_id: str) -> None:
        with self._lock:
            self.acknowledged.add(message_id)
            if len(self.acknowledged) >= ACKNOWLEDGED_AT_KILL:
                self.enough.set()


def kill_under_load(bus: Bus) -> set[str]:
    """Traffic, then SIGKILL in the middle of it; returns what had been acknowledged."""
    traffic = Traffic(bus.connection_string)
    threads = [threading.Thread(target=traffic.run, args=(n,)) for n in range(SENDERS)]
    for thread in threads:
        thread.start()
    traffic.enough.wait()
    bus.end(signal.SIGKILL)
    for thread in threads:
        thread.join()
    return traffic.acknowledged


def receive_all(bus: Bus) -> tuple[set[str], list[int]]:
    """Everything in the queue: message ids, and sequence numbers in order of delivery."""
    ids: set[str] = set()
    numbers: list[int] = []
    client = ServiceBusClient.from_connection_string(bus.connection_string)
    with client, client.get_queue_receiver("orders") as receiver:
        while messages := receiver.receive_messages(max_message_count=200, max_wait_time=2):
            for message in messages:
                ids.add(str(message.message_id))
                numbers.append(message.sequence_number or 0)
                receiver.complete_message(message)
    return ids, numbers


def fail_a_message(bus: Bus) -> tuple[int, str]:
    """Abandon one message until it is dead-lettered: deliveries, and the reason given."""
    deliveries = 0
    client = ServiceBusClient.from_connection_string(bus.connection_string)
    with client:
        with client.get_queue_sender("invoices") as sender:
            sender.send_messages(ServiceBusMessage("unreadable invoice"))
        with client.get_queue_receiver("invoices") as receiver:
            while messages := receiver.receive_messages(max_wait_time=1):
                deliveries += 1
                receiver.abandon_message(messages[0])
        dead_letters = client.get_queue_receiver(
            "invoices", sub_queue=ServiceBusSubQueue.DEAD_LETTER
        )
        with dead_letters:
            (message,) = dead_letters.receive_messages(max_wait_time=5)
            dead_letters.complete_message(message)
    return deliveries, str(message.dead_letter_reason)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="partibus-demo-") as directory:
        bus = Bus(Path(directory))
        try:
            return story(bus)
        finally:
            bus.end(signal.SIGTERM)


def story(bus: Bus) -> int:
    ready_seconds = bus.start()
    print(f"The bus is ready after {ready_seconds:.2f} s.")
    print(f"{SENDERS} senders of the stock SDK are at work ...")
    acknowledged = kill_under_load(bus)
    print(f"SIGKILL, with {len(acknowledged)} messages acknowledged.")
    print(f"Started again on the same data after {bus.start(bus.port):.2f} s; receiving ...")
    received, numbers = receive_all(bus)
    deliveries, reason = fail_a_message(bus)

    lost = acknowledged - received
    unique = len(set(numbers)) == len(numbers)
    print()
    print(f"  acknowledged before the kill   {len(acknowledged)}")
    print(f"  received after the restart     {len(received)}")
    print(f"  acknowledged and lost          {len(lost)}")
    print(f"  sequence numbers               {numbers[0]} to {numbers[-1]}, each once: {unique}")
    print(f"  a failing message              {deliveries} deliveries, then {reason}")
    kept = not lost and unique and (deliveries, reason) == (3, "MaxDeliveryCountExceeded")
    print()
    print("Every promise was kept." if kept else "A promise was broken.")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
