"""The traffic of entities in numbers and pictures."""

from typing import TYPE_CHECKING

from pyspark_servicebus.pipelines.exported import exported_from_pipeline

if TYPE_CHECKING:
    from pyspark_servicebus.pipelines.analytics.pipeline import analytics, main
    from pyspark_servicebus.pipelines.analytics.report import TrafficReport
    from pyspark_servicebus.pipelines.analytics.settings import AnalyticsSettings

__all__ = ["AnalyticsSettings", "TrafficReport", "analytics", "main"]
__getattr__ = exported_from_pipeline(__name__, __all__)
