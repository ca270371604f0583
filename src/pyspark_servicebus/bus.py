"""The bus as Spark's processes reach it: where its fragments are, and the bulk path to them.

Owns the connections of one process to one entity: discovery over HTTP, and Flight clients by
location. Used on the driver and in executors alike, each with its own `Access`; errors have the
text of the bus.
"""

import http.client
import json
import ssl
import urllib.parse
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.flight as flight

from partibus.client.http_connection import administration_path
from partibus.domain import conditions
from pyspark_servicebus.access import Access
from pyspark_servicebus.errors import BulkError, flight_error

HTTP_SECONDS_MAX: Final = 90.0
QUESTION_SECONDS_MAX: Final = 10.0
"""A query is answered from memory: a worker that takes longer hangs, or is gone."""
CALL_SECONDS_MAX: Final = 30.0
"""A change, a read or a write. A lost machine does not report itself: its fragments have another
owner within seconds, and waiting callers have to ask there. All calls may be repeated."""
_QUESTIONS: Final = frozenset(
    ("status", "plan", "find", "filter.check", "claims", "cursors", "stage.writer")
)
PUTS_IN_FLIGHT: Final = 3
"""Batches sent before the first answer is awaited."""
_PUT_SCHEMA: Final = pa.schema([("message", pa.binary())])

Fields = dict[str, Any]
Chunk = tuple[pa.RecordBatch, Fields | None]


@dataclass(frozen=True, slots=True)
class Entity:
    """Where an entity is, as the bus reports it."""

    path: str
    entity_id: int
    """Another one when it was deleted and created again."""
    kind: str
    requires_session: bool
    detects_duplicates: bool
    message_bytes_max: int
    locations: dict[int, str | None]
    """By the index of a fragment; None while its worker does not answer."""


def discover(access: Access, entity: str) -> Entity:
    """Ask the bus for the locations of an entity's fragments."""
    url = urllib.parse.urlsplit(access.http_url)
    connection: http.client.HTTPConnection
    host = url.hostname or ""
    if url.scheme == "https":
        context = ssl.create_default_context(cadata=access.ca.decode() if access.ca else None)
        connection = http.client.HTTPSConnection(
            host, url.port, timeout=HTTP_SECONDS_MAX, context=context
        )
    else:
        connection = http.client.HTTPConnection(host, url.port, timeout=HTTP_SECONDS_MAX)
    path = administration_path(f"/bulk/{entity}")
    try:
        connection.request("GET", path, headers={"authorization": access.token()})
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException) as error:
        text = f"{access.host} cannot be reached: {error}."
        raise BulkError(conditions.PARTIBUS_UNREACHABLE, text, True) from None
    finally:
        connection.close()
    return _entity(answer.status, body, access.host)


def _entity(status: int, body: bytes, host: str) -> Entity:
    try:
        reported = json.loads(body)
    except ValueError:
        reported = {}
    if status != http.HTTPStatus.OK:
        error = reported.get("error") or {}
        text = error.get("text") or f"{host} answered {status}: it does not offer the bulk API."
        condition = error.get("condition", conditions.NOT_IMPLEMENTED)
        raise BulkError(condition, text, bool(error.get("retryable")))
    return Entity(
        reported["entity"],
        reported["generation"],
        reported["kind"],
        reported["requires_session"],
        reported["detects_duplicates"],
        reported["message_bytes_max"],
        {fragment["index"]: fragment["location"] for fragment in reported["fragments"]},
    )


class Flight:
    """Flight clients by location, with the current token."""

    def __init__(self, entity: str, access: Access) -> None:
        self._entity = entity
        self.access = access
        self._clients: dict[str, flight.FlightClient] = {}

    def action(self, location: str, action: str, /, **fields: object) -> Fields:
        """Ask one worker."""
        request = json.dumps({"entity": self._entity, **fields}).encode()
        try:
            client = self._client(location)
            seconds = QUESTION_SECONDS_MAX if action in _QUESTIONS else CALL_SECONDS_MAX
            options = self._options(seconds)
            [result] = client.do_action(flight.Action(action, request), options)
        except (flight.FlightError, pa.ArrowException) as error:
            raise self._error(location, error) from None
        answer: Fields = json.loads(result.body.to_pybytes())
        return answer

    def chunks(self, location: str, **ticket: object) -> Iterator[Chunk]:
        """Messages of one fragment, batch by batch, each with what the bus reports about it if the
        read is filtered."""
        request = json.dumps({"entity": self._entity, **ticket}).encode()
        try:
            options = self._options(CALL_SECONDS_MAX)
            stream = self._client(location).do_get(flight.Ticket(request), options)
            for chunk in stream:
                reported = chunk.app_metadata
                yield chunk.data, None if reported is None else json.loads(reported.to_pybytes())
        except (flight.FlightError, pa.ArrowException) as error:
            raise self._error(location, error) from None

    def put(
        self, location: str, batches: Iterable[list[bytes]], **fields: object
    ) -> Iterator[Fields]:
        """Send messages; returns the outcome of each batch, in order.

        A few batches are sent before the first answer is awaited.
        """
        command = json.dumps({"entity": self._entity, **fields}).encode()
        descriptor = flight.FlightDescriptor.for_command(command)
        waiting: deque[int] = deque()
        try:
            client = self._client(location)
            options = self._options(CALL_SECONDS_MAX)
            writer, answers = client.do_put(descriptor, _PUT_SCHEMA, options)
            with writer:
                for messages in batches:
                    columns = [pa.array(messages, pa.binary())]
                    writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=_PUT_SCHEMA))
                    waiting.append(len(messages))
                    if len(waiting) >= PUTS_IN_FLIGHT:
                        yield self._answer(answers, waiting)
                writer.done_writing()
                while waiting:
                    yield self._answer(answers, waiting)
        except (flight.FlightError, pa.ArrowException) as error:
            raise self._error(location, error) from None

    def _answer(self, answers: flight.FlightMetadataReader, waiting: deque[int]) -> Fields:
        raw = answers.read()
        if raw is None:
            raise BulkError(
                conditions.PARTIBUS_UNREACHABLE, "The bus closed a write without an answer.", True
            )
        answer: Fields = json.loads(raw.to_pybytes())
        count = answer["accepted"] + len(answer["refused"])
        if count != waiting.popleft():
            raise BulkError(
                conditions.INTERNAL_ERROR, f"The bus answered for only {count} messages.", False
            )
        return answer

    def close(self) -> None:
        """Close the connections."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()

    def _client(self, location: str) -> flight.FlightClient:
        client = self._clients.get(location)
        if client is None:
            client = flight.connect(location, tls_root_certs=self.access.ca)
            self._clients[location] = client
        return client

    def _error(self, location: str, error: Exception) -> BulkError:
        """The error; a broken connection is not used again."""
        reported = flight_error(error)
        if reported.condition == conditions.PARTIBUS_UNREACHABLE:
            self._clients.pop(location, None)
        return reported

    def _options(self, seconds: float) -> flight.FlightCallOptions:
        headers = [(b"authorization", self.access.token().encode())]
        return flight.FlightCallOptions(timeout=seconds, headers=headers)
