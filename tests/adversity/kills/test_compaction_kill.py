"""SIGKILL while a store compacts under load: what was live is there, byte by byte.

A process of its own appends and releases without pause, with small segments, so that checkpoints
and compactions follow each other, and says what it holds. It is killed at any moment, many times,
on one directory. Each life begins by reading everything that the one before had been told is
durable and had not released.
"""

import random
import subprocess
import sys
from pathlib import Path

LIVES = 8
LINES_PER_LIFE_MAX = 3000

WRITER = """
import queue, random, sys
from pathlib import Path
from partibus.fragment.upkeep.log import Upkeep
from partibus.store.files.log import SegmentStore
from partibus.store.record import Record
import partibus.fragment.upkeep.log as upkeep_module

upkeep_module.CHECKPOINT_BYTES_MIN = 100_000
upkeep_module.DEAD_BYTES_MIN = 50_000
directory, life, held = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
callbacks = queue.SimpleQueue()
store = SegmentStore(directory, notify=callbacks.put, segment_bytes=1 << 16)
for _ in store.open().records:
    pass
live = {}
for line in Path(held).read_text().splitlines():
    position, length, name = line.split()
    store.retain(int(position), int(length))
    live[int(position), int(length)] = name
bodies = store.read_now(list(live))
assert bodies is not None
for body, name in zip(bodies, live.values(), strict=True):
    assert body.startswith(name.encode() + b"."), name
print("found", len(live), flush=True)
upkeep = Upkeep(store, lambda done: store.checkpoint({1: b"s" * 44 * len(live)}, done))
lots = random.Random(life)
number = under_way = 0

def durable(records, names, error):
    global under_way
    under_way -= 1
    assert error is None
    for record, name in zip(records, names, strict=True):
        ref = (record.position, len(record.body))
        if lots.random() < 0.02:
            live[ref] = name
            print("held", *ref, name, flush=True)
        else:
            store.release(*ref)
    if live and lots.random() < 0.2:
        ref = lots.choice(list(live))
        print("gone", *ref, live.pop(ref), flush=True)
        store.release(*ref)
    upkeep.look()

while True:
    names = [f"{life}.{number + n}" for n in range(10)]
    number += 10
    records = [
        Record(1, 1, b"m", (name + ".").encode() * lots.choice([5, 50, 300])) for name in names
    ]
    under_way += 1
    store.append(records, lambda error, r=records, n=names: durable(r, n, error))
    while under_way > 4 or not callbacks.empty():
        callbacks.get()()
"""


def live_on(directory: Path, life: int, held: Path, lines: int) -> list[str]:
    """One life that ends after so many words; gives all that it said."""
    said: list[str] = []
    command = [sys.executable, "-c", WRITER, str(directory), str(life), str(held)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": ":".join(sys.path)}
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line.strip())
            if len(said) == lines:
                process.kill()
    assert process.returncode == -9, "it ended by itself"
    return said


def test_what_is_live_survives_kills_in_the_middle_of_compaction(tmp_path: Path, seed: int) -> None:
    lots = random.Random(seed)
    directory, held = tmp_path / "store", tmp_path / "held"
    live: dict[str, str] = {}
    compacted = 0
    for life in range(LIVES):
        held.write_text("".join(f"{ref} {name}\n" for ref, name in live.items()))
        said = live_on(directory, life, held, lots.randrange(200, LINES_PER_LIFE_MAX))
        assert said[0] == f"found {len(live)}"
        for line in said[1:]:
            word, position, length, name = line.split()
            if word == "held":
                live[f"{position} {length}"] = name
            else:
                del live[f"{position} {length}"]
        compacted += any(directory.glob("*.kept"))
    # How often depends on the machine: it runs in the background.
    assert compacted
