"""Dead letters of a whole namespace: their causes, and rules carried out on them."""

from typing import TYPE_CHECKING

from pyspark_servicebus.pipelines.exported import exported_from_pipeline

if TYPE_CHECKING:
    from pyspark_servicebus.pipelines.deadletters.pipeline import (
        DeadLetterSettings,
        deadletters,
        main,
        prepared,
    )

__all__ = ["DeadLetterSettings", "deadletters", "main", "prepared"]
__getattr__ = exported_from_pipeline(__name__, __all__)
