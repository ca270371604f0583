"""The export of traces and metrics over OTLP/HTTP, for one process.

Owns the providers and exporters of the SDK, the thread that exports metrics, and their shutdown.
Neither the loop nor a client ever waits for a collector: one that is down costs the spans and
points of that time, a line in the log, and at most `STOP_S_MAX` when the server stops. The service
opens it before clients are admitted.
"""

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import MetricExportResult
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from partibus import __version__
from partibus.gateway.tracing import Tracing
from partibus.server.telemetry.environment import Exports, exports_of
from partibus.server.telemetry.metrics import metrics_data
from partibus.server.telemetry.spans import OtelSpans

STOP_S_MAX: Final = 5.0
"""How long a stop waits for a collector to accept the rest."""
GATHER_S_MAX: Final = 30.0
SCOPE: Final = "partibus"

Gather = Callable[[], Awaitable[dict[str, Any] | None]]
"""The metrics; None while another process exports them."""

_log: Final = logging.getLogger(__name__)


class Telemetry:
    """What one process exports; `stop` once."""

    def __init__(self, worker: int, exports: Exports) -> None:
        resource = _resource(worker)
        self.tracing: Tracing | None = None
        """None where traces are not exported."""
        self._provider: TracerProvider | None = None
        self._metrics: MetricsExport | None = None
        self._interval_ms = exports.metrics_interval_ms
        if exports.traces:
            self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
            self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
            tracer = self._provider.get_tracer(SCOPE, __version__)
            self.tracing = Tracing(OtelSpans(tracer))
        # One worker asks all of them, as for a scrape.
        if exports.metrics and worker == 0:
            self._metrics = MetricsExport(resource, OTLPMetricExporter())

    def start(self, gather: Gather) -> None:
        """Begin to export metrics."""
        if self._metrics is not None:
            self._metrics.start(gather, asyncio.get_running_loop(), self._interval_ms / 1000)

    async def stop(self) -> None:
        """Export the rest, for a short while."""
        if self._metrics is not None:
            self._metrics.stop()
        if self._provider is not None:
            loop, over = asyncio.get_running_loop(), asyncio.Event()
            # A thread of the loop's pool would delay the end of the process.
            threading.Thread(
                target=_shut_down, args=(self._provider, loop, over), daemon=True
            ).start()
            try:
                await asyncio.wait_for(over.wait(), STOP_S_MAX)
            except TimeoutError:
                _log.warning("the collector did not accept the last spans in time")


class MetricsExport:
    """A thread that collects the metrics and exports them, repeatedly."""

    def __init__(self, resource: Resource, exporter: OTLPMetricExporter) -> None:
        self._resource = resource
        self._exporter = exporter
        self._scope = InstrumentationScope(SCOPE, __version__)
        self._start_ns = time.time_ns()
        self._stopping = threading.Event()
        self._is_failing = False

    def start(self, gather: Gather, loop: asyncio.AbstractEventLoop, interval_s: float) -> None:
        """Export at once, then once an interval."""
        threading.Thread(
            target=self._run, args=(gather, loop, interval_s), name="otel-metrics", daemon=True
        ).start()

    def stop(self) -> None:
        """Stop exporting."""
        self._stopping.set()
        self._exporter.shutdown()

    def _run(self, gather: Gather, loop: asyncio.AbstractEventLoop, interval_s: float) -> None:
        while not self._stopping.is_set():
            try:
                self._export(gather, loop)
            except Exception as error:
                self._report(str(error) or type(error).__name__)
            self._stopping.wait(interval_s)

    def _export(self, gather: Gather, loop: asyncio.AbstractEventLoop) -> None:
        signals = asyncio.run_coroutine_threadsafe(_asked(gather), loop).result(GATHER_S_MAX)
        if signals is None:
            return
        now_ns = time.time_ns()
        data = metrics_data(signals, self._resource, self._scope, self._start_ns, now_ns)
        if self._exporter.export(data) is MetricExportResult.SUCCESS:
            self._is_failing = False
        else:
            self._report("the collector did not accept them")

    def _report(self, reason: str) -> None:
        """Log one line each time it begins to fail."""
        if not self._is_failing and not self._stopping.is_set():
            _log.warning("metrics are not exported: %s", reason)
        self._is_failing = True


def open_telemetry(worker: int) -> Telemetry:
    """The exports of this process, as the environment requests."""
    return Telemetry(worker, exports_of(os.environ))


async def _asked(gather: Gather) -> dict[str, Any] | None:
    return await gather()


def _resource(worker: int) -> Resource:
    """The exporting resource; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence."""
    ours = Resource(
        {
            "service.name": "partibus",
            "service.version": __version__,
            "service.instance.id": f"{os.uname().nodename}/{os.getpid()}",
            "partibus.worker": worker,
        }
    )
    return Resource.create().merge(ours).merge(OTELResourceDetector().detect())


def _shut_down(
    provider: TracerProvider, loop: asyncio.AbstractEventLoop, over: asyncio.Event
) -> None:
    provider.shutdown()
    with contextlib.suppress(RuntimeError):  # the loop did not wait, and is closed
        loop.call_soon_threadsafe(over.set)
