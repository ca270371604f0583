"""Declared pipelines of the tests: a file is written, read as the verb reads it, and run.

Owns the folder of a file, with the functions of work.py beside it and its state in `state`.
"""

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from pyspark_servicebus.pipelines.declared.check import check_declared
from pyspark_servicebus.pipelines.declared.file import Declared, load_declared
from pyspark_servicebus.pipelines.declared.running import DeclaredRun, PrintedRuns
from pyspark_servicebus.pipelines.run.place import BusPlace
from pyspark_servicebus.pipelines.run.progress import SILENT
from spark.bus import Bus

WORK = Path(__file__).parents[1] / "transform" / "work.py"


class Files:
    """Declared pipelines in a folder, and their runs."""

    def __init__(self, spark: SparkSession, bus: Bus, place: Path) -> None:
        self._spark, self._bus, self._place = spark, bus, place
        self.port = 0
        """Where the metrics of the run are answered, if they are."""

    def declare(self, text: str) -> Declared:
        file = self._place / "p.toml"
        file.write_text(text, encoding="utf-8")
        (self._place / "work.py").write_bytes(WORK.read_bytes())
        bus = BusPlace(connection_string=self._bus.connection_string)
        return load_declared(file, bus, self._place / "state")

    def run(self, text: str, watcher: Any = SILENT) -> Any:
        reports = []
        files = self

        class Reporter(PrintedRuns):
            def report(self, report: Any) -> None:
                reports.append(report)

            def serving(self, port: int) -> None:
                files.port = port

        state_dir = self._place / "state"
        DeclaredRun(
            self.declare(text), lambda: self._spark, Reporter(), state_dir, watchers=(watcher,)
        ).go()
        return reports[-1]

    def check(self, text: str) -> Any:
        return check_declared(self._spark.newSession(), self.declare(text))
