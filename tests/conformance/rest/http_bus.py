"""The bus as a program without an SDK sees it: http.client and the vendor's REST documentation.

Owns the requests. Signatures are made by hand (`support.sas`), and nothing of the product is used.
"""

import contextlib
import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from support.sas import sas_token

TIMEOUT_SECONDS = 60
BATCH_TYPE = "application/vnd.microsoft.servicebus.json"


@dataclass(frozen=True, slots=True)
class Answer:
    """A response; `headers` keep the case of their names."""

    status: int
    body: bytes
    headers: list[tuple[str, str]] = field(default_factory=list)

    def header(self, name: str) -> str:
        (value,) = [v for n, v in self.headers if n == name]
        return value

    @property
    def broker(self) -> dict[str, Any]:
        properties: dict[str, Any] = json.loads(self.header("BrokerProperties"))
        return properties

    @property
    def lock_path(self) -> str:
        """The path of the address in Location."""
        _scheme, _, rest = self.header("Location").partition("://")
        return "/" + rest.partition("/")[2]


class HttpBus:
    """One server, one key."""

    def __init__(self, port: int, **access: Any) -> None:
        self._port = port
        self._access = access

    def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
        token: str | None = None,
    ) -> Answer:
        sent = self.access()
        if token is not None:
            sent = {"Authorization": token} if token else {}
        with contextlib.closing(self.connection()) as connection:
            connection.request(method, path, body, sent | (headers or {}))
            response = connection.getresponse()
            return Answer(response.status, response.read(), response.getheaders())

    def access(self) -> dict[str, str]:
        """The header that opens the namespace."""
        token = sas_token(f"http://localhost:{self._port}/", **self._access)
        return {"Authorization": token}

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("localhost", self._port, timeout=TIMEOUT_SECONDS)

    def send(
        self,
        entity: str,
        body: bytes = b"",
        properties: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        given = dict(headers or {})
        if properties is not None:
            given["BrokerProperties"] = json.dumps(properties)
        return self.ask("POST", f"/{entity}/messages", body, given)

    def send_batch(self, entity: str, *messages: object) -> Answer:
        body = json.dumps(messages).encode()
        return self.ask("POST", f"/{entity}/messages", body, {"Content-Type": BATCH_TYPE})

    def lock(self, entity: str, timeout: object = 0) -> Answer:
        return self.ask("POST", f"/{entity}/messages/head?timeout={timeout}")

    def take(self, entity: str, timeout: object = 0) -> Answer:
        return self.ask("DELETE", f"/{entity}/messages/head?timeout={timeout}")

    def complete(self, locked: Answer) -> int:
        return self.ask("DELETE", locked.lock_path).status

    def unlock(self, locked: Answer) -> int:
        return self.ask("PUT", locked.lock_path).status

    def renew(self, locked: Answer) -> Answer:
        return self.ask("POST", locked.lock_path)

    def drain(self, entity: str) -> Iterator[Answer]:
        """What is there, one after the other, for good."""
        while (answer := self.take(entity)).status != 204:
            assert answer.status == 200, answer
            yield answer
