"""The namespace of a running server, changed over its JSON surface.

Owns one request at a time with a token of its own making, each over a new connection, so that
with several workers any of them may be the one that is asked.
"""

import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from support.sas import sas_token
from support.server import ServerProcess

PREFIX = "/$partibus"


@dataclass
class Refused(Exception):
    """What the server answered in place of doing it."""

    status: int
    condition: str
    text: str
    retryable: bool


class JsonAdmin:
    """Entities and policies of one server."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server

    def ask(
        self, method: str, path: str, body: object = None, token: str | None = None
    ) -> dict[str, Any]:
        """One request; a refusal is raised."""
        ready = self._server.ready
        authority = f"{ready.http_host}:{ready.http_port}"
        connection = http.client.HTTPConnection(ready.http_host, ready.http_port, timeout=60)
        try:
            connection.request(
                method,
                PREFIX + path,
                None if body is None else json.dumps(body),
                {"authorization": token or sas_token(f"http://{authority}/")},
            )
            response = connection.getresponse()
            answer: dict[str, Any] = json.loads(response.read())
        finally:
            connection.close()
        if response.status != 200:
            error = answer["error"]
            raise Refused(response.status, error["condition"], error["text"], error["retryable"])
        return answer

    def create(self, name: str, kind: str = "queue", **properties: object) -> dict[str, Any]:
        body = {"name": name, "kind": kind, "properties": properties}
        return self.ask("POST", "/entities", body)

    def update(self, name: str, **properties: object) -> dict[str, Any]:
        return self.ask("PATCH", f"/entities/{quote(name)}", {"properties": properties})

    def delete(self, name: str) -> dict[str, Any]:
        return self.ask("DELETE", f"/entities/{quote(name)}")

    def get(self, name: str) -> dict[str, Any]:
        return self.ask("GET", f"/entities/{quote(name)}")

    def stores(self) -> list[dict[str, Any]]:
        stores: list[dict[str, Any]] = self.ask("GET", "/stores")["stores"]
        return stores

    def put_policy(self, name: str, rights: list[str], entity: str = "") -> dict[str, Any]:
        return self.ask("PUT", f"/policies/{name}{_of(entity)}", {"rights": rights})

    def policies(self, entity: str = "") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("GET", f"/policies{_of(entity)}")["policies"]
        return found

    def delete_policy(self, name: str, entity: str = "") -> dict[str, Any]:
        return self.ask("DELETE", f"/policies/{name}{_of(entity)}")

    def regenerate(self, name: str, key: str = "primary", entity: str = "") -> dict[str, Any]:
        return self.ask("POST", f"/policies/{name}/regenerate{_of(entity)}", {"key": key})

    def fault(self, **fault: object) -> dict[str, Any]:
        return self.ask("POST", "/faults", fault)


def _of(entity: str) -> str:
    return f"?entity={quote(entity, safe='')}" if entity else ""
