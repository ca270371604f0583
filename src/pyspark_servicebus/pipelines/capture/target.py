"""The target of a capture: its original settings, and the publication of its windows.

Owns the order that makes a capture exactly-once: files under staging names, then the manifest,
which makes the window valid, then final names, then the commit of the table. Every step can be
repeated, so that after a crash of the driver the next one finishes the work. A reader of Parquet
sees files with final names only, and each message in one of them.
"""

import secrets
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from partibus.domain.sequence import number_of
from pyspark_servicebus.pipelines.capture.delta import commit_window, is_delta
from pyspark_servicebus.pipelines.capture.folder import Lake
from pyspark_servicebus.pipelines.capture.manifest import (
    SCHEMA_VERSION,
    STAGING,
    CapturedFile,
    Span,
    Window,
    save_window,
    spans_of,
    window_name,
    window_named,
    window_numbers,
)
from pyspark_servicebus.pipelines.capture.settings import CaptureSettings
from pyspark_servicebus.pipelines.capture.template import OWN
from pyspark_servicebus.pipelines.run.settings import SettingsError
from pyspark_servicebus.schema import COLUMNS, RAW_COLUMN, arrow_schema
from pyspark_servicebus.source.offsets import by_index, by_name

DESCRIPTION: Final = f"{OWN}/capture.json"
REACHED: Final = f"{OWN}/reached.json"
EMPTY_APP: Final = "empty"
NO_WINDOW: Final = -1


