"""A pipeline declared in a TOML file, read and checked as a whole.

Owns the sections of the file and how they become the settings of a pipeline. Every error has its
line, and all are reported at once. It must never read anything but the file: `check` finds out
whether entities and columns exist.
"""

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from partibus.domain.address import subscription_path
from partibus.domain.toml_lines import TomlLines
from pyspark_servicebus.options import SINK_OPTIONS, SOURCE_OPTIONS
from pyspark_servicebus.pipelines.declared.schedule import Schedule
from pyspark_servicebus.pipelines.kinds import PipelineKind, kind_of
from pyspark_servicebus.pipelines.run.place import BusPlace
from pyspark_servicebus.pipelines.run.settings import SettingsError, no_such_key
from pyspark_servicebus.pipelines.run.settings_table import keys_of, settings_of
from pyspark_servicebus.pipelines.run.state import checked_name
from pyspark_servicebus.pipelines.transform.outlets import (
    ConsoleOutlet,
    DeltaOutlet,
    Outlet,
    ParquetOutlet,
)
from pyspark_servicebus.pipelines.transform.settings import TransformSettings
from pyspark_servicebus.pipelines.transform.steps import Step, StepError, step_of

_SECTIONS: Final = ("bus", "source", "step", "sink", "schedule", "spark", "metrics")
_TOP: Final = ("name", "kind", "checkpoint", "owner")
_SINKS: Final = ("queue", "topic", "parquet", "delta", "console")
_SOURCE_SETTINGS: Final = ("mode", "max_messages", "watermark")
_SINK_SETTINGS: Final = ("deliver", "dedup_key", "extra_columns", "failure_queue", "failures_max")
_SPARK: Final = ("master", "conf")
_METRICS: Final = ("file", "port")
_WHERE: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "source": (("source", "queue"), ("source", "subscription"), ("source",)),
    "source_options": (("source",),),
    "target": (*(("sink", name) for name in _SINKS), ("sink",)),
    "sink_options": (("sink",),),
    **{name: (("source", name),) for name in _SOURCE_SETTINGS},
    **{name: (("sink", name),) for name in _SINK_SETTINGS},
}
"""Where a file uses another name than the settings of a transform."""


class FileError(SettingsError):
    """What is wrong with a file; a line for each complaint, with its place."""


