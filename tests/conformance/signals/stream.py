"""Server-sent events, read as they come."""

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from support.sas import sas_token
from support.server import ServerProcess


class Stream:
    """An open stream; it ends with its connection."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response
        self.seen: list[dict[str, Any]] = []

    def until(self, kind: str, **facts: object) -> dict[str, Any]:
        """The next event of a kind with these facts; the test's time-out ends a vain wait."""
        while line := self._response.readline():
            if line.startswith(b"data: "):
                event: dict[str, Any] = json.loads(line[6:])
                self.seen.append(event)
                if event["kind"] == kind and facts.items() <= event.items():
                    return event
        raise AssertionError(f"the stream ended before {kind}: {self.seen}")


@contextmanager
def events(server: ServerProcess, query: str = "") -> Iterator[Stream]:
    ready = server.ready
    connection = http.client.HTTPConnection(ready.http_host, ready.http_port, timeout=60)
    token = sas_token(f"http://{ready.http_host}:{ready.http_port}/")
    connection.request("GET", f"/$partibus/events{query}", headers={"authorization": token})
    response = connection.getresponse()
    assert response.status == 200, response.read()
    assert response.getheader("content-type", "").startswith("text/event-stream")
    assert response.readline() == b": connected\n"
    try:
        yield Stream(response)
    finally:
        connection.close()
