"""A Spark data source for Service Bus messages: `spark.read.format("servicebus")`.

Spark imports every package whose name begins with `pyspark_` and takes its `DefaultSource`, so
nothing has to be registered. The class is imported when it is asked for: the settings of the
pipelines are read by the command line too, where Spark may be missing.
"""

from typing import Any

__all__ = ["DefaultSource"]


def __getattr__(name: str) -> Any:
    if name == "DefaultSource":
        from pyspark_servicebus.data_source import ServiceBusDataSource

        return ServiceBusDataSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
