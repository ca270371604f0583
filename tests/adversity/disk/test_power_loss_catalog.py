"""Loss of power at any moment: the catalog has every change that somebody was told of.

A process changes a catalog while all that it and SQLite do to the files is noted
(`support.file_trace`); then the files are rebuilt as losses of power at many moments may have left
them. Each state opens, and has what was acknowledged, perhaps with the change that was under way.
"""

import os
import random
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from adversity.disk.power_loss import Operation, Sync, promises, rebuild
from partibus.control.catalog.catalog import Catalog
from partibus.domain.entity import QueueSpec
from partibus.domain.errors import BusError
from support.file_trace import FileTrace
from support.server import environment

STATES = int(os.environ.get("PARTIBUS_POWER_STATES", "60"))
CHANGES = 40

PROGRAM = """
import json, os, random, sys
from dataclasses import replace
from pathlib import Path
from partibus.control.catalog.catalog import Catalog
from partibus.domain.entity import QueueSpec

root, seed, changes = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
rng = random.Random(seed)
told = os.open(root / "promises", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
state = {}

def tell(word):
    os.write(told, json.dumps([word, state]).encode())

catalog = Catalog(root / "catalog.db", stores=2)
tell("done")
for number in range(changes):
    kind = rng.choice(["create", "create", "update", "delete", "copy"])
    name = rng.choice(sorted(state)) if state and kind != "create" else f"queue-{number}"
    if kind == "copy":
        catalog.keep_copy(root / "catalog.copy")
        continue
    if kind == "delete" and name in state:
        del state[name]
    else:
        kind = "update" if name in state else "create"
        state[name] = rng.randrange(1, 1000)
    tell("begun")
    if kind == "delete":
        catalog.delete(name)
    elif kind == "create":
        catalog.create(name, QueueSpec(max_delivery_count=state[name]))
    else:
        spec = catalog.entity(name).spec
        catalog.update(name, replace(spec, max_delivery_count=state[name]))
    tell("done")
catalog.close()
"""


def traced(place: Path, seed: int) -> list[Operation]:
    root = place / "data"
    root.mkdir()
    trace = FileTrace(place, root)
    command = [sys.executable, "-c", PROGRAM, str(root), str(seed), str(CHANGES)]
    subprocess.run(command, check=True, env=environment() | trace.environment)
    return trace.operations()


def state_of(file: Path) -> dict[str, int]:
    with closing(Catalog(file, stores=2)) as catalog:
        found = {}
        for record in catalog.entities():
            assert isinstance(record.spec, QueueSpec)
            found[record.path] = record.spec.max_delivery_count
        return found


def faults_of(trace: list[Operation], place: Path, seed: int) -> list[str]:
    rng = random.Random(seed)
    begun = next(i for i, o in enumerate(trace) if promises([o])) + 1
    faults = []
    for number in range(STATES):
        cut = rng.randrange(begun, len(trace) + 1)
        state = place / f"state-{number}"
        rebuild(trace[:cut], state, random.Random(seed + number))
        notes: list[tuple[str, dict[str, int]]] = promises(trace[:cut])  # type: ignore[assignment]
        done = next(expected for word, expected in reversed(notes) if word == "done")
        try:
            assert state_of(state / "catalog.db") in (done, notes[-1][1])
        except (AssertionError, BusError) as error:
            faults.append(f"state {number}, after {cut} operations: {error}")
    return faults


@pytest.mark.group("wall-clock")
@pytest.mark.timeout(600)
def test_whatever_a_loss_of_power_leaves_of_the_catalog(tmp_path: Path, seed: int) -> None:
    trace = traced(tmp_path, seed % 2**31)
    assert faults_of(trace, tmp_path, seed) == []


@pytest.mark.group("wall-clock")
@pytest.mark.timeout(600)
def test_a_catalog_without_its_syncs_would_be_found_out(tmp_path: Path) -> None:
    trace = traced(tmp_path, 7)
    begun = next(i for i, o in enumerate(trace) if promises([o])) + 1
    weak = [
        replace(o, began=0) if i >= begun and isinstance(o, Sync) else o
        for i, o in enumerate(trace)
    ]
    assert faults_of(weak, tmp_path, 7) != []
