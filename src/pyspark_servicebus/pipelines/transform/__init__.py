"""From entity to entity: steps of SQL or functions, and where their rows go."""

from typing import TYPE_CHECKING

from pyspark_servicebus.pipelines.exported import exported_from_pipeline

if TYPE_CHECKING:
    from pyspark_servicebus.pipelines.transform.pipeline import TransformReport, main, transform
    from pyspark_servicebus.pipelines.transform.settings import TransformSettings

__all__ = ["TransformReport", "TransformSettings", "main", "transform"]
__getattr__ = exported_from_pipeline(__name__, __all__)
