"""A collector of OpenTelemetry: takes traces and metrics over OTLP/HTTP, and keeps them.

Owns the port and what came in, decoded from the wire's own protobuf. `refuses` makes it answer as
one that is down. Tests wait for a span or a metric by asking for it.
"""

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

WAIT_S_MAX: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedSpan:
    """A span as it came over the wire."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: int
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    is_error: bool
    text: str


class Collector:
    """What has been exported to one port."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.spans: list[ReceivedSpan] = []
        self.metrics: dict[str, list[tuple[dict[str, Any], Any]]] = {}
        """The last points of each metric: labels and the data point."""
        self.refuses = False
        self.refused_count = 0
        self.endpoint = ""

    def wait(self, condition: Callable[[], Any], what: str) -> Any:
        """Return what a condition finds, once it finds something."""
        with self._changed:
            assert self._changed.wait_for(condition, WAIT_S_MAX), (
                f"{what}: did not come; spans: {sorted(s.name for s in self.spans)}, metrics: "
                f"{sorted(self.metrics)}"
            )
            return condition()

    def span(self, name: str) -> ReceivedSpan:
        """Wait for a span with that name."""
        found = self.wait(lambda: self.named(name), f"span {name}")
        return found[0]

    def named(self, name: str) -> list[ReceivedSpan]:
        return [span for span in self.spans if span.name == name]

    def take(self, path: str, body: bytes) -> bool:
        """One request of an exporter; False when it is refused."""
        with self._changed:
            if self.refuses:
                self.refused_count += 1
            elif path == "/v1/traces":
                self._take_spans(ExportTraceServiceRequest.FromString(body))
            else:
                self._take_metrics(ExportMetricsServiceRequest.FromString(body))
            self._changed.notify_all()
            return not self.refuses

    def _take_spans(self, request: ExportTraceServiceRequest) -> None:
        for part in request.resource_spans:
            service = _values(part.resource.attributes)["service.name"]
            for scope in part.scope_spans:
                self.spans += [_span(service, span) for span in scope.spans]

    def _take_metrics(self, request: ExportMetricsServiceRequest) -> None:
        for part in request.resource_metrics:
            for scope in part.scope_metrics:
                for metric in scope.metrics:
                    data = getattr(metric, metric.WhichOneof("data"))
                    self.metrics[metric.name] = [
                        (_values(point.attributes), point) for point in data.data_points
                    ]


def _values(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


def _span(service: str, span: Any) -> ReceivedSpan:
    return ReceivedSpan(
        service=service,
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        kind=span.kind,
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        attributes=_values(span.attributes),
        is_error=span.status.code == 2,
        text=span.status.message,
    )


@contextmanager
def collector() -> Iterator[Collector]:
    """A collector on a free port of this machine."""
    kept = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            self.send_response(200 if kept.take(self.path, body) else 400)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield kept
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
