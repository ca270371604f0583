"""What a capture contains, from its manifests only.

Owns the sums over windows and files that `partibus pipeline capture show` prints and that a replay
uses. It must never open a data file.
"""

from dataclasses import asdict, dataclass
from typing import Any

from partibus.domain.quantities import format_bytes
from pyspark_servicebus.pipelines.capture import manifest
from pyspark_servicebus.pipelines.capture.folder import Lake
from pyspark_servicebus.pipelines.capture.target import DESCRIPTION
from pyspark_servicebus.pipelines.report.wording import counted
from pyspark_servicebus.pipelines.run.settings import SettingsError


@dataclass(frozen=True, slots=True)
class Summary:
    """A capture."""

    target: str
    described: dict[str, Any]
    windows: list[manifest.Window]
    files: list[manifest.CapturedFile]

    @property
    def rows(self) -> int:
        return sum(window.rows for window in self.windows)

    @property
    def fragments(self) -> dict[int, manifest.Span]:
        return manifest.spans_of(file for window in self.windows for file in window.files)

    def as_table(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "target": self.target,
            **self.described,
            "rows": self.rows,
            "bytes": sum(file.bytes for file in self.files),
            "files": [file.path for file in self.files],
            "fragments": {index: asdict(span) for index, span in self.fragments.items()},
            "windows": [window.as_table() for window in self.windows],
        }

    def as_text(self) -> str:
        """For people."""
        size = format_bytes(sum(file.bytes for file in self.files))
        found = self.described
        return (
            f"{found['entity']} in {self.target} ({found['format']}, cursor '{found['cursor']}'):"
            f" {counted(self.rows, 'message')} of {counted(len(self.fragments), 'fragment')},"
            f" {counted(len(self.windows), 'window')}, {counted(len(self.files), 'file')}, {size}"
        )


def summary_of(target: str) -> Summary:
    """The summary of the capture in a target."""
    lake = Lake(target)
    described = lake.read_json(DESCRIPTION)
    if described is None:
        raise SettingsError(f"target: '{target}' holds no capture: {DESCRIPTION} is missing.")
    return Summary(target, described, manifest.load_windows(lake), manifest.current_files(lake))