class CaptureTarget:
    """A folder with one capture."""

    def __init__(self, lake: Lake, settings: CaptureSettings, entity_id: int) -> None:
        self.lake, self.settings = lake, settings
        self.namespace = settings.namespace_name()
        self.template = settings.path_template()
        self.columns = [*COLUMNS, *((RAW_COLUMN,) if settings.include_amqp else ())]
        self.described = self._describe(entity_id)

    @property
    def cursor(self) -> str:
        """The cursor's name, the same in every run."""
        return str(self.described["cursor"])

    @property
    def schema(self) -> pa.Schema:
        return arrow_schema(self.columns)

    @property
    def app(self) -> str:
        """The name under which windows are numbered, the same in every run."""
        return str(self.described["app"])

    def _describe(self, entity_id: int) -> dict[str, Any]:
        """The settings the capture was started with; different ones cannot use the same target."""
        settings = self.settings
        now = {
            "entity": settings.entity,
            "format": settings.format,
            "include_amqp": settings.include_amqp,
            "generation": entity_id,
            "schema_version": SCHEMA_VERSION,
        }
        known = self.lake.read_json(DESCRIPTION)
        if known is None:
            if is_delta(self.lake) or any(p.endswith(".parquet") for p in self.lake.paths()):
                raise SettingsError(
                    f"target: '{self.lake.uri}' contains other files; name an empty folder."
                )
            cursor = settings.cursor or f"capture-{secrets.token_hex(4)}"
            known = {"version": 1, **now, "cursor": cursor, "app": secrets.token_hex(16)}
            self.lake.write_json(DESCRIPTION, known)
        for key, value in now.items():
            if known[key] != value:
                raise SettingsError(_other(self.lake.uri, key, known[key], value))
        if settings.cursor not in (None, known["cursor"]):
            raise SettingsError(_other(self.lake.uri, "cursor", known["cursor"], settings.cursor))
        return known

    # --- windows --------------------------------------------------------------------------

    def recover(self) -> None:
        """Finish the windows that an earlier run made valid, and discard what else it had
        staged."""
        noted, _ = self._noted()
        for name in self.lake.folders(STAGING):
            window = window_named(self.lake, name)
            # Files of a recorded window that are still here were written by a task that was too
            # late.
            if window is not None and (window.app != self.app or window.batch > noted):
                self.publish(window)
            else:
                self.lake.delete_folder(f"{STAGING}/{name}")

    def _noted(self) -> tuple[int, dict[int, int]]:
        table = self.lake.read_json(REACHED) or {"batch": NO_WINDOW, "numbers": {}}
        return int(table["batch"]), by_index(table["numbers"])

    def reached(self) -> tuple[int, dict[int, int]]:
        """The last valid window, and the number after it in each fragment.

        The record saves reading all manifests again; later windows are in those.
        """
        noted, numbers = self._noted()
        last = noted
        for batch in window_numbers(self.lake, self.app):
            if batch > noted:
                window = window_named(self.lake, window_name(self.app, batch))
                assert window is not None, "it was listed"
                last, numbers = batch, numbers | next_numbers([window])
        return last, numbers

    def note_reached(self, batch: int, numbers: Mapping[int, int]) -> None:
        """Record how far the published windows go."""
        self.lake.write_json(REACHED, {"batch": batch, "numbers": by_name(dict(numbers))})

    def close_window(self, batch: int, reported: Iterable[Any]) -> Window:
        """Make a window valid, from its tasks' reports of their files."""
        files = files_reported(reported)
        window = Window(
            app=self.app,
            batch=batch,
            entity=self.settings.entity,
            namespace=self.namespace,
            closed_ms=round(time.time() * 1000),
            files=tuple(files),
        )
        save_window(self.lake, window)
        return window

    def publish(self, window: Window) -> None:
        """Give the files of a valid window their final names, and commit the table.

        Its staging folder is deleted last: without one all of this is done, and the files may have
        been compacted since.
        """
        if not self.lake.exists(f"{STAGING}/{window.name}"):
            return
        for file in window.files:
            if file.staged is not None:
                self.lake.move(file.staged, file.path)
        if self.settings.format == "delta" and not window.is_empty:
            commit_window(self.lake, window, self.schema)
        self.lake.delete_folder(f"{STAGING}/{window.name}")

    def note_empty(self, fragments: Sequence[int], time_ms: int) -> Window | None:
        """A window without messages; None when it was recorded before."""
        start_ms = self.template.window_start_ms(time_ms)
        name = window_name(EMPTY_APP, start_ms // 1000)
        if window_named(self.lake, name) is not None:
            return None
        files = []
        chosen = fragments if self.template.has_fragment else fragments[:1]
        for index in chosen if self.settings.format == "parquet" else ():
            staged = f"{STAGING}/{name}/{index}.part"
            with self.lake.open_output(staged) as stream:
                pq.write_table(self.schema.empty_table(), stream, compression="zstd")
            files.append(
                CapturedFile(
                    path=f"{self.template.path(index, start_ms)}/{name}-f{index:04d}.parquet",
                    rows=0,
                    bytes=self.lake.size(staged),
                    first_enqueued_ms=start_ms,
                    last_enqueued_ms=start_ms,
                    staged=staged,
                )
            )
        window = Window(
            app=EMPTY_APP,
            batch=start_ms // 1000,
            entity=self.settings.entity,
            namespace=self.namespace,
            closed_ms=time_ms,
            files=tuple(files),
            is_empty=True,
        )
        save_window(self.lake, window)
        self.publish(window)
        return window


def next_numbers(windows: Iterable[Window]) -> dict[int, int]:
    """The number after the last captured one, of each fragment."""
    spans = spans_of(file for window in windows for file in window.files)
    return {index: number_of(span.last) + 1 for index, span in spans.items()}


def files_reported(reported: Iterable[Any]) -> list[CapturedFile]:
    """Rows of `REPORT_SCHEMA`, grouped by file."""
    by_file: dict[str, list[Any]] = defaultdict(list)
    for row in reported:
        by_file[row["staged"]].append(row)
    files = []
    for rows in by_file.values():
        spans = {row["fragment"]: Span(row["first"], row["last"], row["rows"]) for row in rows}
        files.append(
            CapturedFile(
                path=rows[0]["path"],
                rows=sum(row["rows"] for row in rows),
                bytes=rows[0]["bytes"],
                first_enqueued_ms=min(row["first_enqueued_ms"] for row in rows),
                last_enqueued_ms=max(row["last_enqueued_ms"] for row in rows),
                fragments=dict(sorted(spans.items())),
                staged=rows[0]["staged"],
            )
        )
    return sorted(files, key=lambda file: file.path)


def _other(target: str, key: str, known: object, given: object) -> str:
    if key == "generation":
        return (
            f"entity: it was deleted and created again since the capture in '{target}' began, so "
            "its sequence numbers start again; capture it into another target."
        )
    return (
        f"{key}: the capture in '{target}' was begun with {known!r}, not {given!r}; use the same "
        "value, or name another target."
    )
