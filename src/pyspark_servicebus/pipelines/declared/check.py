"""Whether a declared pipeline can work, checked with the bus and Spark, without touching messages.

Owns the check of a file as a whole: entities, functions, columns, and, if wanted, whether Spark's
master answers. Called by `partibus pipeline check`, and by `pipeline run` before it begins.
"""

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from pyspark_servicebus.pipelines.declared.file import Declared
from pyspark_servicebus.pipelines.run.progress import PipelineFailed
from pyspark_servicebus.pipelines.run.settings import SettingsError
from pyspark_servicebus.pipelines.transform.check import check_transform
from pyspark_servicebus.pipelines.transform.settings import TransformSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECT_S_MAX: Final = 5.0


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What was found."""

    name: str
    kind: str
    schedule: str
    columns: dict[str, str]

    def as_text(self) -> str:
        """For people."""
        reported = f"{self.name}: it would work ({self.kind}, {self.schedule})."
        if self.columns:
            columns = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
            reported += f" Its rows have: {columns}."
        return reported


def check_names(declared: Declared) -> None:
    """What can be checked without Spark: entities of the bus, the files of a capture, rules."""
    try:
        declared.kind.check_names(declared.settings)
    except SettingsError as error:
        raise declared.error(error) from None


def check_declared(spark: "SparkSession", declared: Declared) -> CheckReport:
    """Everything that can be checked before a message is read."""
    check_names(declared)
    columns: dict[str, str] = {}
    if isinstance(declared.settings, TransformSettings):
        try:
            columns = check_transform(spark, declared.settings).columns()
        except SettingsError as error:
            raise declared.error(error) from None
    return CheckReport(declared.name, declared.kind.name, declared.schedule.as_text(), columns)


def reach_master(master: str | None) -> str:
    """Check that the master answers; returns what was found."""
    if master is None or master.startswith("local"):
        return "Spark runs on this machine."
    place = urlsplit(master)
    if place.scheme not in ("spark", "sc") or place.hostname is None:
        return f"It cannot be checked from here whether {master} answers."
    port = place.port or {"spark": 7077, "sc": 15002}[place.scheme]
    try:
        socket.create_connection((place.hostname, port), CONNECT_S_MAX).close()
    except OSError as error:
        raise PipelineFailed(f"Spark's master {master} does not answer: {error}.") from None
    return f"{master} answers."
