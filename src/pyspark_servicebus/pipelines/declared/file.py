"""A pipeline declared in a TOML file, read and checked as a whole.

Owns the sections of the file and how they become the settings of a pipeline. Every error has its
line, and all are reported at once. It must never read anything but the file: `check` finds out
whether entities and columns exist.
"""

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from partibus.domain.toml_lines import TomlLines
from pyspark_servicebus.pipelines.declared.schedule import Schedule
from pyspark_servicebus.pipelines.kinds import KINDS, PipelineKind, kind_of
from pyspark_servicebus.pipelines.run.place import BusPlace
from pyspark_servicebus.pipelines.run.sections import Places, place_beside
from pyspark_servicebus.pipelines.run.settings import SettingsError, no_such_key
from pyspark_servicebus.pipelines.run.settings_table import keys_of, settings_of
from pyspark_servicebus.pipelines.run.state import checked_name

_SECTIONS: Final = ("bus", "schedule", "spark", "metrics")
_TOP: Final = ("name", "kind", "checkpoint", "owner")
_SPARK: Final = ("master", "conf")
_METRICS: Final = ("file", "port")


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
        found = _placed(self.file, self.lines, error, (self.kind.name,), self.kind.places())
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
    """Reads one file, and collects errors; settings see it as `Sections`."""

    def __init__(
        self,
        file: Path,
        text: str,
        table: Mapping[str, Any],
        default_bus: BusPlace | None,
        state_dir: Path | None,
    ) -> None:
        self.folder, self.state_dir = file.parent, state_dir
        self.name = ""
        self._file, self._table = file, table
        self._lines = TomlLines(text)
        self._default_bus = default_bus
        self._complaints: list[_Placed] = []

    def declared(self) -> Declared:
        kind, settings, schedule = None, None, Schedule()
        with self._gathering():
            kind = kind_of(self._table.get("kind", "transform"))
        self._check_keys(kind)
        with self._gathering("name"):
            self.name = self._given_name()
        with self._gathering("schedule"):
            schedule = Schedule.from_table(self.section("schedule"))
        master, conf = self._spark()
        metrics_file, metrics_port = self._metrics()
        if kind is not None and self.name:
            with self._gathering(kind.name, places=kind.places()):
                settings = self._settings(kind, schedule)
        if self._complaints or kind is None or settings is None:
            found = sorted(self._complaints, key=lambda complaint: complaint.line)
            raise FileError("\n".join(complaint.text for complaint in found))
        return Declared(
            self._file,
            self.name,
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
    def _gathering(self, *section: str, places: Places | None = None) -> Iterator[None]:
        try:
            yield
        except SettingsError as error:
            self._complaints += _placed(self._file, self._lines, error, section, places or {})

    def complain(self, text: str, *path: str | int) -> None:
        self._complaints.append(_at_line(self._file, self._lines.line(*path), text))

    def _check_keys(self, kind: PipelineKind | None) -> None:
        known = (*_TOP, *_SECTIONS, *(() if kind is None else (kind.name, *kind.sections())))
        foreign = {key for other in KINDS.values() for key in other.sections()}.difference(known)
        for key in self._table.keys() - foreign - {*known}:
            self.complain(f"{key}: {no_such_key(key, known)}", key)
        if kind is not None:
            text = f"a pipeline of the kind {kind.name} has its settings in [{kind.name}]."
            for key in self._table.keys() & foreign:
                self.complain(f"{key}: {text}", key)
        for key, allowed in (("spark", _SPARK), ("metrics", _METRICS)):
            for name in self.section(key):
                if name not in allowed:
                    self.complain(f"{name}: {no_such_key(name, allowed)}", key, name)

    def value(self, key: str) -> Any:
        return self._table.get(key)

    def section(self, key: str) -> Mapping[str, Any]:
        found = self._table.get(key, {})
        if isinstance(found, Mapping):
            return found
        self.complain(f"{key}: write it as a table: [{key}].", key)
        return {}

    # --- sections -------------------------------------------------------------------------

    def _given_name(self) -> str:
        name = self._table.get("name", self._file.stem)
        if not isinstance(name, str):
            raise SettingsError("name: expected a string.")
        return checked_name(name)

    def _spark(self) -> tuple[str | None, dict[str, str]]:
        section = self.section("spark")
        master, conf = section.get("master"), section.get("conf", {})
        if master is not None and not isinstance(master, str):
            self.complain("master: expected a string.", "spark", "master")
        if not isinstance(conf, Mapping):
            self.complain("conf: write it as a table: [spark.conf].", "spark", "conf")
            conf = {}
        found = {}
        for name, value in _flat(conf):
            found[name] = str(value).lower() if isinstance(value, bool) else str(value)
        return master, found

    def _metrics(self) -> tuple[Path | None, int | None]:
        section = self.section("metrics")
        file, port = section.get("file"), section.get("port")
        if file is not None and not isinstance(file, str):
            self.complain("file: expected a string.", "metrics", "file")
            file = None
        if port is not None and not (isinstance(port, int) and 0 <= port < 1 << 16):
            self.complain("port: expected a port number, for example 9100.", "metrics", "port")
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
                return {"bus": BusPlace.from_table(self.section("bus"))}
            except SettingsError as error:
                raise SettingsError.of(f"bus.{line}" for line in error.complaints) from None
        if self._default_bus is None:
            raise SettingsError("bus: name the bus: [bus] with connection_string_ref.")
        return {"bus": self._default_bus}

    def _settings(self, kind: PipelineKind, schedule: Schedule) -> Any:
        own = dict(self.section(kind.name))
        for key in keys_of(kind.settings_type(), "path"):
            if isinstance(written := own.get(key), str):
                own[key] = place_beside(self.folder, written)
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
        return kind.from_file(own, self)


def _placed(
    file: Path, lines: TomlLines, error: SettingsError, section: tuple[str, ...], places: Places
) -> list[_Placed]:
    """The errors of an exception, each with its line."""
    if isinstance(error, FileError):
        return [_Placed(0, text) for text in error.complaints]
    if error.place:
        return [_at_line(file, lines.line(*error.place), str(error))]
    found = []
    for text in error.complaints:
        key = text.partition(":")[0].strip()
        words = [word.strip() for word in key.split(",")]
        found.append(_at_line(file, _line_of(lines, words, section, places), text))
    return found


def _line_of(
    lines: TomlLines, words: list[str], section: tuple[str, ...], places: Places
) -> int | None:
    for word in words:
        for path in ((*section, word), *places.get(word, ()), tuple(word.split("."))):
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
