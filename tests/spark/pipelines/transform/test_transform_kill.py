"""The driver of a transform is killed while it searches for the messages that fail."""

from pathlib import Path

import pytest

from spark.bus import Bus
from spark.pipelines.arrivals import bodies_arrive
from spark.pipelines.verbs import Process

pytestmark = [
    pytest.mark.group("spark"),
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(900),
]
HERE = Path(__file__).parent
COUNT, BATCH = 40, 20


def transforming(bus: Bus, place: Path, source: str, target: str, failures: str) -> Process:
    words = [source, target, "--python", f"{HERE}/held.py:tenths_fail", "--max-messages", BATCH]
    words += ["--failure-queue", failures, "--state-dir", place, "--master", "local[2,4]"]
    return Process.verb(bus.connection_string, place / "said.txt", "transform", *words)


def test_every_message_has_one_end(
    bus: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target, failures = bus.queue("plain"), bus.queue(), bus.queue("plain")
    sent = bus.fill(source, COUNT)
    good = [body for body in sent if int(body) % 10]
    bad = [body for body in sent if not int(body) % 10]
    held = tmp_path / "held"
    monkeypatch.setenv("HELD", str(held))
    words = (bus, tmp_path, source, target, failures)
    with transforming(*words) as first:
        first.until("the search of the second batch", held.exists)
        first.kill()
    # The first batch is done, and of the second nobody has seen anything.
    bodies_arrive(bus, target, [body for body in good if int(body) < BATCH])
    bodies_arrive(bus, failures, [body for body in bad if int(body) < BATCH])
    with transforming(*words) as second:
        assert second.ended() == 0, second.said()
        told = f"{BATCH} messages of {source} read, 18 sent on, 2 failed; 1 batch in"
        assert told in second.said()
        assert "QueryContextLogger" not in second.said()  # what fails in a search is nobody's news
    bodies_arrive(bus, target, good)
    bodies_arrive(bus, failures, bad)
    assert bus.left(source) == (0, 0, 0)
