"""When a pipeline runs: once, at intervals, at times of day, or continuously.

Owns the syntax of a schedule and the computation of the next run. After a run that takes longer
than its interval, the next one starts at the next due time: runs never overlap, and missed ones are
skipped. Pure: the time is passed in.
"""

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pyspark_servicebus.pipelines.run.settings import SettingsError
from pyspark_servicebus.pipelines.run.settings_table import read_table, setting

Kind = Literal["once", "continuous", "every", "at"]
_TIME: Final = re.compile(r"(\d\d?):(\d\d)")
_FIELDS: Final = (
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day", 1, 31),
    ("month", 1, 12),
    ("weekday", 0, 7),
)
_DAYS_MAX: Final = 4 * 366 + 1
"""Within this many days there is a 29th of February."""
_SUNDAY: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """A schedule as a file writes it."""

    once: bool = setting("Process what is there and end.", "switch", default=False)
    continuous: bool = setting("Run until stopped.", "switch", default=False)
    every_ms: int | None = setting("The time between runs.", "duration", default=None, least=1000)
    at: str | None = setting("A time, 02:30, or five fields as in cron.", default=None)


@dataclass(frozen=True, slots=True)
class Times:
    """Times of day, to the minute, as in cron."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """As ISO counts them: Monday is 1, Sunday is 7."""
    either_day: bool
    """Days of the month and of the week are both given: either matches."""

    def after(self, moment: datetime.datetime) -> datetime.datetime:
        """The first of them that is later."""
        start = moment.replace(second=0, microsecond=0) + datetime.timedelta(minutes=1)
        for days in range(_DAYS_MAX):
            day = start + datetime.timedelta(days=days)
            if not self._has_day(day):
                continue
            for hour in sorted(self.hours):
                for minute in sorted(self.minutes):
                    found = day.replace(hour=hour, minute=minute)
                    if found >= start:
                        return found
        raise SettingsError("at: no day matches this; for example: 02:30 or */10 * * * *.")

    def _has_day(self, day: datetime.datetime) -> bool:
        if day.month not in self.months:
            return False
        in_month, in_week = day.day in self.days, day.isoweekday() in self.weekdays
        return (in_month or in_week) if self.either_day else (in_month and in_week)


@dataclass(frozen=True, slots=True)
class Schedule:
    """When to run."""

    kind: Kind = "once"
    every_ms: int = 0
    times: Times | None = None

    @classmethod
    def from_table(cls, table: Mapping[str, object]) -> "Schedule":
        """A schedule from the keys of a table."""
        written = read_table(_Written, table)
        chosen = [
            name
            for name in ("once", "continuous", "every", "at")
            if table.get(name) not in (None, False)
        ]
        if len(chosen) > 1:
            raise SettingsError(f"{', '.join(chosen)}: give one of them.")
        if written.every_ms is not None:
            return cls("every", every_ms=written.every_ms)
        if written.at is not None:
            times = read_times(written.at)
            times.after(datetime.datetime(2000, 1, 1))
            return cls("at", times=times)
        return cls("continuous" if written.continuous else "once")

    @property
    def repeats(self) -> bool:
        """Whether one run follows another."""
        return self.kind in ("every", "at")

    def next_run(self, began: datetime.datetime, now: datetime.datetime) -> datetime.datetime:
        """When to run again after a run that began then; never before now."""
        if self.times is not None:
            return self.times.after(max(began, now))
        step = datetime.timedelta(milliseconds=self.every_ms)
        passed = max((now - began) // step, 0)
        due = began + passed * step
        return due if due >= now and due > began else due + step

    def first_run(self, now: datetime.datetime) -> datetime.datetime:
        """When to run first: at once, unless times are given."""
        return self.times.after(now) if self.times is not None else now

    def as_text(self) -> str:
        """For people."""
        if self.kind == "every":
            return f"every {self.every_ms / 1000:g} s"
        return {"once": "once", "continuous": "continuous", "at": "at times of the clock"}[
            self.kind
        ]


def read_times(text: str) -> Times:
    """Moments from a time of day or from five fields."""
    if match := _TIME.fullmatch(text.strip()):
        text = f"{int(match[2])} {int(match[1])} * * *"
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise SettingsError(
            f"at: '{text}' is not a valid time; write 02:30, or minute, hour, day, month and "
            "weekday as "
            "cron does: */10 * * * *."
        )
    sets = [
        _numbers(name, field, low, high)
        for field, (name, low, high) in zip(fields, _FIELDS, strict=True)
    ]
    weekdays = frozenset(day or _SUNDAY for day in sets[4])
    either = fields[2] != "*" and fields[4] != "*"
    return Times(sets[0], sets[1], sets[2], sets[3], weekdays, either)


def _numbers(name: str, field: str, low: int, high: int) -> frozenset[int]:
    found: set[int] = set()
    for part in field.split(","):
        match = re.fullmatch(r"(\*|\d+(?:-\d+)?)(?:/(\d+))?", part)
        if match is None:
            raise SettingsError(f"at: the {name} '{part}' is not valid; write 5, 1-5, 1,3 or */10.")
        step = int(match[2] or 1)
        first, _, last = match[1].partition("-")
        if first == "*":
            begin, end = low, high
        else:
            begin = int(first)
            end = int(last) if last else (high if match[2] else begin)
        if not (low <= begin <= end <= high and step):
            raise SettingsError(f"at: the {name} '{part}' is not between {low} and {high}.")
        found.update(range(begin, end + 1, step))
    return frozenset(found)
