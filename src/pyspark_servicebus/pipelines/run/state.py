"""The last status of a named pipeline: a small JSON file for each, and the same for Prometheus.

Owns the files under the state directory and their format. Each is written completely and renamed,
so a reader never sees a partial one. The pipelines themselves keep nothing here: a lost file only
affects the display. `RecordedProgress` writes it; `partibus pipeline status` reads it.
"""

import dataclasses
import json
import os
import re
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark_servicebus.pipelines.run.reports import Made, shortfall_of
from pyspark_servicebus.pipelines.run.settings import SettingsError

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
STATE_VERSION: Final = 1
_SAVE_EVERY_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineState:
    """One pipeline: its last run, and its progress."""

    name: str
    kind: str
    run_id: str
    started_ms: int
    updated_ms: int
    finished_ms: int | None = None
    last_batch: int | None = None
    rows: int = 0
    lag: int | None = None
    rate: float = 0.0
    """Rows a second since the run began."""
    error: str | None = None
    process: int = 0
    """The process id of the driver, on its machine."""

    @property
    def status(self) -> str:
        """running, finished or failed."""
        if self.error is not None:
            return "failed"
        return "running" if self.finished_ms is None else "finished"


def default_state_dir() -> Path:
    """Where states are kept by default (XDG)."""
    home = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(home) / "partibus" / "pipelines"


def checked_name(name: str) -> str:
    """A valid name for a file."""
    if not NAME.fullmatch(name):
        raise SettingsError(
            f"name: '{name}' is not a valid name; use letters, digits, '.', '_' and '-'."
        )
    return name


def write_atomically(file: Path, text: str) -> None:
    """Write all of a text or nothing, durably."""
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with fresh.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(file)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise


def save_state(directory: Path, state: PipelineState) -> None:
    """Replace the file of a pipeline."""
    file = directory / f"{checked_name(state.name)}.json"
    table = {"version": STATE_VERSION, "status": state.status, **dataclasses.asdict(state)}
    write_atomically(file, json.dumps(table, indent=2) + "\n")


def load_state(file: Path) -> PipelineState | None:
    """A state; None for an invalid file or one of another version."""
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
        if table.pop("version", None) != STATE_VERSION:
            return None
        table.pop("status", None)
        return PipelineState(**table)
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def load_states(directory: Path) -> list[PipelineState]:
    """Every pipeline of a state directory, by name."""
    found = (load_state(file) for file in sorted(directory.glob("*.json")))
    return [state for state in found if state is not None]


def metrics_text(states: Iterable[PipelineState]) -> str:
    """The states as Prometheus reads them (text format 0.0.4)."""
    known = list(states)
    lines: list[str] = []
    for name, kind, help_text, value in _METRICS:
        metric = f"partibus_pipeline_{name}"
        lines += [f"# HELP {metric} {help_text}", f"# TYPE {metric} {kind}"]
        for state in known:
            number = value(state)
            if number is not None:
                labels = f'name="{state.name}",kind="{state.kind}"'
                lines.append(f"{metric}{{{labels}}} {number}")
    return "\n".join(lines) + "\n"


_METRICS: Final[tuple[tuple[str, str, str, Callable[[PipelineState], float | None]], ...]] = (
    ("rows_total", "counter", "Rows of the last run.", lambda s: s.rows),
    ("lag", "gauge", "Waiting messages.", lambda s: s.lag),
    ("rate", "gauge", "Rows per second of the last run.", lambda s: round(s.rate, 3)),
    ("last_batch", "gauge", "The last completed batch.", lambda s: s.last_batch),
    (
        "running",
        "gauge",
        "1 while the pipeline is running, else 0.",
        lambda s: int(s.status == "running"),
    ),
    ("failed", "gauge", "1 if the last run failed, else 0.", lambda s: int(s.status == "failed")),
    ("started_seconds", "gauge", "When the run began.", lambda s: s.started_ms / 1000),
    ("updated_seconds", "gauge", "When it last reported.", lambda s: s.updated_ms / 1000),
)


class RecordedProgress:
    """Records the state of one run in its file, and in the metrics file if there is one."""

    def __init__(
        self, name: str, kind: str, state_dir: Path, metrics_file: Path | None = None
    ) -> None:
        now_ms = round(time.time() * 1000)
        self._directory, self._metrics_file = state_dir, metrics_file
        self._saved_at = 0.0
        self.state = PipelineState(
            name=checked_name(name),
            kind=kind,
            run_id=uuid.uuid4().hex,
            started_ms=now_ms,
            updated_ms=now_ms,
            process=os.getpid(),
        )

    def started(self, name: str, total: int | None) -> None:
        self._change(is_due=True, lag=total)

    def advanced(self, rows: int, lag: int | None, batch: int) -> None:
        total = self.state.rows + rows
        seconds = max(time.time() - self.state.started_ms / 1000, 1e-3)
        is_due = time.monotonic() - self._saved_at >= _SAVE_EVERY_S
        self._change(is_due, rows=total, lag=lag, last_batch=batch, rate=total / seconds)

    def finished(self) -> None:
        self._change(is_due=True, finished_ms=round(time.time() * 1000))

    def run(self, work: Callable[[], Made]) -> Made:
        """Do the work of the run, and record how it ended."""
        self.started(self.state.name, None)
        try:
            report = work()
        except KeyboardInterrupt:
            self.failed("interrupted")
            raise
        except BaseException as error:
            self.failed(str(error) or type(error).__name__)
            raise
        if shortfall := shortfall_of(report):
            self.failed(shortfall)
        else:
            self.finished()
        return report

    def failed(self, error: str) -> None:
        """The run ended with an error."""
        self._change(is_due=True, finished_ms=round(time.time() * 1000), error=error)

    def _change(self, is_due: bool, **changes: object) -> None:
        now_ms = round(time.time() * 1000)
        changed = dataclasses.replace(self.state, updated_ms=now_ms, **changes)  # type: ignore[arg-type]
        self.state = changed
        if not is_due:
            return
        self._saved_at = time.monotonic()
        save_state(self._directory, changed)
        if self._metrics_file is not None:
            write_atomically(self._metrics_file, metrics_text([changed]))
