"""A port on this machine where Prometheus reads the progress of a pipeline.

Owns a small HTTP server on loopback that answers `/metrics` with the current values. It must never
change anything or serve anything else. Started and stopped by declared runs.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from pyspark_servicebus.pipelines.run.progress import PipelineFailed

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


@contextmanager
def metrics_at(port: int | None, text: Callable[[], str]) -> Iterator[int | None]:
    """Serve on a port during the block; yields the port, a free one for 0."""
    if port is None:
        yield None
        return
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), _handler(text))
    except OSError as error:
        raise PipelineFailed(
            f"The port {port} for metrics cannot be opened: {error.strerror}."
        ) from None
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(text: Callable[[], str]) -> type[BaseHTTPRequestHandler]:
    class Metrics(BaseHTTPRequestHandler):
        """Answers one request."""

        def do_GET(self) -> None:
            known = self.path.partition("?")[0] == "/metrics"
            body = text().encode() if known else b"look at /metrics\n"
            self.send_response(200 if known else 404)
            self.send_header("content-type", CONTENT_TYPE)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Requests are not logged."""

    return Metrics
