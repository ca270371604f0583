"""What was found about the traffic of entities, as text and as JSON.

Owns the numbers of a report. It is made once by the pipeline and read by people, programs, charts
and the page; it must never query anything itself.
"""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from partibus.domain.quantities import format_bytes
from pyspark_servicebus.pipelines.analytics.arithmetic import (
    format_age,
    gini,
    histogram_of,
    percent,
)
from pyspark_servicebus.pipelines.report.text_table import moment, report_json, short, text_table
from pyspark_servicebus.pipelines.report.wording import counted

Time = datetime.datetime
KEY_SHOWN: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficWindow:
    """Messages of an entity that were enqueued in one window."""

    start: Time
    entity: str
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentTraffic:
    """Messages of one fragment."""

    entity: str
    fragment: int
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyTraffic:
    """Messages of one key."""

    entity: str
    key: str
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ages:
    """How old the waiting messages are."""

    entity: str
    median_s: float
    p95_s: float
    oldest_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorLag:
    """How far a cursor is behind."""

    entity: str
    cursor: str
    lag: int
    moved_at: Time


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityTraffic:
    """One entity in a line."""

    entity: str
    messages: int
    bytes: int
    first: Time
    last: Time
    rate_mean: float
    """Messages a second from the first window to the last."""
    rate_peak: float
    peak_at: Time
    fragments: int
    fragment_gini: float
    keys: int
    without_key: int
    key_gini: float
    hottest_key: str | None
    hottest_key_share: float
    """Of the messages with a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficReport:
    """Everything that `pipeline analytics` reports."""

    source: str
    """snapshot, captured or stream."""
    namespace: str
    taken_at: Time
    window_s: float
    entities_looked_at: int
    entities: tuple[EntityTraffic, ...] = ()
    windows: tuple[TrafficWindow, ...] = ()
    fragments: tuple[FragmentTraffic, ...] = ()
    keys: tuple[KeyTraffic, ...] = ()
    """The hottest of each entity."""
    key_counts: Mapping[str, Mapping[int, int]] = field(default_factory=dict, repr=False)
    """For each entity, how many keys have how many messages."""
    deliveries: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """For each entity, how many messages were delivered how often before."""
    age_buckets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    ages: tuple[Ages, ...] = ()
    cursors: tuple[CursorLag, ...] = ()
    read_now: int | None = None
    """Messages that a stream has read in this run; the last windows may still be open."""
    written: tuple[str, ...] = ()

    @property
    def messages(self) -> int:
        return sum(entity.messages for entity in self.entities)

    @property
    def bytes(self) -> int:
        return sum(entity.bytes for entity in self.entities)

    def as_json(self) -> str:
        return report_json(self)

    def headline(self) -> str:
        """The finding in a sentence."""
        if not self.entities:
            return f"No messages in {self.entities_looked_at:,} entities."
        where = (
            self.entities[0].entity
            if len(self.entities) == 1
            else f"{len(self.entities):,} entities"
        )
        text = f"{counted(self.messages, 'message')} in {where}"
        hot = max(self.entities, key=lambda entity: entity.hottest_key_share * entity.messages)
        if hot.hottest_key is not None and hot.hottest_key_share >= 0.1 and hot.keys > 2:
            key, share = short(hot.hottest_key, KEY_SHOWN), percent(hot.hottest_key_share)
            of_them = "of them" if len(self.entities) == 1 else f"of {hot.entity}"
            return f"{text}; the key {key} alone has {share} {of_them}"
        peak = max(self.entities, key=lambda entity: entity.rate_peak)
        return f"{text}, at most {peak.rate_peak:,.1f}/s, on {moment(peak.peak_at)}"

    def as_text(self) -> str:
        parts = [self.headline()]
        if self.entities:
            parts.append(self._entity_table())
        if self.ages:
            heads = ("entity", "half is younger than", "95 % than", "oldest")
            parts.append(text_table(heads, self.age_rows(), right=(1, 2, 3)))
        if self.cursors:
            heads = ("entity", "cursor", "behind", "moved")
            parts.append(text_table(heads, self.cursor_rows(), right=(2,)))
        if self.read_now is not None:
            parts.append(f"{counted(self.read_now, 'message')} read in this run")
        if self.written:
            parts.append("\n".join(f"written: {path}" for path in self.written))
        return "\n\n".join(parts)

    def _entity_table(self) -> str:
        heads = (
            *("entity", "messages", "bytes", "mean/s", "peak/s", "keys", "Gini of keys"),
            *("hottest key", "has", "Gini of fragments"),
        )
        rows = [
            (
                entity.entity,
                f"{entity.messages:,}",
                format_bytes(entity.bytes),
                f"{entity.rate_mean:,.2f}",
                f"{entity.rate_peak:,.2f}",
                f"{entity.keys:,}",
                f"{entity.key_gini:.2f}" if entity.keys else "-",
                short(entity.hottest_key or "-", KEY_SHOWN),
                percent(entity.hottest_key_share) if entity.keys else "-",
                f"{entity.fragment_gini:.2f}" if entity.fragments > 1 else "-",
            )
            for entity in self.entities
        ]
        return text_table(heads, rows, right=(1, 2, 3, 4, 5, 6, 8, 9))

    def age_rows(self) -> list[tuple[str, ...]]:
        """For each entity: the median age, the age of 95 %, and that of the oldest."""
        return [
            (age.entity, *map(format_age, (age.median_s, age.p95_s, age.oldest_s)))
            for age in self.ages
        ]

    def cursor_rows(self) -> list[tuple[str, ...]]:
        """For each cursor: its entity, its name, its lag, and when it moved."""
        return [(c.entity, c.cursor, f"{c.lag:,}", moment(c.moved_at)) for c in self.cursors]


def entity_traffic(
    entity: str,
    windows: list[TrafficWindow],
    fragments: list[FragmentTraffic],
    fragment_count: int,
    keys: list[KeyTraffic],
    key_counts: Mapping[int, int],
    width: datetime.timedelta,
) -> EntityTraffic:
    """The line of an entity from its parts; fragments without messages are included."""
    messages = sum(window.messages for window in windows)
    keyed = sum(value * count for value, count in key_counts.items())
    first, last = min(w.start for w in windows), max(w.start for w in windows)
    span_s = (last - first + width).total_seconds()
    busiest = max(windows, key=lambda window: window.messages)
    by_fragment = {fragment.fragment: fragment.messages for fragment in fragments}
    count = max(fragment_count, max(by_fragment, default=0) + 1)
    shares = [by_fragment.get(index, 0) for index in range(count)]
    hottest = max(keys, key=lambda key: key.messages, default=None)
    return EntityTraffic(
        entity=entity,
        messages=messages,
        bytes=sum(window.bytes for window in windows),
        first=first,
        last=last,
        rate_mean=messages / span_s,
        rate_peak=busiest.messages / width.total_seconds(),
        peak_at=busiest.start,
        fragments=count,
        fragment_gini=gini(histogram_of(shares)),
        keys=sum(key_counts.values()),
        without_key=messages - keyed,
        key_gini=gini(key_counts),
        hottest_key=hottest.key if hottest is not None else None,
        hottest_key_share=hottest.messages / keyed if hottest is not None and keyed else 0.0,
    )
