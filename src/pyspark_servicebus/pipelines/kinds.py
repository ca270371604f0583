"""The ready-made pipelines by their names in a declared file.

Owns the table of kinds: where their settings and their function are, imported when they are asked
for. Called by declared pipelines and by the verbs of `partibus pipeline`.
"""

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark_servicebus.pipelines.run.session import BACKGROUND, LIGHT_JVM
from pyspark_servicebus.pipelines.run.settings import SettingsError, nearest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_servicebus.pipelines.run.progress import Progress
    from pyspark_servicebus.pipelines.run.reports import Report


@dataclass(frozen=True, slots=True)
class PipelineKind:
    """A ready-made pipeline."""

    name: str
    """Also that of its function and of the module that has it."""
    folder: str
    """Where its settings are declared."""
    settings: str
    nice: int = 0
    """How far it lowers its priority (nice) by default."""
    jvm_options: str = ""
    """For its JVM, where that is on this machine."""

    def settings_type(self) -> Any:
        """Its dataclass of settings."""
        return getattr(_module(f"{self.folder}.settings"), self.settings)

    def read(self, table: Mapping[str, object]) -> Any:
        """Its settings, from a table."""
        return self.settings_type().from_table(table)

    def run(self, spark: "SparkSession", settings: Any, progress: "Progress") -> "Report":
        """The pipeline itself."""
        function: Callable[..., Report] = getattr(_module(self.name), self.name)
        return function(spark, settings, progress)

    def in_state_dir(self, settings: Any, directory: Path) -> Any:
        """The settings with everything they keep in this directory."""
        if self.name != "replay" or settings.state is not None:
            return settings
        from pyspark_servicebus.pipelines.replaying.state import replay_name

        file = directory / "replays" / f"{replay_name(settings)}.json"
        return dataclasses.replace(settings, state=str(file))


def _module(name: str) -> Any:
    return importlib.import_module(f"pyspark_servicebus.pipelines.{name}")


KINDS: Final[dict[str, PipelineKind]] = {
    kind.name: kind
    for kind in (
        PipelineKind("transform", "transforming", "TransformSettings"),
        PipelineKind("capture", "lake", "CaptureSettings", nice=BACKGROUND, jvm_options=LIGHT_JVM),
        PipelineKind("replay", "replaying", "ReplaySettings"),
        PipelineKind("deadletters", "triage", "DeadLetterSettings"),
        PipelineKind("analytics", "traffic", "AnalyticsSettings"),
    )
}


def kind_of(name: object) -> PipelineKind:
    """The pipeline of that name."""
    if not isinstance(name, str) or name not in KINDS:
        close = nearest(str(name), KINDS)
        raise SettingsError(f"kind: there is no pipeline '{name}'; did you mean {close}?")
    return KINDS[name]
