"""A Flight client that knows the protocol by its document and nothing of ours.

Owns the requests as they stand in docs/internals/bulk.md. Tokens are signed by the tests' own
hand; errors are taken apart into what the server has said.
"""

import contextlib
import http.client
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from support.sas import sas_token
from support.server import ServerProcess

SCHEMA = pa.schema([("message", pa.binary())])


class Refused(Exception):
    """What the server answered instead."""

    def __init__(self, told: dict[str, Any]) -> None:
        super().__init__(told["text"])
        self.condition = told["condition"]
        self.retryable = told["retryable"]


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Errors of Flight become what the server has said."""
    try:
        yield
    except flight.FlightError as error:
        text = str(error)
        raise Refused(json.JSONDecoder().raw_decode(text, text.index("{"))[0]) from error


class BulkClient:
    """One who holds a token."""

    def __init__(self, server: ServerProcess, token: str | None = None) -> None:
        self._server = server
        port = server.ready.amqp_port
        self.token = sas_token(f"sb://127.0.0.1:{port}/") if token is None else token

    def discover(self, entity: str) -> tuple[int, dict[str, Any]]:
        """The status and the answer."""
        port = self._server.ready.http_port
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        headers = {"authorization": self.token} if self.token else {}
        try:
            connection.request("GET", f"/$partibus/bulk/{entity}", headers=headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def locations(self, entity: str) -> dict[int, str]:
        status, answer = BulkClient(self._server).discover(entity)
        assert status == 200, answer
        return {fragment["index"]: fragment["location"] for fragment in answer["fragments"]}

    def _options(self) -> flight.FlightCallOptions:
        headers = [(b"authorization", self.token.encode())] if self.token else []
        return flight.FlightCallOptions(headers=headers, timeout=60)

    def raw_action(self, location: str, name: str, body: bytes) -> Any:
        with told(), flight.connect(location) as client:
            [result] = client.do_action(flight.Action(name, body), self._options())
            return json.loads(result.body.to_pybytes())

    def ask(self, entity: str, action: str, index: int = 0, /, **fields: Any) -> Any:
        """One action at the worker of a fragment."""
        body = json.dumps({"entity": entity, **fields}).encode()
        return self.raw_action(self.locations(entity)[index], action, body)

    def raw_read(self, location: str, ticket: bytes) -> list[pa.RecordBatch]:
        with told(), flight.connect(location) as client:
            return [part.data for part in client.do_get(flight.Ticket(ticket), self._options())]

    def read(self, entity: str, index: int, **fields: Any) -> list[pa.RecordBatch]:
        ticket = {"entity": entity, "fragment": index, "mode": "range", **fields}
        return self.raw_read(self.locations(entity)[index], json.dumps(ticket).encode())

    def put(self, entity: str, *batches: Any, at: int = 0, **fields: Any) -> list[dict[str, Any]]:
        """Batches of messages, or record batches; gives the answer to each."""
        command = json.dumps({"entity": entity, **fields}).encode()
        descriptor = flight.FlightDescriptor.for_command(command)
        made = [_batch(batch) for batch in batches]
        with told(), flight.connect(self.locations(entity)[at]) as client:
            writer, answers = client.do_put(descriptor, made[0].schema, self._options())
            found = []
            with writer:
                for batch in made:
                    writer.write_batch(batch)
                    raw = answers.read()
                    if raw is not None:
                        found.append(json.loads(raw.to_pybytes()))
            return found


def _batch(batch: Any) -> pa.RecordBatch:
    if isinstance(batch, pa.RecordBatch):
        return batch
    return pa.RecordBatch.from_arrays([pa.array(batch, pa.binary())], schema=SCHEMA)
