"""Disk use over much traffic: the files of a store against what is live in it.

Owns mixes of messages that are hard on a log (a few stragglers, a pool in which any message may
be the next to go, sizes and lifetimes of all kinds), run through a real store with the broker's
upkeep. Reports the highest disk use beyond 2 times the live bytes, which must stay below 256 MiB,
and how long commits took, those beside a compaction and the others.
`python -m bench.space --gigabytes 20`.
"""

import argparse
import os
import queue
import random
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from partibus.domain.errors import BusError
from partibus.fragment.upkeep.log import Upkeep
from partibus.server.lifecycle import SWITCH_INTERVAL_S
from partibus.store.files.log import SegmentStore
from partibus.store.files.segment import SEGMENT_BYTES
from partibus.store.interface import Done
from partibus.store.record import Record

MIB: Final = 1 << 20
BATCH: Final = 64
OUTSTANDING: Final = 4
SAMPLE_BYTES: Final = 8 * MIB
STATE_ROW: Final = bytes(44)
"""What a snapshot takes for each message."""
PAUSE_S: Final = 0.01
ALLOWED_BYTES: Final = 256 * MIB
META: Final = bytes(24)

Ref = tuple[int, int]


class Mix:
    """Which messages come, and which go."""

    name = ""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.live: list[Ref] = []
        self.live_bytes = 0

    def length(self) -> int:
        """The size of the next message."""
        return 1000

    def leaving(self, arrived: list[Ref]) -> list[Ref]:
        """What is settled when these have arrived."""
        raise NotImplementedError

    def _take_any(self) -> Ref:
        """One of those that are live, whichever."""
        index = self.random.randrange(len(self.live))
        self.live[index], self.live[-1] = self.live[-1], self.live[index]
        return self.live.pop()


class Stragglers(Mix):
    """All is received at once but one in 5,000, which stays."""

    name = "one in 5,000 stays"

    def leaving(self, arrived: list[Ref]) -> list[Ref]:
        kept = [ref for ref in arrived if self.random.random() < 1 / 5000]
        self.live += kept
        return [ref for ref in arrived if ref not in kept]


class Pool(Mix):
    """A backlog of a fixed size, of which any message may be the next to go."""

    name = "a pool of 300 MB, any may go"
    pool_bytes = 300 * MIB

    def leaving(self, arrived: list[Ref]) -> list[Ref]:
        self.live += arrived
        gone: list[Ref] = []
        going = self.live_bytes - self.pool_bytes
        while going > 0:
            gone.append(self._take_any())
            going -= gone[-1][1]
        return gone


class Mixed(Pool):
    """Sizes from 100 bytes to 200 KB; most go at once, some stay long."""

    name = "sizes and lifetimes of all kinds"
    pool_bytes = 150 * MIB

    def length(self) -> int:
        return self.random.choice([100, 200, 300, 1000, 1000, 4000, 20_000, 200_000])

    def leaving(self, arrived: list[Ref]) -> list[Ref]:
        soon = [ref for ref in arrived if self.random.random() < 0.9]
        return [*soon, *super().leaving([ref for ref in arrived if ref not in soon])]


class Tiny(Pool):
    """A deep backlog of very small messages."""

    name = "a pool of 100 MB in messages of 150 bytes"
    pool_bytes = 100 * MIB

    def length(self) -> int:
        return 150


MIXES: Final = (Stragglers, Pool, Mixed, Tiny)


