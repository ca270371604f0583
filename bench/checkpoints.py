"""Checkpoints beside a deep backlog, and the start after a kill.

Owns one measurement: a queue is filled through a real store, sends go on while checkpoints are
taken, the process kills itself, and another one opens the store again. Reports how long confirms
took, the longest turn of the loop, what a checkpoint wrote, and the wall and CPU time of the start.
`python -m bench.checkpoints --messages 1000000`.
"""

import argparse
import asyncio
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from partibus.domain.clock import SystemClock
from partibus.domain.errors import BusError
from partibus.fragment.broker import Broker
from partibus.fragment.commands import Enqueue
from partibus.fragment.message import NewMessage
from partibus.fragment.spec import FragmentSpec
from partibus.server.scheduler import LoopScheduler
from partibus.store.files.log import SegmentStore

SPEC: Final = FragmentSpec(lock_duration_ms=30_000, max_delivery_count=10, path="queue")
BATCH: Final = 50
WINDOW: Final = 10
"""Batches that wait for their confirm at a time."""


class Sends:
    """Sends so many messages, a window of batches at a time, and notes each confirm."""

    def __init__(self, broker: Broker, machine: object, body: bytes) -> None:
        self._broker = broker
        self._machine = machine
        self._body = body
        self._left = 0
        self._sent_s: dict[int, float] = {}
        self._number = 0
        self.waits_s: list[float] = []
        self._over = asyncio.Event()

    async def run(self, batches: int) -> None:
        """Send them all and wait for the last confirm."""
        self._left = batches
        self.waits_s = []
        self._over.clear()
        for _ in range(min(WINDOW, batches)):
            self._send()
        await self._over.wait()

    def _send(self) -> None:
        self._left -= 1
        self._number += 1
        self._sent_s[self._number] = time.perf_counter()
        messages = [NewMessage(self._body, -1) for _ in range(BATCH)]
        byte_count = BATCH * len(self._body)
        command = Enqueue(self, messages, [self._number] * BATCH, byte_count)
        self._broker.submit(self._machine, command)  # type: ignore[arg-type]

    def confirmed(
        self, requests: Sequence[int], first_sequence: int, dropped: Sequence[int] = ()
    ) -> None:
        self.waits_s.append(time.perf_counter() - self._sent_s.pop(requests[0]))
        if self._left > 0:
            self._send()
        elif not self._sent_s:
            self._over.set()

    def refused(self, requests: Sequence[int], error: BusError) -> None:
        raise error


async def _watch_turns(wall_s: list[float], cpu_s: list[float]) -> None:
    """Note how long each turn of the loop takes, and how much of that it computes."""
    while True:
        before, used = time.perf_counter(), time.thread_time()
        await asyncio.sleep(0)
        wall_s.append(time.perf_counter() - before)
        cpu_s.append(time.thread_time() - used)


async def fill(directory: Path, messages: int, size: int, extra: int) -> None:
    """Fill the queue, send on, say what that took, and die."""
    loop = asyncio.get_running_loop()
    store = SegmentStore(directory, notify=LoopScheduler(loop).call_from_thread)
    broker = Broker(store, SystemClock(), LoopScheduler(loop))
    broker.open()
    machine = broker.add(1, SPEC)
    sends = Sends(broker, machine, os.urandom(size))
    began = time.perf_counter()
    await sends.run(messages // BATCH)
    print(f"filled with {messages:,} messages in {time.perf_counter() - began:.1f} s", flush=True)
    wall_s: list[float] = []
    cpu_s: list[float] = []
    watch = asyncio.ensure_future(_watch_turns(wall_s, cpu_s))
    await sends.run(extra // BATCH)
    watch.cancel()
    print(f"{extra:,} more:")
    for name, times in (
        ("confirms", sends.waits_s),
        ("turns of the loop", wall_s),
        ("their CPU time", cpu_s),
    ):
        ordered = sorted(times)
        shares = ((0.5, "p50"), (0.99, "p99"), (0.999, "p99.9"), (1.0, "max"))
        print(f"  {name}:", ", ".join(f"{word} {_ms(ordered, share)}" for share, word in shares))
    print(f"log to replay {store.bytes_since_checkpoint / 1e6:.1f} MB", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def _ms(ordered: list[float], share: float) -> str:
    return f"{1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]:.1f} ms"


async def start(directory: Path) -> None:
    """Open the store as a server does after a kill."""
    loop = asyncio.get_running_loop()
    began, used = time.perf_counter(), time.process_time()
    store = SegmentStore(directory, notify=LoopScheduler(loop).call_from_thread)
    broker = Broker(store, SystemClock(), LoopScheduler(loop))
    broker.open()
    machine = broker.add(1, SPEC)
    wall, cpu = time.perf_counter() - began, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    count = machine.state.counts().active
    print(f"start with {count:,} messages: {wall:.2f} s, {cpu:.2f} s of CPU, peak {peak:.0f} MiB")
    broker.abandon()


def main() -> None:
    """Fill and die in one process, start in another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--extra", type=int, default=200_000)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--fill", type=Path)
    parser.add_argument("--start", type=Path)
    given = parser.parse_args()
    if given.fill:
        asyncio.run(fill(given.fill, given.messages, given.size, given.extra))
    elif given.start:
        asyncio.run(start(given.start))
    else:
        with tempfile.TemporaryDirectory() as place:
            own = [sys.executable, "-m", "bench.checkpoints"]
            numbers = ["--messages", str(given.messages), "--size", str(given.size)]
            numbers += ["--extra", str(given.extra)]
            subprocess.run([*own, *numbers, "--fill", place], check=False)
            subprocess.run([*own, "--start", place], check=True)


if __name__ == "__main__":
    main()
