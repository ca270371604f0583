"""Dead letters of a whole namespace: their causes, and rules carried out on them."""

from typing import TYPE_CHECKING

from pyspark_servicebus.pipelines.exported import exported_from_pipeline

if TYPE_CHECKING:
    from pyspark_servicebus.pipelines.deadletters.pipeline import deadletters, main
    from pyspark_servicebus.pipelines.deadletters.report import DeadLetterReport
    from pyspark_servicebus.pipelines.deadletters.settings import DeadLetterSettings

__all__ = ["DeadLetterReport", "DeadLetterSettings", "deadletters", "main"]
__getattr__ = exported_from_pipeline(__name__, __all__)
