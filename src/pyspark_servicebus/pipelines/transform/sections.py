"""The sections of a transform in a declared file: [source], [[step]] and [sink].

Owns their keys, and how they become settings. Every error is reported at its line; what is not
known as a setting must be an option of the data source.
"""

from typing import Any

from partibus.domain.address import subscription_path
from pyspark_servicebus.options import SINK_OPTIONS, SOURCE_OPTIONS
from pyspark_servicebus.pipelines.run.sections import Sections, place_beside
from pyspark_servicebus.pipelines.run.settings import SettingsError, no_such_key
from pyspark_servicebus.pipelines.transform.outlets import (
    ConsoleOutlet,
    DeltaOutlet,
    Outlet,
    ParquetOutlet,
)
from pyspark_servicebus.pipelines.transform.settings import (
    SINK_SETTINGS,
    SINKS,
    SOURCE_SETTINGS,
)
from pyspark_servicebus.pipelines.transform.steps import (
    STEPS_ARE_TABLES,
    Step,
    is_list_of_tables,
    step_of,
)


class SectionReader:
    """Reads the sections of one file."""

    def __init__(self, file: Sections) -> None:
        self._file = file
        self.outlet: Outlet | None = None
        """What [sink] names instead of an entity of the bus."""

    def table(self, own: dict[str, Any]) -> dict[str, Any]:
        """The section of the kind, with what [source] and [sink] add."""
        file, source, sink = (
            self._file,
            dict(self._file.section("source")),
            dict(self._file.section("sink")),
        )
        owner, checkpoint = file.value("owner"), file.value("checkpoint")
        own.setdefault("owner", file.name if owner is None else owner)
        if isinstance(checkpoint, str):
            own.setdefault("checkpoint", place_beside(file.folder, checkpoint))
        elif file.state_dir is not None:
            own.setdefault("checkpoint", str(file.state_dir / "checkpoints" / file.name))
        if source:
            own["source"] = self._source_entity(source)
            own |= {key: source.pop(key) for key in SOURCE_SETTINGS if key in source}
            own["source_options"] = self._options(source, "source", SOURCE_OPTIONS)
        if sink:
            self.outlet = self._outlet(sink, own)
            own |= {key: sink.pop(key) for key in SINK_SETTINGS if key in sink}
            own["sink_options"] = self._options(sink, "sink", SINK_OPTIONS)
        return own

    def steps(self) -> tuple[Step, ...]:
        """The steps of [[step]]."""
        written = self._file.value("step")
        if written is None:
            return ()
        if not is_list_of_tables(written):
            self._file.complain(STEPS_ARE_TABLES, "step")
            return ()
        steps = []
        for number, table in enumerate(written, 1):
            try:
                steps.append(step_of(number, table))
            except SettingsError as error:
                self._file.complain(str(error), "step", number - 1, *list(table)[:1])
        return tuple(steps)

    def _source_entity(self, source: dict[str, Any]) -> object:
        queue, topic = source.pop("queue", None), source.pop("topic", None)
        subscription = source.pop("subscription", None)
        if topic is not None and queue is None and subscription is not None:
            return subscription_path(topic, subscription)
        if queue is None or topic is not None:
            raise SettingsError("source: write queue, or topic and subscription.")
        return queue

    def _outlet(self, sink: dict[str, Any], own: dict[str, Any]) -> Outlet | None:
        chosen = [name for name in SINKS if name in sink]
        if len(chosen) != 1:
            raise SettingsError(f"target: write one of {', '.join(SINKS)}.")
        value = sink.pop(chosen[0])
        if chosen[0] == "console":
            return ConsoleOutlet(value) if isinstance(value, int) and value > 1 else ConsoleOutlet()
        if not isinstance(value, str) or not value:
            raise SettingsError(f"target: {chosen[0]}: expected a string, got {value!r}.")
        if chosen[0] in ("queue", "topic"):
            own["target"] = value
            return None
        place = place_beside(self._file.folder, value)
        return ParquetOutlet(place) if chosen[0] == "parquet" else DeltaOutlet(place)

    def _options(
        self, left: dict[str, Any], section: str, known: tuple[str, ...]
    ) -> tuple[str, ...]:
        """The rest of a section, as options of the data source."""
        names = {name.lower(): name for name in known}
        found = []
        for key, value in left.items():
            name = names.get(key.replace("_", "").lower())
            if name is None:
                spoken = (*SOURCE_SETTINGS, *SINK_SETTINGS, *map(_snake, known))
                self._file.complain(f"{key}: {no_such_key(key, spoken)}", section, key)
                continue
            text = str(value).lower() if isinstance(value, bool) else _joined(value)
            found.append(f"{name}={text}")
        return tuple(found)


def _joined(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
