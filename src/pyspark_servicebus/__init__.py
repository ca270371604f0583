"""A Spark data source for Service Bus messages: `spark.read.format("servicebus")`.

Spark imports every package whose name begins with `pyspark_` and takes its `DefaultSource`, so
nothing has to be registered.
"""

from pyspark_servicebus.data_source import ServiceBusDataSource as DefaultSource

__all__ = ["DefaultSource"]
