"""The running server, as the command line talks to it: JSON over HTTP.

Owns the way from a connection string or a URL to a signed request, and the translation of
everything that can go wrong into one sentence and an exit code. Only the standard library
is used. Called by the verbs that look at a server or change something there.
"""

import http.client
import json
import ssl
import time
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlsplit

from partibus.control.sas import TOKEN_PREFIX, sign
from partibus.server.failure import (
    EXIT_FAILED,
    EXIT_NOT_FOUND,
    EXIT_UNAUTHORIZED,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
)

PREFIX: Final = "/$partibus"
DEVELOPMENT_POLICY: Final = "RootManageSharedAccessKey"
DEVELOPMENT_KEY: Final = "SAS_KEY_VALUE"
DEFAULT_URL: Final = "http://127.0.0.1:5672"
PLAIN_PORT: Final = 5672
TLS_PORT: Final = 5671
TIMEOUT_S: Final = 60.0
TOKEN_LIFETIME_S: Final = 300
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")

_ARGUMENT_ERROR: Final = "com.microsoft:argument-error"

Answer = dict[str, Any]


class RemoteError(Exception):
    """What a user is told, and the exit code that says it to a program."""

    def __init__(self, text: str, exit_code: int = EXIT_FAILED) -> None:
        super().__init__(text)
        self.text = text
        self.exit_code = exit_code


@dataclass(slots=True, frozen=True)
class Target:
    """Where the server is, and the credential to show there."""

    url: str
    policy: str = DEVELOPMENT_POLICY
    key: str = DEVELOPMENT_KEY
    token: str | None = None

    def authorization(self) -> str:
        """A token for the whole namespace, for a few minutes."""
        if self.token is not None:
            return self.token
        return sign(f"{self.url}/", self.policy, self.key, int(time.time()) + TOKEN_LIFETIME_S)


def find_target(connection_string: str | None, url: str | None) -> Target:
    """The server that the options mean."""
    if connection_string is None:
        return _development_target(url or DEFAULT_URL)
    fields = _fields(connection_string)
    place = _url(url) if url else _endpoint(fields)
    if "sharedaccesssignature" in fields:
        token = fields["sharedaccesssignature"]
        return Target(
            place, token=token if token.startswith(TOKEN_PREFIX) else TOKEN_PREFIX + token
        )
    try:
        return Target(place, fields["sharedaccesskeyname"], fields["sharedaccesskey"])
    except KeyError as missing:
        raise RemoteError(
            "the connection string has no SharedAccessKeyName and SharedAccessKey; copy it from"
            " the READY line of the server.",
            EXIT_USAGE,
        ) from missing


def _development_target(url: str) -> Target:
    place = _url(url)
    if urlsplit(place).hostname not in _LOOPBACK:
        raise RemoteError(
            f"{place} needs a key: give --connection-string, or set PARTIBUS_CONNECTION_STRING.",
            EXIT_USAGE,
        )
    return Target(place)


def _fields(connection_string: str) -> dict[str, str]:
    parts = [part.partition("=") for part in connection_string.split(";") if part.strip()]
    return {name.strip().lower(): value.strip() for name, _, value in parts}


def _url(url: str) -> str:
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise RemoteError(f"'{url}' is no URL; write for example {DEFAULT_URL}.", EXIT_USAGE)
    return f"{parts.scheme}://{parts.netloc}"


def _endpoint(fields: dict[str, str]) -> str:
    """The HTTP side of an endpoint: the port tells HTTP apart by itself."""
    parts = urlsplit(fields.get("endpoint", ""))
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host:
        raise RemoteError(
            "the connection string has no Endpoint; copy it from the READY line of the server.",
            EXIT_USAGE,
        )
    host = f"[{host}]" if ":" in host else host
    if fields.get("usedevelopmentemulator", "").lower() == "true":
        return f"http://{host}:{port or PLAIN_PORT}"
    return f"https://{host}:{port or TLS_PORT}"


class RemoteServer:
    """A server to put questions to."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def ask(self, method: str, path: str, body: Answer | None = None) -> Answer:
        """One request below the administration's prefix; errors are RemoteErrors."""
        status, raw = self._exchange(method, quote(PREFIX + path, safe="/$"), body)
        try:
            answer = json.loads(raw)
            if status == http.client.OK and isinstance(answer, dict):
                return answer
            error = RemoteError(
                answer["error"]["text"], _exit_code(status, answer["error"]["condition"])
            )
        except (ValueError, KeyError, TypeError) as cause:
            raise RemoteError(
                f"{self.target.url} answers {status}, but not as a Partibus server of this version"
                " does. Is this the right port?"
            ) from cause
        raise error

    def _exchange(self, method: str, path: str, body: Answer | None) -> tuple[int, bytes]:
        connection = self._connection()
        headers = {"Authorization": self.target.authorization()}
        content = None if body is None else json.dumps(body)
        try:
            connection.request(method, path, content, headers)
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.target.url)
        assert parts.hostname is not None
        if parts.scheme == "http":
            return http.client.HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT_S)
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=TIMEOUT_S, context=context
        )

    def _unreachable(self, error: Exception) -> RemoteError:
        if isinstance(error, ssl.SSLError):
            hint = "Trust its CA with SSL_CERT_FILE (ca= in the READY line)."
        elif isinstance(error, TimeoutError):
            hint = "It did not answer in time; is it very busy, or is this the wrong place?"
        else:
            hint = "Is the server running? Start it with: partibus serve"
        reason = (getattr(error, "strerror", None) or str(error) or repr(error)).rstrip(".")
        return RemoteError(f"cannot reach {self.target.url}: {reason}. {hint}", EXIT_UNREACHABLE)


def _exit_code(status: int, condition: str) -> int:
    if condition == _ARGUMENT_ERROR:
        return EXIT_USAGE
    codes: dict[int, int] = {
        http.client.NOT_FOUND: EXIT_NOT_FOUND,
        http.client.UNAUTHORIZED: EXIT_UNAUTHORIZED,
        http.client.FORBIDDEN: EXIT_UNAUTHORIZED,
    }
    return codes.get(status, EXIT_FAILED)
