"""What is told of a pipeline's progress, and the sentence in what Spark makes of an error."""

import io
from types import SimpleNamespace

import pytest

from pyspark_servicebus.pipelines.run.progress import (
    ConsoleProgress,
    ProgressGroup,
    plain_words,
    watch,
)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_plain_lines_come_now_and_then() -> None:
    clock, stream = Clock(), io.StringIO()
    console = ProgressGroup(ConsoleProgress(stream, clock))
    console.started("nightly", None)
    clock.now = 1.0
    console.advanced(1000, 59_000, 0)
    assert stream.getvalue() == ""
    clock.now = 10.0
    console.advanced(9000, 50_000, 1)
    clock.now = 20.0
    console.finished()
    assert stream.getvalue() == "nightly: 10,000 messages, 1,000/s, 50,000 behind, 50s left\n"


def test_a_total_gives_the_time_left() -> None:
    clock, stream = Clock(), io.StringIO()
    console = ConsoleProgress(stream, clock)
    console.started("again", 20_000)
    clock.now = 100.0
    console.advanced(10_000, None, 0)
    assert stream.getvalue() == "again: 10,000 of 20,000 messages, 100/s, 1m40s left\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "[STREAM_FAILED] Query [id = 1] terminated\nTraceback\n  File x\n"
            "pyspark_servicebus.errors.DataLoss: Messages were let go.\n\n",
            "Messages were let go.",
        ),
        ("Job aborted\nCaused by: java.io.IOException: No space left on device", "is full"),
        ("Job aborted\nCaused by: java.io.FileNotFoundException: x", "FileNotFoundException: x"),
        ("Traceback\nValueError: a broken value\n", "a broken value"),
        (
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: It was late. "
            "SQLSTATE: XXKST\nmore",
            "It was late.",
        ),
        ("something else\nmore", "something else"),
    ],
)
def test_the_sentence_in_an_error(text: str, words: str) -> None:
    assert words in plain_words(text)


class Reported:
    """A query that has ended, with one report."""

    def __init__(self, end: str, latest: str, start: str | None = None, rows: int = 0) -> None:
        source = SimpleNamespace(
            startOffset=start, endOffset=end, latestOffset=latest, numInputRows=rows
        )
        self.lastProgress = SimpleNamespace(
            batchId=4, timestamp="t", numInputRows=rows, sources=[source]
        )
        self.readings = 0

    isActive = False  # noqa: N815 - Spark's name

    @property
    def recentProgress(self) -> list[SimpleNamespace]:  # noqa: N802 - Spark's name
        self.readings += 1
        return [self.lastProgress]

    def awaitTermination(self) -> None:  # noqa: N802 - Spark's name
        pass


@pytest.mark.parametrize(
    ("end", "latest", "lag"),
    [
        ('{"v": 1, "f": {"0": 5, "1": 7}}', '{"v": 1, "f": {"0": 9, "1": 7}}', 4),
        (
            '{"v": 1, "f": {"0": 50}, "c": "batch 1"}',
            '{"v": 1, "f": {"0": 30, "1": 3}, "c": "waiting"}',
            33,
        ),
        ('{"version": 2, "positions": {"0": 5}}', '{"version": 2, "positions": {"0": 9}}', 4),
        ('{"version": 2, "claim": "batch 1"}', '{"version": 2, "waiting": {"0": 30}}', 30),
        ("{}", "{}", None),
    ],
)
def test_what_still_waits(end: str, latest: str, lag: int | None) -> None:
    watcher = Noting()
    watch(Reported(end, latest), watcher.advanced, lambda batch: batch * 10)  # type: ignore[arg-type]
    assert watcher.told == [(40, lag, 4)]


def test_the_retained_reports_are_read_only_when_there_is_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Waiting(Reported):
        looks = iter((True, True, True, False))

        @property
        def isActive(self) -> bool:  # noqa: N802 - Spark's name
            return next(self.looks)

    monkeypatch.setattr("pyspark_servicebus.pipelines.run.progress.POLL_S", 0)
    query, watcher = Waiting("{}", "{}"), Noting()
    watch(query, watcher.advanced, lambda batch: 1)  # type: ignore[arg-type]
    assert watcher.told == [(1, None, 4)]
    assert query.readings == 1


class Noting(ConsoleProgress):
    """Keeps what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[int, int | None, int]] = []

    def advanced(self, rows: int, lag: int | None, batch: int) -> None:
        self.told.append((rows, lag, batch))


@pytest.mark.parametrize(
    ("start", "end", "counted", "rows"),
    [
        # A stage that is run again counts its rows again; the batch has what was planned for it.
        (None, '{"v": 1, "f": {"0": 6, "1": 1}, "k": {"0": 5}}', 10, 5),
        ("None", '{"v": 1, "f": {"0": 6}, "k": {"0": 5}}', 10, 5),
        (
            '{"v": 1, "f": {"0": 6}}',
            '{"v": 1, "f": {"0": 9, "1": 4}, "k": {"0": 3, "1": 3}}',
            12,
            6,
        ),
        ('{"v": 1, "f": {}, "c": ""}', '{"v": 1, "f": {"0": 3, "2": 4}, "c": "batch 1"}', 14, 7),
        ('{"v": 1, "n": 1, "c": "a", "k": 9}', '{"v": 1, "n": 2, "c": "b", "k": 8}', 16, 8),
        (None, '{"version": 2, "positions": {"0": 6}, "messages": {"0": 5}}', 10, 5),
        (None, '{"version": 2, "claim": "batch 1", "messages": {"0": 5}}', 10, 5),
        (None, '{"version": 2, "batch": 1, "claim": "a", "count": 8}', 16, 8),
        # Some are gone since they were planned.
        (None, '{"v": 1, "f": {"0": 6}, "k": {"0": 5}}', 4, 4),
        # What is planned is not known for all.
        ('{"v": 1, "f": {"0": 6}}', '{"v": 1, "f": {"0": 9, "1": 4}, "k": {"0": 3}}', 6, 6),
        (None, '{"other": 1}', 6, 6),
    ],
)
def test_a_stage_that_is_run_again_is_counted_once(
    start: str | None, end: str, counted: int, rows: int
) -> None:
    watcher = Noting()
    watch(Reported(end, "{}", start, counted), watcher.advanced)  # type: ignore[arg-type]
    assert [told[0] for told in watcher.told] == [rows]
