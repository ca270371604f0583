"""What a capture contains: one manifest for each window, and one for each compaction.

Owns their form and where they are. A window is valid once its manifest is written: it names every
file with its rows, bytes and numbers, before any of them has its final name. A compaction's
manifest says which files replaced which. Together they list the current files.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from pyspark_servicebus.pipelines.capture.folder import Lake
from pyspark_servicebus.pipelines.capture.template import OWN

SCHEMA_VERSION: Final = 1
"""Of the columns in the files; a new meaning gets a new number."""
MANIFEST_VERSION: Final = 1
WINDOWS: Final = f"{OWN}/windows"
COMPACTIONS: Final = f"{OWN}/compactions"
STAGING: Final = f"{OWN}/staging"


@dataclass(frozen=True, slots=True)
class Span:
    """What a file or window contains of one fragment."""

    first: int
    """The sequence number of the first message, as `sequence_number` has it."""
    last: int
    rows: int

    def joined(self, other: "Span") -> "Span":
        """Both together."""
        first, last = min(self.first, other.first), max(self.last, other.last)
        return Span(first, last, self.rows + other.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedFile:
    """One file."""

    path: str
    rows: int
    bytes: int
    first_enqueued_ms: int
    last_enqueued_ms: int
    fragments: dict[int, Span] = field(default_factory=dict)
    staged: str | None = None
    """Where it is until it has its final name."""

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> "CapturedFile":
        spans = {int(index): Span(**span) for index, span in table["fragments"].items()}
        return cls(**{**table, "fragments": spans})


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One window: a batch of messages that was captured together."""

    app: str
    """Which capture."""
    batch: int
    entity: str
    namespace: str
    closed_ms: int
    files: tuple[CapturedFile, ...] = ()
    is_empty: bool = False
    """Whether it stands for a period without messages."""
    schema_version: int = SCHEMA_VERSION

    @property
    def name(self) -> str:
        return window_name(self.app, self.batch)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def fragments(self) -> dict[int, Span]:
        """The first and last number of each fragment."""
        return spans_of(self.files)

    def as_table(self) -> dict[str, Any]:
        """For JSON."""
        totals = {"rows": self.rows, "bytes": self.bytes}
        spans = {index: asdict(span) for index, span in self.fragments.items()}
        return {"version": MANIFEST_VERSION, **asdict(self), **totals, "fragments": spans}

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> "Window":
        known = {"app", "batch", "entity", "namespace", "closed_ms", "is_empty", "schema_version"}
        files = tuple(CapturedFile.from_table(file) for file in table["files"])
        return cls(**{key: table[key] for key in known}, files=files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """One file that replaces several."""

    name: str
    file: CapturedFile
    replaces: tuple[str, ...]

    def as_table(self) -> dict[str, Any]:
        """For JSON."""
        return {"version": MANIFEST_VERSION, **asdict(self)}


def window_name(app: str, batch: int) -> str:
    """The name of a window's manifest and of its staging folder."""
    return f"{app[:8]}-{batch:08d}"


def window_numbers(lake: Lake, app: str) -> list[int]:
    """The numbers of the valid windows of a capture, in order; read from names only."""
    names = (name.removesuffix(".json").rpartition("-") for name in lake.names(WINDOWS))
    return sorted(int(batch) for start, _, batch in names if start == app[:8])


def spans_of(files: Iterable[CapturedFile]) -> dict[int, Span]:
    """What files hold of each fragment together."""
    spans: dict[int, Span] = {}
    for file in files:
        for index, span in file.fragments.items():
            spans[index] = spans[index].joined(span) if index in spans else span
    return dict(sorted(spans.items()))


def window_named(lake: Lake, name: str) -> Window | None:
    """The manifest of a window, if it is valid already."""
    table = lake.read_json(f"{WINDOWS}/{name}.json")
    return None if table is None else Window.from_table(table)


def save_window(lake: Lake, window: Window) -> None:
    """Make the window valid."""
    lake.write_json(f"{WINDOWS}/{window.name}.json", window.as_table())


def load_windows(lake: Lake) -> list[Window]:
    """Every valid window, in the order in which they were closed."""
    tables = (lake.read_json(f"{WINDOWS}/{name}") for name in lake.names(WINDOWS))
    windows = [Window.from_table(table) for table in tables if table is not None]
    return sorted(windows, key=lambda window: (window.closed_ms, window.name))


def load_compactions(lake: Lake) -> list[Compaction]:
    """Every compaction, in order."""
    found = []
    for name in lake.names(COMPACTIONS):
        table = lake.read_json(f"{COMPACTIONS}/{name}")
        if table is not None:
            file = CapturedFile.from_table(table["file"])
            found.append(Compaction(name=table["name"], file=file, replaces=table["replaces"]))
    return found


def save_compaction(lake: Lake, compaction: Compaction) -> None:
    """Make the new file valid instead of those that it replaces."""
    lake.write_json(f"{COMPACTIONS}/{compaction.name}.json", compaction.as_table())


def current_files(lake: Lake) -> list[CapturedFile]:
    """The current files of the capture, with each message in one of them."""
    files = {file.path: file for window in load_windows(lake) for file in window.files}
    for compaction in load_compactions(lake):
        for path in compaction.replaces:
            files.pop(path, None)
        files[compaction.file.path] = compaction.file
    return [replace(files[path], staged=None) for path in sorted(files)]