class _Placed(NamedTuple):
    """A complaint about a file, with its line; 0 if it concerns the whole file."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Declared:
    """A pipeline as a file declares it."""

    file: Path
    name: str
    kind: PipelineKind
    settings: Any
    schedule: Schedule
    lines: TomlLines = field(repr=False)
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    metrics_file: Path | None = None
    metrics_port: int | None = None

    def error(self, error: SettingsError) -> FileError:
        """An error about the settings, with its line."""
        found = _placed(self.file, self.lines, error, (self.kind.name,))
        return FileError("\n".join(complaint.text for complaint in found))


def load_declared(
    file: Path,
    default_bus: BusPlace | None = None,
    state_dir: Path | None = None,
    *,
    is_bus_forced: bool = False,
) -> Declared:
    """Read a file; FileError lists everything that is wrong with it.

    `default_bus` is for a file that names none, or, if forced, replaces the named one.
    """
    try:
        text = file.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except OSError as error:
        raise FileError(f"{file}: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileError(f"{file}: this is not valid TOML: {error}.") from None
    if is_bus_forced:
        table.pop("bus", None)
    return _Reader(file, text, table, default_bus, state_dir).declared()


class _Reader:
    """Reads one file, and collects errors."""

    def __init__(
        self,
        file: Path,
        text: str,
        table: Mapping[str, Any],
        default_bus: BusPlace | None,
        state_dir: Path | None,
    ) -> None:
        self._file, self._table = file, table
        self._lines = TomlLines(text)
        self._default_bus = default_bus
        self._state_dir = state_dir
        self._complaints: list[_Placed] = []

    def declared(self) -> Declared:
        table = self._table
        kind, name, settings, schedule = None, "", None, Schedule()
        with self._gathering():
            kind = kind_of(table.get("kind", "transform"))
        self._check_keys(kind)
        with self._gathering("name"):
            name = self._name()
        with self._gathering("schedule"):
            schedule = Schedule.from_table(self._section("schedule"))
        master, conf = self._spark()
        metrics_file, metrics_port = self._metrics()
        if kind is not None and name:
            with self._gathering(kind.name):
                settings = self._settings(kind, name, schedule)
        if self._complaints or kind is None or settings is None:
            found = sorted(self._complaints, key=lambda complaint: complaint.line)
            raise FileError("\n".join(complaint.text for complaint in found))
        return Declared(
            self._file,
            name,
            kind,
            settings,
            schedule,
            self._lines,
            master,
            conf,
            metrics_file,
            metrics_port,
        )

    # --- complaints -----------------------------------------------------------------------

    @contextmanager
    def _gathering(self, *section: str) -> Iterator[None]:
        try:
            yield
        except SettingsError as error:
            self._complaints += _placed(self._file, self._lines, error, section)

    def _complain(self, text: str, *path: str | int) -> None:
        self._complaints.append(_at_line(self._file, self._lines.line(*path), text))

    def _check_keys(self, kind: PipelineKind | None) -> None:
        own = () if kind is None else (kind.name,)
        known = (*_TOP, *_SECTIONS, *own)
        for key in self._table:
            if key not in known:
                self._complain(f"{key}: {no_such_key(key, known)}", key)
        for key, allowed in (("spark", _SPARK), ("metrics", _METRICS)):
            for name in self._section(key):
                if name not in allowed:
                    self._complain(f"{name}: {no_such_key(name, allowed)}", key, name)
        if kind is not None and kind.name != "transform":
            for key in ("source", "step", "sink"):
                if key in self._table:
                    text = f"a pipeline of the kind {kind.name} has its settings in [{kind.name}]."
                    self._complain(f"{key}: {text}", key)

    def _section(self, key: str) -> Mapping[str, Any]:
        found = self._table.get(key, {})
        if isinstance(found, Mapping):
            return found
        self._complain(f"{key}: write it as a table: [{key}].", key)
        return {}

    # --- sections -------------------------------------------------------------------------

    def _name(self) -> str:
        name = self._table.get("name", self._file.stem)
        if not isinstance(name, str):
            raise SettingsError("name: expected a string.")
        return checked_name(name)

    def _spark(self) -> tuple[str | None, dict[str, str]]:
        section = self._section("spark")
        master, conf = section.get("master"), section.get("conf", {})
        if master is not None and not isinstance(master, str):
            self._complain("master: expected a string.", "spark", "master")
        if not isinstance(conf, Mapping):
            self._complain("conf: write it as a table: [spark.conf].", "spark", "conf")
            conf = {}
        found = {}
        for name, value in _flat(conf):
            found[name] = str(value).lower() if isinstance(value, bool) else str(value)
        return master, found

    def _metrics(self) -> tuple[Path | None, int | None]:
        section = self._section("metrics")
        file, port = section.get("file"), section.get("port")
        if file is not None and not isinstance(file, str):
            self._complain("file: expected a string.", "metrics", "file")
            file = None
        if port is not None and not (isinstance(port, int) and 0 <= port < 1 << 16):
            self._complain("port: expected a port number, for example 9100.", "metrics", "port")
            port = None
        return None if file is None else self._beside(file), port

    def _beside(self, path: str) -> Path:
        return self._file.parent / Path(path).expanduser()

    @property
    def _has_bus(self) -> bool:
        return "bus" in self._table or self._default_bus is not None

    def _bus(self) -> Mapping[str, Any]:
        if "bus" in self._table:
            try:
                return {"bus": BusPlace.from_table(self._section("bus"))}
            except SettingsError as error:
                raise SettingsError.of(f"bus.{line}" for line in error.complaints) from None
        if self._default_bus is None:
            raise SettingsError("bus: name the bus: [bus] with connection_string_ref.")
        return {"bus": self._default_bus}

    def _settings(self, kind: PipelineKind, name: str, schedule: Schedule) -> Any:
        own = dict(self._section(kind.name))
        for key in keys_of(kind.settings_type(), "path"):
            if isinstance(written := own.get(key), str):
                own[key] = _place(self._file.parent, written)
        needs_bus = not any(key in own for key in ("connection_string", "connection_string_ref"))
        if needs_bus and ("captured" not in own or self._has_bus):  # captured messages need no bus
            own |= self._bus()
        if schedule.kind == "continuous":
            if not any(found.key == "continuous" for found in settings_of(kind.settings_type())):
                raise SettingsError(
                    f"schedule: a pipeline of the kind {kind.name} cannot run continuously; use "
                    "every."
                )
            own["continuous"] = True
        if kind.name == "transform":
            return self._transform(own, name)
        settings = kind.read(own)
        if self._state_dir is None:
            return settings
        return settings.in_state_dir(self._state_dir)

    def _transform(self, own: dict[str, Any], name: str) -> TransformSettings:
        source, sink = dict(self._section("source")), dict(self._section("sink"))
        own.setdefault("owner", self._table.get("owner", name))
        checkpoint = self._table.get("checkpoint")
        if isinstance(checkpoint, str):
            own.setdefault("checkpoint", _place(self._file.parent, checkpoint))
        elif self._state_dir is not None:
            own.setdefault("checkpoint", str(self._state_dir / "checkpoints" / name))
        if source:
            own["source"] = self._source_entity(source)
            own |= {key: source.pop(key) for key in _SOURCE_SETTINGS if key in source}
            own["source_options"] = self._options(source, "source", SOURCE_OPTIONS)
        outlet = None
        if sink:
            outlet = self._outlet(sink, own)
            own |= {key: sink.pop(key) for key in _SINK_SETTINGS if key in sink}
            own["sink_options"] = self._options(sink, "sink", SINK_OPTIONS)
        steps = self._steps()
        settings = TransformSettings.from_table(own, self._file.parent.absolute(), outlet)
        return replace(settings, steps=steps) if steps else settings

    def _steps(self) -> tuple[Step, ...]:
        written = self._table.get("step", [])
        if not isinstance(written, list) or not all(isinstance(s, Mapping) for s in written):
            self._complain("step: write steps as tables: [[step]].", "step")
            return ()
        steps = []
        for number, table in enumerate(written, 1):
            try:
                steps.append(step_of(number, table))
            except SettingsError as error:
                self._complain(str(error), "step", number - 1, *list(table)[:1])
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
        chosen = [name for name in _SINKS if name in sink]
        if len(chosen) != 1:
            raise SettingsError(f"target: write one of {', '.join(_SINKS)}.")
        value = sink.pop(chosen[0])
        if chosen[0] == "console":
            return ConsoleOutlet(value) if isinstance(value, int) and value > 1 else ConsoleOutlet()
        if not isinstance(value, str) or not value:
            raise SettingsError(f"target: {chosen[0]}: expected a string, got {value!r}.")
        if chosen[0] in ("queue", "topic"):
            own["target"] = value
            return None
        place = _place(self._file.parent, value)
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
                spoken = (*_SOURCE_SETTINGS, *_SINK_SETTINGS, *map(_snake, known))
                self._complain(f"{key}: {no_such_key(key, spoken)}", section, key)
                continue
            text = str(value).lower() if isinstance(value, bool) else _joined(value)
            found.append(f"{name}={text}")
        return tuple(found)


def _placed(
    file: Path, lines: TomlLines, error: SettingsError, section: tuple[str, ...]
) -> list[_Placed]:
    """The errors of an exception, each with its line."""
    if isinstance(error, FileError):
        return [_Placed(0, text) for text in error.complaints]
    if isinstance(error, StepError):
        return [_at_line(file, lines.line("step", error.number - 1, error.kind), str(error))]
    found = []
    for text in error.complaints:
        key = text.partition(":")[0].strip()
        words = [word.strip() for word in key.split(",")]
        found.append(_at_line(file, _line_of(lines, words, section), text))
    return found


def _line_of(lines: TomlLines, words: list[str], section: tuple[str, ...]) -> int | None:
    for word in words:
        for path in ((*section, word), *_WHERE.get(word, ()), tuple(word.split("."))):
            if (line := lines.exact(*path)) is not None:
                return line
    return lines.line(*section)


def _at_line(file: Path, line: int | None, text: str) -> _Placed:
    if line is None:
        return _Placed(0, f"{file}: {text}")
    return _Placed(line, f"{file}:{line}: {text}")


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Settings of Spark; keys with dots are tables in TOML."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value


def _place(beside: Path, path: str) -> str:
    """A path relative to the file, or a URI unchanged."""
    return path if "://" in path else str((beside / Path(path).expanduser()).absolute())


def _joined(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
