"""How far the cursors of entities are behind.

Owns the request to the bus: the position of every cursor in every fragment, and the end of the
fragment. It must never move a cursor.
"""

from collections.abc import Sequence

from partibus.domain.moments import calendar_moment
from pyspark_servicebus.options import source_options
from pyspark_servicebus.pipelines.analytics.report import CursorLag
from pyspark_servicebus.pipelines.run.place import BusPlace, EntityInfo
from pyspark_servicebus.source.reading import Reading, good


def fragments_and_cursors(
    bus: BusPlace, entities: Sequence[EntityInfo]
) -> tuple[dict[str, int], list[CursorLag]]:
    """The number of fragments of each entity, and all cursors, the furthest behind first."""
    counts: dict[str, int] = {}
    found: list[CursorLag] = []
    for entity in entities:
        options = {**bus.options(), **entity.source_options()}
        reading = Reading(source_options(options, is_stream=False))
        try:
            indexes = reading.fragments()
            counts[entity.path] = len(indexes)
            found += _lags(reading, entity.path, indexes)
        finally:
            reading.close()
    return counts, sorted(found, key=lambda cursor: (-cursor.lag, cursor.entity, cursor.cursor))


def _lags(reading: Reading, entity: str, indexes: list[int]) -> list[CursorLag]:
    retry_s = reading.options.retry_s
    status = reading.ask("status", indexes, retry_s=retry_s, sub_queue="none")
    ends = {index: reported["end"] for index, reported in good(status, "status").items()}
    asked = reading.ask("cursors", indexes, retry_s=retry_s)
    lags: dict[str, int] = {}
    moved: dict[str, int] = {}
    for index, reported in good(asked, "cursors").items():
        for cursor in reported["cursors"]:
            name = cursor["name"]
            behind = max(0, ends.get(index, 0) - cursor["position"])
            lags[name] = lags.get(name, 0) + behind
            moved[name] = max(moved.get(name, 0), cursor["moved_ms"])
    return [
        CursorLag(
            entity=entity,
            cursor=name,
            lag=lag,
            moved_at=calendar_moment(moved[name]),
        )
        for name, lag in lags.items()
    ]