class Run:
    """One mix through one store."""

    def __init__(self, directory: Path, mix: Mix, segment_bytes: int) -> None:
        self._directory = directory
        self._mix = mix
        self._callbacks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._store = SegmentStore(
            directory, notify=self._callbacks.put, segment_bytes=segment_bytes
        )
        self._store.open()
        self._upkeep = Upkeep(self._store, self._checkpoint)
        self._filler = os.urandom(MIB)
        self._outstanding = 0
        self.written = 0
        self.excess_bytes = -(1 << 62)
        self.commits_s: dict[bool, list[float]] = {False: [], True: []}
        """By whether a compaction was under way when they began."""

    def _checkpoint(self, done: Done) -> None:
        self._store.checkpoint({1: STATE_ROW * len(self._mix.live)}, done)

    def until(self, total_bytes: int, bytes_per_s: float) -> None:
        """Send this much, no faster than this rate, and measure on the way."""
        sample_at = SAMPLE_BYTES
        began = time.perf_counter()
        while self.written < total_bytes:
            self._send()
            while self._outstanding >= OUTSTANDING or not self._callbacks.empty():
                self._callbacks.get()()
            ahead_s = self.written / bytes_per_s - (time.perf_counter() - began)
            if ahead_s > PAUSE_S:
                time.sleep(ahead_s)
            if self.written >= sample_at:
                sample_at += SAMPLE_BYTES
                self.sample()
        while self._outstanding:
            self._callbacks.get()()

    def _send(self) -> None:
        records = []
        for _ in range(BATCH):
            length = self._mix.length()
            start = self._mix.random.randrange(MIB - length)
            records.append(Record(1, 1, META, self._filler[start : start + length]))
            self.written += length
        self._outstanding += 1
        beside = self._upkeep.is_compacting
        self._store.append(records, partial(self._sent, records, time.perf_counter(), beside))

    def _sent(
        self, records: list[Record], began: float, beside: bool, error: BusError | None
    ) -> None:
        assert error is None
        self.commits_s[beside].append(time.perf_counter() - began)
        self._outstanding -= 1
        arrived = [(record.position, len(record.body)) for record in records]
        self._mix.live_bytes += sum(length for _, length in arrived)
        for position, length in self._mix.leaving(arrived):
            self._mix.live_bytes -= length
            self._store.release(position, length)
        self._upkeep.look()

    def sample(self) -> None:
        """Look at the files as an operator does."""
        used = 0
        for entry in os.scandir(self._directory):
            try:
                used += entry.stat().st_blocks * 512
            except FileNotFoundError:
                continue  # deleted meanwhile
        self.excess_bytes = max(self.excess_bytes, used - 2 * self._mix.live_bytes)

    def close(self) -> None:
        self._store.close()


def measure(
    directory: Path, mix: Mix, total_bytes: int, bytes_per_s: float, segment_bytes: int
) -> bool:
    """Run one mix and print its line; whether the bound held."""
    run = Run(directory, mix, segment_bytes)
    began, cpu = time.perf_counter(), time.process_time()
    run.until(total_bytes, bytes_per_s)
    elapsed, cpu = time.perf_counter() - began, time.process_time() - cpu
    run.close()
    allowed = ALLOWED_BYTES * segment_bytes // SEGMENT_BYTES
    held = run.excess_bytes <= allowed
    print(
        f"{mix.name}: {run.written / 1e9:.1f} GB in {elapsed:.0f} s ({cpu:.0f} s of CPU), "
        f"{mix.live_bytes / MIB:.1f} MiB live, at most 2 x live {run.excess_bytes / MIB:+.0f} MiB, "
        f"commits {_spread(run.commits_s[False])}, beside compaction {_spread(run.commits_s[True])}"
        f"{'' if held else ': MORE THAN ALLOWED'}",
        flush=True,
    )
    return held


def _spread(commits_s: list[float]) -> str:
    """How long commits took."""
    if not commits_s:
        return "none"
    ordered = sorted(commits_s)
    median, late = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
    return f"({len(ordered)}) p50 {median * 1e3:.1f} ms p99 {late * 1e3:.1f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.space", description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=20.0, metavar="N", help="each")
    parser.add_argument(
        "--rate", type=float, default=100.0, metavar="N", help="MB a second at most (%(default)s)"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="mixes with this in the name")
    parser.add_argument("--segment-mib", type=int, default=SEGMENT_BYTES // MIB, metavar="N")
    parser.add_argument("--directory", type=Path, default=Path("build"))
    options = parser.parse_args()
    sys.setswitchinterval(SWITCH_INTERVAL_S)  # as a server does
    options.directory.mkdir(exist_ok=True)
    chosen = [kind for kind in MIXES if options.only in kind.name]
    held = True
    for kind in chosen:
        with tempfile.TemporaryDirectory(dir=options.directory) as place:
            held &= measure(
                Path(place) / "store",
                kind(seed=1),
                int(options.gigabytes * 1e9),
                options.rate * 1e6,
                options.segment_mib * MIB,
            )
    raise SystemExit(not held)


if __name__ == "__main__":
    main()
