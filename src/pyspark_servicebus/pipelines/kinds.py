"""The ready-made pipelines by the names that a declared file calls them.

Owns the table of kinds: where their settings and their function are, imported when they are asked
for, and which of their settings name an entity of the bus or a place for files. A kind that is not
installed is told by its name. Called by declared pipelines.
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
    module: str
    settings: str
    function: str
    entities: tuple[str, ...] = ()
    """Settings that name an entity which must exist."""
    paths: tuple[str, ...] = ()
    """Settings that name a file or a folder."""
    nice: int = 0
    """How far it gives way to other processes, unless it is told."""
    jvm_options: str = ""
    """For its JVM, where that is on this machine."""

    def settings_type(self) -> Any:
        """Its dataclass of settings."""
        return getattr(self._module(), self.settings)

    def read(self, table: Mapping[str, object]) -> Any:
        """Its settings, from a table."""
        return self.settings_type().from_table(table)

    def run(self, spark: "SparkSession", settings: Any, progress: "Progress") -> "Report":
        """The pipeline itself."""
        function: Callable[..., Report] = getattr(self._module(), self.function)
        return function(spark, settings, progress)

    def in_state_dir(self, settings: Any, directory: Path) -> Any:
        """The settings with what they keep by themselves in this directory."""
        if self.name != "replay" or settings.state is not None:
            return settings
        from pyspark_servicebus.pipelines.replaying.state import replay_name

        file = directory / "replays" / f"{replay_name(settings)}.json"
        return dataclasses.replace(settings, state=str(file))

    def _module(self) -> Any:
        try:
            return importlib.import_module(f"pyspark_servicebus.pipelines.{self.module}")
        except ModuleNotFoundError as error:
            if error.name and error.name.startswith("pyspark_servicebus"):
                raise SettingsError(f"kind: this version has no pipeline '{self.name}'.") from None
            raise


KINDS: Final[dict[str, PipelineKind]] = {
    kind.name: kind
    for kind in (
        PipelineKind(
            "transform", "transform", "TransformSettings", "transform", paths=("checkpoint",)
        ),
        PipelineKind(
            *("capture", "capture", "CaptureSettings", "capture"),
            entities=("entity",),
            paths=("target",),
            nice=BACKGROUND,
            jvm_options=LIGHT_JVM,
        ),
        PipelineKind(
            *("replay", "replay", "ReplaySettings", "replay"),
            entities=("entity",),
            paths=("source", "state"),
        ),
        PipelineKind(
            *("deadletters", "deadletters", "DeadLetterSettings", "deadletters"),
            paths=("rules", "output"),
        ),
        PipelineKind(
            *("analytics", "analytics", "AnalyticsSettings", "analytics"),
            paths=("output", "captured"),
        ),
    )
}


def kind_of(name: object) -> PipelineKind:
    """The pipeline of that name."""
    if not isinstance(name, str) or name not in KINDS:
        close = nearest(str(name), KINDS)
        raise SettingsError(f"kind: there is no pipeline '{name}'; did you mean {close}?")
    return KINDS[name]
