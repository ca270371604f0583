"""Who is connected, over all workers, and how to close a connection.

Owns the questions `connections` and `close-connection` that every worker answers for its own
clients, the ids that distinguish them (`WORKER-NUMBER`), and the pages in which they are shown.
`gateway.connection_report` owns the report of a connection.
"""

from typing import Any, Final

from partibus.amqp.errors import AmqpError
from partibus.cluster.control_hub import ControlHub, Payload
from partibus.domain import conditions
from partibus.domain.errors import ArgumentError, EntityNotFound
from partibus.gateway.connection_report import report_connection, uses
from partibus.gateway.gateway import Gateway

CONNECTIONS: Final = "connections"
CLOSE: Final = "close-connection"
PAGE_MAX: Final = 500
LINKS_SHOWN_MAX: Final = 20
"""The links shown of each connection in a list; one requested by its id shows all."""
LINKS_MAX: Final = 10_000
REASON_LENGTH_MAX: Final = 200
REASON_DEFAULT: Final = "An operator closed the connection; reconnect."


class OwnConnections:
    """The clients of this process."""

    def __init__(self, gateway: Gateway, worker: int) -> None:
        self._gateway = gateway
        self._worker = worker

    def register(self, control: ControlHub) -> None:
        """Register the questions of this process."""
        control.register(CONNECTIONS, self.list)
        control.register(CLOSE, self.close)

    def list(self, payload: Payload) -> Payload:
        """Connections after `after` in order, and how many there are in all."""
        found = {c.origin.number: c for c in self._gateway.connections}
        entity, number = payload.get("entity"), payload.get("number")
        if number is not None:
            found = {n: c for n, c in found.items() if n == number}
        elif entity:
            found = {n: c for n, c in found.items() if uses(c, entity)}
        page = [n for n in sorted(found) if (self._worker, n) > tuple(payload["after"])]
        shown = [report_connection(found[n], payload["links"]) for n in page[: payload["limit"]]]
        return {"total": len(found), "left": len(page) - len(shown), "connections": shown}

    def close(self, payload: Payload) -> Payload:
        """Close one; the client gets the reason."""
        for connection in self._gateway.connections:
            if connection.origin.number == payload["number"]:
                connection.force_close(AmqpError(conditions.CONNECTION_FORCED, payload["reason"]))
                return {"closed": True}
        return {"closed": False}


class ConnectionService:
    """The clients of the whole server."""

    def __init__(self, control: ControlHub) -> None:
        self._control = control

    async def list(self, entity: str | None, after: str | None, limit: int) -> Payload:
        """A page of connections in the order of their ids, with the id to continue from."""
        if not 1 <= limit <= PAGE_MAX:
            raise ArgumentError(f"'limit' must be a number from 1 to {PAGE_MAX}, not {limit}.")
        start = (-1, 0) if after is None else _parts(after)
        asked = {"entity": entity, "after": start, "limit": limit, "links": LINKS_SHOWN_MAX}
        answers = await self._control.ask_all(CONNECTIONS, asked)
        found = [
            _with_id(worker, connection)
            for worker, answer in sorted(answers.items())
            for connection in answer["connections"]
        ]
        left = sum(answer["left"] for answer in answers.values()) + len(found) - limit
        return {
            "connections": found[:limit],
            "total": sum(answer["total"] for answer in answers.values()),
            "next": found[limit - 1]["id"] if left > 0 and len(found) >= limit else None,
        }

    async def show(self, name: str) -> Payload:
        """One connection with all its links."""
        worker, number = _parts(name)
        asked = {"number": number, "after": (-1, 0), "limit": 1, "links": LINKS_MAX}
        answer = await self._ask(worker, CONNECTIONS, asked, name)
        if not answer["connections"]:
            raise _gone(name)
        return _with_id(worker, answer["connections"][0])

    async def close(self, name: str, reason: str | None) -> Payload:
        """Close one with amqp:connection:forced and the reason."""
        worker, number = _parts(name)
        text = reason or REASON_DEFAULT
        if len(text) > REASON_LENGTH_MAX:
            raise ArgumentError(f"'reason' has at most {REASON_LENGTH_MAX} characters.")
        answer = await self._ask(worker, CLOSE, {"number": number, "reason": text}, name)
        if not answer["closed"]:
            raise _gone(name)
        return {"id": name, "closed": True}

    async def _ask(self, worker: int, question: str, payload: Payload, name: str) -> Payload:
        if worker not in self._control.workers:
            raise _gone(name)
        return await self._control.ask(worker, question, payload)


def _with_id(worker: int, connection: dict[str, Any]) -> Payload:
    number = connection.pop("number")
    return {"id": f"{worker}-{number}", "worker": worker, **connection}


def _parts(name: str) -> tuple[int, int]:
    worker, _, number = name.partition("-")
    if not (_is_number(worker) and _is_number(number)):
        raise ArgumentError(f"'{name[:40]}' is not the id of a connection; one looks like 0-17.")
    return int(worker), int(number)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18


def _gone(name: str) -> EntityNotFound:
    return EntityNotFound(f"There is no connection '{name}'; list those that are open.")
