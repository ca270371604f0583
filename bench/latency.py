"""What distance costs: sends awaited one by one against overlapped ones (SEED-88).

Owns one scenario, apart from the loads: a bus that is 70 ms away and takes 10 ms for a commit,
made on this machine by `partibus fault latency`, and 100 sends of the stock client over it. Run
it with `python -m bench.latency`; it prints both times and fails when they are not
what the cost model says.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from partibus.cli.place import find_place
from partibus.cli.remote import RemoteServer

QUEUE: Final = "far"
# The numbers of the rule: 100 sends, 70 ms there and back, 10 ms in the store.
SENDS: Final = 100
RTT_MS: Final = 70
STORE_MS: Final = 10
ONE_BY_ONE_S_MIN: Final = SENDS * (RTT_MS + STORE_MS) / 1000
OVERLAPPED_S_MAX: Final = 1.0


@contextmanager
def far_server(directory: Path) -> Iterator[str]:
    """A server on a real disk that can be put at a distance; gives its connection string."""
    config = directory / "namespace.toml"
    config.write_text(f'[[queue]]\nname = "{QUEUE}"\n', encoding="utf-8")
    command = [sys.executable, "-m", "partibus", "serve", "--faults", "--port", "0"]
    command += ["--tls-port", "none", "--http-port", "none"]
    command += ["--data", str(directory / "data"), "--config", str(config)]
    with (
        (directory / "log").open("wb") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            if not line.startswith("PARTIBUS READY"):
                raise RuntimeError(f"partibus did not start: {(directory / 'log').read_text()}")
            yield line.strip().partition("connection-string=")[2]
        finally:
            process.terminate()


def put_far_away(connection_string: str) -> None:
    """The same as `partibus fault latency --rtt 70ms --store 10ms`."""
    fault = {"kind": "latency", "rtt_ms": RTT_MS, "store_ms": STORE_MS}
    RemoteServer(find_place(connection_string)).ask("POST", "/faults", fault)


async def measure(connection_string: str) -> tuple[float, float]:
    """Seconds for the sends one by one, and for the same number overlapped."""
    from azure.servicebus import ServiceBusMessage
    from azure.servicebus.aio import ServiceBusClient

    async with (
        ServiceBusClient.from_connection_string(connection_string) as client,
        client.get_queue_sender(QUEUE) as sender,
    ):
        await sender.send_messages(ServiceBusMessage("the link is open"))
        began = time.perf_counter()
        for number in range(SENDS):
            await sender.send_messages(ServiceBusMessage(f"{number}"))
        awaited = time.perf_counter()
        await asyncio.gather(
            *(sender.send_messages(ServiceBusMessage(f"{number}")) for number in range(SENDS))
        )
        return awaited - began, time.perf_counter() - awaited


def main() -> int:
    argparse.ArgumentParser(prog="python -m bench.latency", description=__doc__).parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="partibus-latency-") as name,
        far_server(Path(name)) as connection_string,
    ):
        put_far_away(connection_string)
        one_by_one_s, overlapped_s = asyncio.run(measure(connection_string))
    print(f"{SENDS} sends, {RTT_MS} ms round trip, {STORE_MS} ms a commit")
    print(f"  awaited one by one  {one_by_one_s:6.2f} s  (at least {ONE_BY_ONE_S_MIN:g} s)")
    print(f"  overlapped          {overlapped_s:6.2f} s  (below {OVERLAPPED_S_MAX:g} s)")
    as_expected = one_by_one_s >= ONE_BY_ONE_S_MIN and overlapped_s < OVERLAPPED_S_MAX
    return 0 if as_expected else 1


if __name__ == "__main__":
    sys.exit(main())
