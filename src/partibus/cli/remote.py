"""The running server, as the command line talks to it: JSON over HTTP.

Owns the signed request and the reading of its answer, whole or as it comes; everything that can go
wrong is a `CommandFailed` with one sentence and an exit code. Only the standard library is used.
Called by the verbs that look at a server or change something there.
"""

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from partibus.cli.failures import CommandFailed, unreachable
from partibus.cli.place import HTTP_TIMEOUT_S, Place
from partibus.client.cbs import token_for
from partibus.client.http_connection import administration_path
from partibus.domain import conditions
from partibus.server.failure import EXIT_FAILED, EXIT_NOT_FOUND, EXIT_UNAUTHORIZED, EXIT_USAGE

TOKEN_LIFETIME_S: Final = 300

Answer = dict[str, Any]


def authorization(place: Place) -> str:
    """A token for the whole namespace, for a few minutes."""
    return token_for(place.connection, f"{place.url}/", TOKEN_LIFETIME_S)


class RemoteServer:
    """A server to send requests to."""

    def __init__(self, place: Place, timeout_s: float = HTTP_TIMEOUT_S) -> None:
        self.place = place
        self._timeout_s = timeout_s

    def ask(
        self,
        method: str,
        path: str,
        body: Answer | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request below the administration's prefix; errors are CommandFailed."""
        content = None if body is None else json.dumps(body)
        with self._answered(method, path, query, content) as response:
            status, raw = response.status, response.read()
        try:
            answer = json.loads(raw)
            if status == http.client.OK and isinstance(answer, dict):
                return answer
            error = CommandFailed(
                answer["error"]["text"], _exit_code(status, answer["error"]["condition"])
            )
        except (ValueError, KeyError, TypeError) as cause:
            raise CommandFailed(
                f"{self.place.url} answered {status}, but not like a Partibus server of this"
                " version. Is this the right port?"
            ) from cause
        raise error

    @contextmanager
    def stream(
        self, path: str, otherwise: str, query: Mapping[str, str] | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        """A long answer, read as it comes; a refusal has the server's text, or else `otherwise`, in
        which {} is the status."""
        with self._answered("GET", path, query) as response:
            if response.status != http.client.OK:
                text = _refusal(response.read()) or otherwise.format(response.status)
                raise CommandFailed(text)
            yield response

    @contextmanager
    def _answered(
        self, method: str, path: str, query: Mapping[str, str] | None, content: str | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        address = administration_path(path, query)
        connection = self.place.open_http(self._timeout_s)
        headers = {"Authorization": authorization(self.place)}
        try:
            connection.request(method, address, content, headers)
            yield connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise unreachable(self.place.url, error) from error
        finally:
            connection.close()


def _refusal(raw: bytes) -> str:
    try:
        return str(json.loads(raw)["error"]["text"])
    except (ValueError, KeyError, TypeError):
        return ""


def _exit_code(status: int, condition: str) -> int:
    if condition == conditions.MICROSOFT_ARGUMENT_ERROR:
        return EXIT_USAGE
    codes: dict[int, int] = {
        http.client.NOT_FOUND: EXIT_NOT_FOUND,
        http.client.UNAUTHORIZED: EXIT_UNAUTHORIZED,
        http.client.FORBIDDEN: EXIT_UNAUTHORIZED,
    }
    return codes.get(status, EXIT_FAILED)
