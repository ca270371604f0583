"""Duplicate detection at scale: millions of ids within the window, in one process.

Owns the measuring of what detection adds to each send (identity, look-up, record, remembering),
of the memory an id takes, and of the longest pauses: in the traffic, in a sweep, in a snapshot.
Times are CPU time of this thread, which other work on the machine hardly moves. Numbers in
docs/internals/duplicate-detection.md. `python -m bench.duplicates`.
"""

import argparse
import gc
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from bench import gauge
from partibus.domain.errors import BusError
from partibus.fragment.commands import Enqueue
from partibus.fragment.effects import Effects
from partibus.fragment.message import NewMessage
from partibus.fragment.queue.duplicates import drop_duplicates, identified, remember
from partibus.fragment.queue.history import History
from partibus.fragment.spec import FragmentSpec
from partibus.fragment.state import State
from partibus.ops.compiled import is_compiled

IDS: Final = 10_000_000
WINDOW_MS: Final = 600_000
BATCH: Final = 100
"""Messages in a command, as one read of a busy socket brings them."""
START_MS: Final = 1_700_000_000_000
MILLION: Final = 1_000_000

_cpu_s = time.thread_time


class Nobody:
    """Takes every answer and does nothing with it."""

    def confirmed(
        self, requests: Sequence[int], first_sequence: int, dropped: Sequence[int] = ()
    ) -> None: ...

    def refused(self, requests: Sequence[int], error: BusError) -> None: ...


@dataclass(slots=True)
class Numbers:
    """What one run of sends took."""

    sends: int
    dropped: int
    us_each: float
    longest_ms: float

    def told(self) -> str:
        return (
            f"{self.us_each:.2f} us a message, "
            f"the longest command of {BATCH} {self.longest_ms:.1f} ms, "
            f"{self.dropped} of {self.sends} dropped"
        )


def commands(first: int, count: int) -> Iterator[Enqueue]:
    """Messages with the ids of these numbers, none of them ever made before it is needed."""
    nobody = Nobody()
    for begin in range(first, first + count, BATCH):
        numbers = range(begin, min(begin + BATCH, first + count))
        messages = [NewMessage(b"", -1, message_id=f"order-{number:012d}") for number in numbers]
        yield Enqueue(nobody, messages, [0], 0)


def run(state: State, first: int, count: int, begin_ms: int, span_ms: int) -> Numbers:
    """Send so many ids, spread over a time, and remember those that are new."""
    total_s = longest_s = 0.0
    dropped = done = 0
    for command in commands(first, count):
        now_ms = begin_ms + span_ms * done // count
        out = Effects()
        before_s = _cpu_s()
        _, check = drop_duplicates(state, command, now_ms)
        if check.identities:
            identified(state, check)
        remember(state, check, now_ms, out)
        spent_s = _cpu_s() - before_s
        total_s += spent_s
        longest_s = max(longest_s, spent_s)
        dropped += len(check.dropped)
        done += len(command.messages)
    return Numbers(count, dropped, total_s / count * MILLION, longest_s * 1000)


def sweep(history: History, now_ms: int) -> tuple[int, float, float]:
    """Let everything grow old; the steps, all CPU seconds and the longest step."""
    steps, total_s, longest_s = 0, 0.0, 0.0
    while history.count:
        now_ms = max(now_ms, history.sweep_due_ms)
        before_s = _cpu_s()
        history.sweep(now_ms, WINDOW_MS)
        spent_s = _cpu_s() - before_s
        steps, total_s, longest_s = steps + 1, total_s + spent_s, max(longest_s, spent_s)
    return steps, total_s, longest_s


def measure(ids: int) -> Iterator[str]:
    """Fill the window, repeat, go on while ids leave it, write down, read back, forget."""
    spec = FragmentSpec(
        lock_duration_ms=60_000, max_delivery_count=10, duplicate_window_ms=WINDOW_MS
    )
    state = State(1, spec)
    history = state.history
    before_bytes = gauge.resident_bytes(os.getpid())
    yield f"new ids: {run(state, 0, ids, START_MS, WINDOW_MS // 2).told()}"
    yield memory(history, before_bytes, ids)
    sample = min(ids, MILLION)
    repeats = run(state, ids - sample, sample, START_MS + WINDOW_MS // 2, 0)
    yield f"the last {sample} again: {repeats.told()}"

    # The first ids leave the window as fast as new ones come.
    later = run(state, ids, ids // 2, START_MS + WINDOW_MS, WINDOW_MS // 4)
    yield f"new ids while old ones leave: {later.told()}"
    yield memory(history, before_bytes, ids)

    before_s = _cpu_s()
    data = b"".join(history.dump())
    yield f"snapshot: {_cpu_s() - before_s:.2f} s, {len(data) / 1e6:.0f} MB"
    copy = History()
    before_s = _cpu_s()
    copy.load(data)
    yield f"read back: {_cpu_s() - before_s:.2f} s"
    del data, copy
    gc.collect()

    steps, total_s, longest_s = sweep(history, START_MS + 3 * WINDOW_MS)
    yield f"sweep of all: {total_s:.2f} s in {steps} steps, the longest {longest_s * 1000:.1f} ms"


def memory(history: History, before_bytes: int, ids: int) -> str:
    resident = gauge.resident_bytes(os.getpid()) - before_bytes
    return (
        f"memory: {history.count} ids held in {len(history.shards())} shards, "
        f"{history.byte_count / ids:.1f} bytes for each id in the window, "
        f"{resident / ids:.1f} resident"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.duplicates", description=__doc__)
    parser.add_argument("--ids", type=int, default=IDS, metavar="N", help="(%(default)s)")
    ids: int = parser.parse_args().ids
    print(
        f"{ids} ids in a window of {WINDOW_MS // 1000} s, {'' if is_compiled() else 'not '}compiled"
    )
    for line in measure(ids):
        print(line, flush=True)


if __name__ == "__main__":
    main()
