"""Captured messages sent to a bus again, in order, at any pace."""

from typing import TYPE_CHECKING

from pyspark_servicebus.pipelines.exported import exported_from_pipeline

if TYPE_CHECKING:
    from pyspark_servicebus.pipelines.replay.pipeline import main, replay
    from pyspark_servicebus.pipelines.replay.report import ReplayReport
    from pyspark_servicebus.pipelines.replay.settings import ReplaySettings

__all__ = ["ReplayReport", "ReplaySettings", "main", "replay"]
__getattr__ = exported_from_pipeline(__name__, __all__)
