"""A process that is killed in the middle of its work."""

import subprocess
import sys
from typing import Any

WRITER = """
import queue, sys
from pathlib import Path
from partibus.store.files.log import SegmentStore
from partibus.store.record import Record

callbacks = queue.SimpleQueue()
store = SegmentStore(Path(sys.argv[1]), notify=callbacks.put, segment_bytes=1 << 16)
store.open()

def told(number):
    print(number, flush=True)

for number in range(1_000_000):
    record = Record(number, 1, b"%d" % number, b"x" * 1000)
    store.append([record], lambda error, number=number: told(number))
    if number > 8:
        callbacks.get()()
"""


def test_everything_a_killed_process_had_acknowledged_is_there(stores: Any) -> None:
    acknowledged = -1
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(stores.directory)],
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            acknowledged = int(line)
            if acknowledged == 300:
                process.kill()
    assert acknowledged >= 300
    found = [record.fragment for record in stores.make().open().records]
    assert found == list(range(len(found)))
    assert len(found) > acknowledged
