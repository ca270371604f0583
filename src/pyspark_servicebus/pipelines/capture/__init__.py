"""Captures of queues and subscriptions: files, manifests, Delta tables, in a folder or bucket."""

from typing import TYPE_CHECKING

from pyspark_servicebus.pipelines.exported import exported_from_pipeline

if TYPE_CHECKING:
    from pyspark_servicebus.pipelines.capture.pipeline import CaptureReport, capture, main
    from pyspark_servicebus.pipelines.capture.settings import CaptureSettings

__all__ = ["CaptureReport", "CaptureSettings", "capture", "main"]
__getattr__ = exported_from_pipeline(__name__, __all__)
