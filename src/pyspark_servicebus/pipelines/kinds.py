"""The ready-made pipelines by their names in a declared file.

Owns the table of kinds. Each has a folder with its name: `settings` declares its settings,
`pipeline` has its function and `check_names`; both are imported when they are asked for. Called by
declared pipelines and by the verbs of `partibus pipeline`.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark_servicebus.pipelines.run.sections import Places, Sections
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
    """Also that of its folder, and of its function in `pipeline`."""
    settings: str
    """The name of their class."""
    nice: int = 0
    """How far it lowers its priority (nice) by default."""
    jvm_options: str = ""
    """For its JVM, where that is on this machine."""

    def settings_type(self) -> Any:
        """Its dataclass of settings."""
        return getattr(self._module("settings"), self.settings)

    def read(self, table: Mapping[str, object]) -> Any:
        """Its settings, from a table."""
        return self.settings_type().from_table(table)

    def sections(self) -> tuple[str, ...]:
        """The sections of a declared file that its settings read, besides the one with its name."""
        sections: tuple[str, ...] = self.settings_type().SECTIONS
        return sections

    def places(self) -> Places:
        """Where a declared file has its settings under other names."""
        places: Places = self.settings_type().PLACES
        return places

    def from_file(self, table: dict[str, Any], file: Sections) -> Any:
        """Its settings, from its table in a declared file and from the sections of its own."""
        return self.settings_type().from_file(table, file)

    def run(self, spark: "SparkSession", settings: Any, progress: "Progress") -> "Report":
        """The pipeline itself."""
        function: Callable[..., Report] = getattr(self._module("pipeline"), self.name)
        return function(spark, settings, progress)

    def check_names(self, settings: Any) -> None:
        """Check what can be checked without Spark: entities of the bus, a capture, rules."""
        self._module("pipeline").check_names(settings)

    def _module(self, name: str) -> Any:
        return importlib.import_module(f"{__package__}.{self.name}.{name}")


KINDS: Final[dict[str, PipelineKind]] = {
    kind.name: kind
    for kind in (
        PipelineKind("transform", "TransformSettings"),
        PipelineKind("capture", "CaptureSettings", nice=BACKGROUND, jvm_options=LIGHT_JVM),
        PipelineKind("replay", "ReplaySettings"),
        PipelineKind("deadletters", "DeadLetterSettings"),
        PipelineKind("analytics", "AnalyticsSettings"),
    )
}


def kind_of(name: object) -> PipelineKind:
    """The pipeline of that name."""
    if not isinstance(name, str) or name not in KINDS:
        close = nearest(str(name), KINDS)
        raise SettingsError(f"kind: there is no pipeline '{name}'; did you mean {close}?")
    return KINDS[name]
