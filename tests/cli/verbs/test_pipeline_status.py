"""What `partibus pipeline status` shows, from files that runs have left."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import pytest

from cli.command import Partibus
from support.groups import absent_groups

if "spark" in absent_groups():
    pytest.skip("pipelines need Spark", allow_module_level=True)

from pyspark_servicebus.pipelines.run.state import PipelineState, save_state

NOW_MS = 1_700_000_000_000


def keep(directory: Path, name: str, **given: object) -> None:
    known: dict[str, object] = {
        "name": name,
        "kind": "transform",
        "run_id": "r",
        "started_ms": NOW_MS,
        "updated_ms": NOW_MS,
    }
    save_state(directory, PipelineState(**{**known, **given}))  # type: ignore[arg-type]


@pytest.fixture
def states(tmp_path: Path) -> Path:
    going = {"process": os.getpid(), "rows": 1200, "rate": 100.0, "lag": 500, "last_batch": 3}
    keep(tmp_path, "going", **going)
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    keep(tmp_path, "killed", process=done.pid)
    keep(tmp_path, "wrong", finished_ms=NOW_MS, error="the bus\nis away. " + "x" * 200)
    keep(tmp_path, "well", finished_ms=NOW_MS, rows=7)
    return tmp_path


def test_the_table(states: Path) -> None:
    done = Partibus(None).try_("pipeline", "status", "--state-dir", str(states))
    header, *lines = done.out.splitlines()
    assert header.split()[:3] == ["name", "kind", "state"]
    assert [line.split()[:3] for line in lines] == [
        ["going", "transform", "running"],
        ["killed", "transform", "lost"],
        ["well", "transform", "finished"],
        ["wrong", "transform", "failed"],
    ]
    for words in ("1,200", "100/s", "500", "5s"):
        assert words in lines[0]
    assert "the bus is away. xxx" in lines[3]
    assert lines[3].rstrip().endswith("…")


def test_one_of_them_for_programs(states: Path) -> None:
    done = Partibus(None).try_("pipeline", "status", "going", "--json", "--state-dir", str(states))
    (state,) = done.json
    assert (state["name"], state["state"], state["eta_seconds"]) == ("going", "running", 5.0)


def test_none(states: Path, tmp_path: Path) -> None:
    done = Partibus(None).try_("pipeline", "status", "absent", "--state-dir", str(states))
    assert done.code == 4
    assert "known pipelines: going, killed, well, wrong." in done.err
    empty = Partibus(None).try_("pipeline", "status", "--state-dir", str(tmp_path / "empty"))
    assert empty.out == "No pipeline has run yet.\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_watching_ends_as_other_watching_does(states: Path, number: int, code: int) -> None:
    """What it shows is what is known then, and again when that has changed."""
    words = ("pipeline", "status", "going", "--watch", "--json", "--state-dir", str(states))
    with Partibus(None).start(*words) as process:
        assert process.stdout is not None
        assert shown(process.stdout)["rows"] == 1200
        keep(states, "going", process=os.getpid(), rows=1300)
        while shown(process.stdout)["rows"] != 1300:
            pass
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (code, "")


def shown(stream: IO[str]) -> Any:
    """The next state; JSON of several lines ends with the bracket it began with."""
    lines = []
    for line in stream:
        lines.append(line)
        if line == "]\n":
            break
    (state,) = json.loads("".join(lines))
    return state
