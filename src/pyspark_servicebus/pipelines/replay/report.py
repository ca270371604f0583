"""What a replay has sent, or would send, as data and as text.

Owns the report and how a message is shown in one line of it. The run provides the numbers.
"""

import datetime
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark_servicebus.pipelines.report.wording import counted, format_span
from pyspark_servicebus.pipelines.run.reports import JsonReport

PREVIEW_CHARACTERS: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport(JsonReport):
    """What was sent, or would be."""

    source: str
    entity: str
    rows: int = 0
    """Messages that the bus has confirmed; of a dry run, that would be sent."""
    duplicates: int = 0
    """How many of these were duplicates for the entity and dropped; only known with atLeastOnce."""
    batches: int = 0
    resumed_behind: int = 0
    """Messages that an earlier, interrupted run had sent."""
    dry_run: bool = False
    fragments: dict[int, int] = field(default_factory=dict)
    """Messages of each fragment; in a dry run only."""
    first_rows: list[dict[str, object]] = field(default_factory=list)
    lasts_s: float | None = None
    """The minimum duration of the replay at its pace; only in a dry run."""
    state: str = ""
    seconds: float = 0.0

    def as_text(self) -> str:
        if self.dry_run:
            return self._dry_text()
        lines = [
            f"{self.source} -> {self.entity}",
            f"  {counted(self.rows, 'message')} sent in {self.batches}"
            f" {'batch' if self.batches == 1 else 'batches'}, {self.seconds:.1f} s",
        ]
        if self.duplicates:
            lines.append(f"  {self.duplicates:,} of them were there already and were dropped")
        if self.resumed_behind:
            lines.append(f"  an earlier run had sent {counted(self.resumed_behind, 'message')}")
        return "\n".join(lines)

    def _dry_text(self) -> str:
        spread = counted(len(self.fragments), "fragment")
        lines = [
            f"{self.source} -> {self.entity} (dry run, nothing was sent)",
            f"  {counted(self.rows, 'message')} of {spread} would be sent",
        ]
        if self.lasts_s is not None:
            lines.append(f"  at this pace it takes at least {format_span(self.lasts_s)}")
        if self.resumed_behind:
            lines.append(f"  an earlier run had sent {counted(self.resumed_behind, 'message')}")
        for row in self.first_rows:
            words = [f"{name}={value}" for name, value in row.items() if value is not None]
            lines.append("  " + "  ".join(words))
        return "\n".join(lines)


def shown_message(row: Any) -> dict[str, object]:
    """A message in a line."""
    found: dict[str, object] = {}
    for name, value in row.asDict().items():
        if isinstance(value, bytes | bytearray):
            value = _preview(bytes(value))
        elif isinstance(value, datetime.datetime):
            moment = value.astimezone(datetime.UTC)
            value = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        found[name] = value if value is None or isinstance(value, int) else str(value)
    return found


def _preview(body: bytes) -> str:
    """The beginning of a text; of anything else, how long it is."""
    text = body.decode(errors="replace")
    if not text.isprintable() or "\ufffd" in text:
        return f"<{len(body)} bytes>"
    return text[:PREVIEW_CHARACTERS] + ("..." if len(text) > PREVIEW_CHARACTERS else "")
