"""`partibus pipeline capture` and `replay`: what a person types, and what is told."""

import json
from pathlib import Path
from typing import Any

import pytest

from pyspark_servicebus.pipelines.run.state import load_states
from spark.bus import Bus

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("spark")]


def test_a_capture_and_its_replay(partibus: Any, bus: Bus, tmp_path: Path) -> None:
    queue, again, lake = bus.queue(), bus.queue(), tmp_path / "lake"
    bodies = bus.fill(queue, 100)
    state = ("--state-dir", tmp_path / "state", "--metrics-file", tmp_path / "m.prom")
    done = partibus("capture", queue, lake, "--name", "nightly", *state)
    assert done.code == 0, done.err
    assert f"{queue} -> {lake} (parquet)\n  100 messages of 4 fragments in 1 window," in done.out
    assert "nightly" not in done.out
    assert f"{queue}: 100 messages" in done.err
    [told] = load_states(tmp_path / "state")
    assert (told.name, told.kind, told.status, told.rows) == ("nightly", "capture", "finished", 100)
    assert 'rows_total{name="nightly",kind="capture"} 100' in (tmp_path / "m.prom").read_text()

    shown = partibus("capture", "show", lake)
    assert "100 messages of 4 fragments, 1 window, 4 files" in shown.out
    assert json.loads(partibus("capture", "show", lake, "--json").out)["rows"] == 100
    compacted = partibus("capture", "compact", lake, *state)
    assert "4 files before, 4 now; 0 messages rewritten" in compacted.out

    dry = partibus("replay", lake, again, "--dry-run", "--speed", "2", *state)
    assert dry.code == 0, dry.err
    assert "100 messages of 4 fragments would be sent" in dry.out
    assert bus.left(again) == (0, 0, 0)
    sent = partibus("replay", lake, again, "--rewrite-ids", "--json", *state)
    assert json.loads(sent.out)["rows"] == 100
    assert sorted(str(message) for message in bus.peek(again)) == sorted(bodies)
    assert all(message.message_id.startswith("replay-") for message in bus.peek(again))


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("capture", "Q", "L", "--template", "{entty}"), 2, "did you mean {entity}?"),
        (
            ("capture", "Q", "L", "--window-size", "much"),
            2,
            "window_size: 'much' is not a valid size",
        ),
        (("capture", "Q", "L", "--run-time", "5s"), 2, "run_time: it is for a continuous"),
        (("capture", "nowhere", "L"), 4, "'nowhere' could not be found"),
        (("capture", "Q", "L", "--conf", "x"), 2, "conf: 'x' is not of the form K=V"),
        (("capture", "Q", "L", "--name", "a/b"), 2, "name: 'a/b' is not a valid name"),
        (("capture", "show", "L"), 2, "holds no capture"),
        (("capture", "compact", "L"), 2, "holds no capture"),
        (("replay", "L", "Q"), 2, "no capture and no Parquet file in"),
        (("replay", "L", "Q", "--since", "noon"), 2, "since: 'noon' is not a valid time"),
        (("replay", "L", "Q", "--speed", "0"), 2, "speed: 0.0 is too small"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(
    partibus: Any, tmp_path: Path, words: tuple[str, ...], code: int, told: str
) -> None:
    places = {"Q": "plain-0", "L": str(tmp_path / "lake")}
    done = partibus(*(places.get(word, word) for word in words))
    assert (done.code, done.out) == (code, "")
    assert told in done.err
    assert done.err.startswith("partibus: ")
    assert done.err.count("\n") == 1
