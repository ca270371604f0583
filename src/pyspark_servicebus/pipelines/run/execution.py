"""How a pipeline is run: its name, where Spark is, where state and logs go.

Owns the options that every verb of `partibus pipeline` and every script for spark-submit has
besides the settings of its pipeline, declared once for both. Nothing is started here.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from pyspark_servicebus.pipelines.run.settings import SettingsError, pairs
from pyspark_servicebus.pipelines.run.settings_table import Declaration, setting
from pyspark_servicebus.pipelines.run.state import default_state_dir

NICE_MAX: Final = 19
_run = partial(setting, panel="Execution")


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution(Declaration):
    """Everything that is not a setting of the pipeline itself."""

    name: str | None = _run(
        "The name of this pipeline in `partibus pipeline status`.", default=None, metavar="NAME"
    )
    master: str | None = _run(
        "Spark's master, for example spark://host:7077. By default that of spark-submit, or else"
        " this machine with all its cores.",
        default=None,
        metavar="URL",
    )
    conf: tuple[str, ...] = _run(
        "A setting of Spark; repeat for each.", "texts", default=(), metavar="K=V"
    )
    nice: int | None = _run(
        f"Lower the process priority (nice): 0 to {NICE_MAX}. By default what suits the pipeline.",
        "number",
        default=None,
        least=0,
    )
    state_dir: str | None = _run(
        "Where the state of pipelines is kept. (default ~/.local/share/partibus/pipelines)",
        "path",
        default=None,
        metavar="DIR",
    )
    metrics_file: str | None = _run(
        "Also write the state to this file in the Prometheus format.",
        "path",
        default=None,
        metavar="FILE",
    )
    spark_log: str | None = _run(
        "Where Spark's log goes; - for stderr. (default NAME.log in the state directory)",
        "path",
        default=None,
        metavar="FILE",
    )
    json: bool = setting("Print JSON.", "switch", default=False)

    def __post_init__(self) -> None:
        if self.nice is not None and self.nice > NICE_MAX:
            raise SettingsError(f"nice: {self.nice} is too large; write {NICE_MAX} or less.")

    def state_place(self) -> Path:
        """Where the state of pipelines is kept."""
        return Path(self.state_dir) if self.state_dir is not None else default_state_dir()

    def metrics_place(self) -> Path | None:
        """The file for the metrics, if requested."""
        return Path(self.metrics_file) if self.metrics_file is not None else None

    def log_file(self, name: str) -> Path | None:
        """The file for Spark's log; None for stderr."""
        file = self.spark_log or self.state_place() / f"{name}.log"
        return None if str(file) == "-" else Path(file)

    def spark_conf(self) -> dict[str, str]:
        """The settings of Spark."""
        return pairs(self.conf)
