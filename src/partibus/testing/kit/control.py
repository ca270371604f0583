"""Requests to a test server: signed JSON over HTTP, with only the standard library.

Owns the token, the exchange and the error for a refusal. Each request has its own connection, so
that it can be used from any thread and after the server closed others. The callers know what the
requests mean.
"""

import http.client
import json
from typing import Any, Final

from partibus.client.cbs import token_for
from partibus.client.connection_string import ConnectionString
from partibus.client.http_connection import administration_path, http_connection

TIMEOUT_S: Final = 120.0
_TOKEN_S: Final = 300

Answer = dict[str, Any]


class BusRefused(Exception):
    """The server refused the request; the text is its own, and says what to do."""

    def __init__(self, text: str, status: int, condition: str) -> None:
        super().__init__(text)
        self.status = status
        self.condition = condition


class Control:
    """The administration of one namespace."""

    def __init__(self, connection: ConnectionString, ca_file: str | None = None) -> None:
        self.connection = connection
        self.ca_file = ca_file
        self.url = connection.http_url

    def ask(self, method: str, path: str, body: Answer | None = None, **query: str) -> Answer:
        """One request below the administration's prefix; a refusal is `BusRefused`."""
        address = administration_path(path, query)
        status, raw = self._exchange(method, address, body)
        try:
            answer: Answer = json.loads(raw)
        except ValueError:
            text = raw.decode("utf-8", "replace").strip()
            raise BusRefused(f"{self.url} answers {status}: {text}", status, "") from None
        if status == http.client.OK:
            return answer
        error = answer.get("error", {})
        raise BusRefused(str(error.get("text")), status, str(error.get("condition")))

    def _exchange(self, method: str, address: str, body: Answer | None) -> tuple[int, bytes]:
        connection = http_connection(self.url, TIMEOUT_S, self.ca_file)
        content = None if body is None else json.dumps(body)
        token = token_for(self.connection, f"{self.url}/", _TOKEN_S)
        try:
            connection.request(method, address, content, {"Authorization": token})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()
