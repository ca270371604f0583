"""When runs are due."""

import datetime

import pytest

from pyspark_servicebus.pipelines.declared.schedule import Schedule, read_times
from pyspark_servicebus.pipelines.run.settings import SettingsError


def moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("at", "now", "due"),
    [
        ("02:30", "2026-01-31T02:29:59", "2026-01-31T02:30"),
        ("02:30", "2026-01-31T02:30:00", "2026-02-01T02:30"),
        ("*/10 * * * *", "2026-01-31T23:55", "2026-02-01T00:00"),
        ("5,35 8-10 * * *", "2026-01-31T10:35", "2026-02-01T08:05"),
        ("0 0 1 * *", "2026-01-31T12:00", "2026-02-01T00:00"),
        ("0 0 * * 1", "2026-01-31T12:00", "2026-02-02T00:00"),
        ("0 0 * * 0", "2026-01-31T12:00", "2026-02-01T00:00"),
        ("0 0 * * 7", "2026-01-31T12:00", "2026-02-01T00:00"),
        ("0 0 13 * 5", "2026-02-01T00:00", "2026-02-06T00:00"),
        ("0 0 29 2 *", "2026-01-31T12:00", "2028-02-29T00:00"),
        ("7/20 * * * *", "2026-01-31T12:08", "2026-01-31T12:27"),
    ],
)
def test_times_of_the_clock(at: str, now: str, due: str) -> None:
    assert read_times(at).after(moment(now)) == moment(due)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"at": "25:00"}, "the hour '25' is not between 0 and 23"),
        ({"at": "* * *"}, "'.*' is not a valid time; write 02:30"),
        ({"at": "a * * * *"}, "the minute 'a' is not valid"),
        ({"at": "*/0 * * * *"}, "not between"),
        ({"at": "0 0 31 2 *"}, "no day matches this"),
        ({"every": "5 parrots"}, "every: '5 parrots' is not a valid duration"),
        ({"every": "10ms"}, "every: 10ms is too small"),
        ({"evry": "5m"}, "did you mean every"),
        ({"every": "5m", "at": "02:30"}, "every, at: give one of them"),
        ({"once": "yes"}, "once: 'yes' is neither true nor false"),
    ],
)
def test_refused(table: dict[str, object], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        Schedule.from_table(table)


def test_kinds() -> None:
    assert Schedule.from_table({}).kind == "once"
    assert Schedule.from_table({"once": True}).kind == "once"
    assert Schedule.from_table({"continuous": True}).kind == "continuous"
    assert Schedule.from_table({"every": "1h30m"}) == Schedule("every", every_ms=5_400_000)
    assert Schedule.from_table({"at": "02:30"}).repeats


@pytest.mark.parametrize(
    ("ended", "due"),
    [
        ("12:00:30", "12:05"),  # quick: the next one is due by the clock
        ("12:05:00", "12:05"),  # it took just as long
        ("12:07:00", "12:10"),  # too long: one is left out, and none overlaps
        ("12:31:00", "12:35"),
        ("12:00:00", "12:05"),
    ],
)
def test_intervals_never_overlap(ended: str, due: str) -> None:
    schedule = Schedule.from_table({"every": "5m"})
    began = moment("2026-01-31T12:00:00")
    next_run = schedule.next_run(began, moment(f"2026-01-31T{ended}"))
    assert next_run == moment(f"2026-01-31T{due}")


def test_the_first_run() -> None:
    now = moment("2026-01-31T12:00:00")
    assert Schedule.from_table({"every": "5m"}).first_run(now) == now
    assert Schedule.from_table({"at": "02:30"}).first_run(now) == moment("2026-02-01T02:30")
