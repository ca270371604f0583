"""The bulk path over Arrow Flight.

Owns the Flight server of this process: its threads, the token of each call, and messages as record
batches. Each call is answered by the event loop, which it waits for; no state is kept here.
Importing this module needs pyarrow, so it happens only when bulk is first used.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.flight as flight

from partibus.bulk import requests as asked
from partibus.bulk.answers import Messages
from partibus.bulk.filter import MessageFilter
from partibus.bulk.putting import Batch
from partibus.bulk.reading import Reading, held_bytes
from partibus.bulk.record_batches import SCHEMAS, record_batch
from partibus.bulk.service import BulkService, Fields, error_fields
from partibus.bulk.staging import StagingService
from partibus.domain.errors import (
    ArgumentError,
    BusError,
    NotImplementedHere,
    OperationTimeout,
    Unauthorized,
)
from partibus.domain.rights import Rights
from partibus.gateway.memory.account import MemoryAccount
from partibus.gateway.memory.room import held_until_stored

ANSWER_S_MAX: Final = 120.0
"""The loop answers in milliseconds; a store that hangs must not block a thread forever."""
PUT_BATCH_BYTES_MAX: Final = 128 * 1024 * 1024
"""The largest message that an entity can accept has 100 MB."""
_MIDDLEWARE: Final = "token"
_log: Final = logging.getLogger(__name__)

Result = TypeVar("Result")
Sifted = tuple[pa.RecordBatch, pa.Buffer]
Put = asked.PutRequest | asked.StagedPutRequest


class AccessCheck(Protocol):
    """Decides whether a token is valid."""

    def admit(self, token: str) -> None:
        """Raise Unauthorized unless the token is valid, whatever entity it is for."""
        ...

    def authorize(self, token: str, path: str, right: Rights) -> None:
        """Raise Unauthorized unless the token grants the right on the path."""
        ...


@dataclass(frozen=True, slots=True)
class Action:
    """One action: the form of its request, the right it needs, and its handler."""

    request: type[asked.Request]
    right: Rights
    answer: Callable[[Any], Coroutine[Any, Any, Fields]]


class TokenMiddleware(flight.ServerMiddleware):  # type: ignore[misc]
    """The token of one call."""

    def __init__(self, token: str) -> None:
        self.token = token


class TokenFactory(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Takes the token from the header of each call; one without a valid token is refused."""

    def __init__(self, admit: Callable[[str], None]) -> None:
        self._admit = admit

    def start_call(self, info: object, headers: dict[str, list[str]]) -> TokenMiddleware:
        """Keep the token; its rights are checked later, with the path."""
        values = [value for name, value in headers.items() if name.lower() == "authorization"]
        token = values[0][0] if values and values[0] else ""
        try:
            self._admit(token)
        except BusError as error:
            raise flight_error(error) from None
        except Exception:
            _log.exception("the token of a call could not be checked")
            raise flight_error(
                BusError("The server failed to process this request; see its log.")
            ) from None
        return TokenMiddleware(token)


class BulkServer(flight.FlightServerBase):  # type: ignore[misc]
    """The Flight server of one process."""

    def __init__(
        self,
        location: str,
        loop: asyncio.AbstractEventLoop,
        service: BulkService,
        staging: StagingService,
        access: AccessCheck,
        memory: MemoryAccount,
        certificates: list[tuple[bytes, bytes]] | None = None,
    ) -> None:
        super().__init__(
            location,
            tls_certificates=certificates or [],
            middleware={_MIDDLEWARE: TokenFactory(access.admit)},
        )
        self._loop = loop
        self._service = service
        self._staging = staging
        self._memory = memory
        self._authorize = access.authorize
        self._actions: dict[str, Action] = {
            "status": Action(asked.StatusRequest, Rights.LISTEN, service.status),
            "plan": Action(asked.PlanRequest, Rights.LISTEN, service.plan),
            "find": Action(asked.FindRequest, Rights.LISTEN, service.find),
            "filter.check": Action(asked.FilterRequest, Rights.LISTEN, service.check_filter),
            "claim": Action(asked.ClaimRequest, Rights.LISTEN, service.claim),
            "renew": Action(asked.RenewRequest, Rights.LISTEN, service.renew),
            "settle": Action(asked.SettleRequest, Rights.LISTEN, service.settle),
            "release": Action(asked.ReleaseRequest, Rights.LISTEN, service.release),
            "claims": Action(asked.ListRequest, Rights.LISTEN, service.claims),
            "cursor.put": Action(asked.PlaceRequest, Rights.LISTEN, service.place),
            "cursor.drop": Action(asked.CursorRequest, Rights.LISTEN, service.drop),
            "cursors": Action(asked.ListRequest, Rights.LISTEN, service.cursors),
            "stage.publish": Action(asked.PublishRequest, Rights.SEND, staging.publish),
            "stage.drop": Action(asked.DropStagesRequest, Rights.SEND, staging.drop),
            "stage.writer": Action(asked.WriterRequest, Rights.SEND, staging.writer),
        }

    # --- calls, each in a thread of the Flight library ------------------------------------

    def list_actions(self, context: flight.ServerCallContext) -> list[tuple[str, str]]:
        """The names of the actions."""
        return [(name, action.request.__doc__ or "") for name, action in self._actions.items()]

    def do_action(
        self, context: flight.ServerCallContext, action: flight.Action
    ) -> Iterator[bytes]:
        """Answer one action with one JSON object."""
        with_body = action.body.to_pybytes() if action.body is not None else b""
        answer = self._call(self._act(_token(context), action.type, with_body))
        return iter([asked.write_answer(answer)])

    def do_get(
        self, context: flight.ServerCallContext, ticket: flight.Ticket
    ) -> flight.FlightDataStream:
        """A stream of messages."""
        token, raw = _token(context), ticket.ticket
        request = self._call(self._ticket(token, raw))
        batches = self._batches(request) if request.choice is None else self._sifted(request)
        return flight.GeneratorStream(SCHEMAS[request.form], batches)

    def do_put(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        """Store messages, batch by batch, and report the outcome of each batch."""
        token, raw = _token(context), descriptor.command or b""
        request = self._call(self._put_request(token, raw))
        for number, chunk in enumerate(reader):
            payloads = _payloads(chunk.data)
            answer = self._call(self._put(request, number, payloads))
            writer.write(pa.py_buffer(asked.write_answer(answer)))

    def list_flights(self, context: flight.ServerCallContext, criteria: bytes) -> Iterator[object]:
        """Not offered: `GET /$partibus/bulk/NAME` says where an entity is."""
        raise _not_offered("list_flights")

    def get_flight_info(
        self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor
    ) -> object:
        """Not offered, likewise."""
        raise _not_offered("get_flight_info")

    def get_schema(
        self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor
    ) -> flight.SchemaResult:
        """The schema of whole messages; a stream of another form brings its own.

        It is answered because the library would show a refusal as a traceback.
        """
        return flight.SchemaResult(SCHEMAS["message"])

    def do_exchange(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.MetadataRecordBatchWriter,
    ) -> None:
        """Not offered."""
        raise _not_offered("do_exchange")

    # --- on the loop ----------------------------------------------------------------------

    async def _act(self, token: str, name: str, raw: bytes) -> Fields:
        action = self._actions.get(name)
        if action is None:
            raise NotImplementedHere(f"There is no action '{name}'.")
        request = asked.read_request(raw, action.request)
        self._authorize(token, request.entity, action.right)
        return await action.answer(request)

    async def _ticket(self, token: str, raw: bytes) -> asked.Ticket:
        ticket = asked.read_request(raw, asked.Ticket)
        self._authorize(token, ticket.entity, Rights.LISTEN)
        if ticket.choice is not None:
            MessageFilter(ticket.choice, ticket.fragment)  # reports an invalid filter at once
        return ticket

    async def _put_request(self, token: str, raw: bytes) -> Put:
        request = asked.read_put(raw)
        self._authorize(token, request.entity, Rights.SEND)
        if isinstance(request, asked.StagedPutRequest) and request.target:
            self._authorize(token, request.target, Rights.SEND)
        return request

    async def _put(self, request: Put, number: int, payloads: list[bytes]) -> Fields:
        """Store a batch when there is memory for it; its stream is not read until then."""
        async with held_until_stored(self._memory, sum(map(len, payloads))):
            return await self._store(request, number, payloads)

    async def _store(self, request: Put, number: int, payloads: list[bytes]) -> Fields:
        if isinstance(request, asked.StagedPutRequest):
            refusals = await self._staging.stage(request, request.chunk + number, payloads)
            return _put_answer(len(payloads), 0, refusals)
        entity = self._service.entity(request.entity)
        tracing = self._service.tracing
        near = request.keyless_here
        batch = Batch(entity, request.entity, secrets.randbits(16), near, tracing)
        refusals = await batch.send(payloads)
        return _put_answer(len(payloads), batch.duplicate_count, refusals)

    # --- between the two ------------------------------------------------------------------

    def _call(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run something on the loop, and wait."""
        return _outcome(asyncio.run_coroutine_threadsafe(work, self._loop))

    def _batches(self, ticket: asked.Ticket) -> Generator[pa.RecordBatch, None, None]:
        """One batch is sent while the loop reads the next."""
        for messages, bodies in self._messages(ticket):
            yield record_batch(ticket, (messages, bodies))

    def _sifted(self, ticket: asked.Ticket) -> Generator[Sifted, None, None]:
        """The messages that pass the filter; with each batch, how many messages were checked.

        A batch may be empty: the reader counts what was checked, and sees that the read continues.
        """
        assert ticket.choice is not None
        chosen = MessageFilter(ticket.choice, ticket.fragment)
        for messages, bodies in self._messages(ticket):
            reported = {"read": len(messages), "next": messages[-1].sequence + 1}
            batch = record_batch(ticket, chosen.sift(messages, bodies))
            yield batch, pa.py_buffer(asked.write_answer(reported))

    def _messages(self, ticket: asked.Ticket) -> Generator[Messages, None, None]:
        """The messages of a stream, batch by batch; the next is read when one was accepted."""
        reading = Reading(self._memory)
        try:
            coming = self._read(reading, ticket, ticket.first)
            while True:
                messages, bodies = _outcome(coming)
                if not messages:
                    return
                coming = self._read(reading, ticket, messages[-1].sequence + 1)
                yield messages, bodies
                self._notify(partial(reading.taken, held_bytes(bodies)))
        finally:
            self._notify(reading.end)

    def _read(self, reading: Reading, ticket: asked.Ticket, first: int) -> "Future[Messages]":
        read = partial(self._service.read, ticket, first)
        batch = reading.batch(read, ticket.max_bytes_per_batch)
        return asyncio.run_coroutine_threadsafe(batch, self._loop)

    def _notify(self, call: Callable[[], None]) -> None:
        """Notify the loop; ignored when it is closed."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)


def _put_answer(count: int, duplicate_count: int, refusals: dict[int, BusError]) -> Fields:
    return {
        "accepted": count - len(refusals),
        "duplicates": duplicate_count,
        "refused": [
            [row, error.condition, error.text, error.retryable] for row, error in refusals.items()
        ],
    }


def _outcome(future: "Future[Result]") -> Result:
    try:
        return future.result(ANSWER_S_MAX)
    except BusError as error:
        raise flight_error(error) from None
    except TimeoutError:
        future.cancel()
        raise flight_error(OperationTimeout()) from None
    except Exception:
        _log.exception("a call of the bulk path failed")
        raise flight_error(
            BusError("The server failed to process this request; see its log.")
        ) from None


def flight_error(error: BusError) -> Exception:
    """An error in Flight's form: the kind, and our own fields as JSON."""
    text = msgspec.json.encode(error_fields(error)).decode()
    kind: type[Exception] = flight.FlightServerError
    if isinstance(error, Unauthorized):
        kind = flight.FlightUnauthenticatedError
    elif error.retryable:
        kind = flight.FlightUnavailableError
    return kind(text)


def _not_offered(call: str) -> Exception:
    return flight_error(
        NotImplementedHere(f"{call} is not supported; use do_action, do_get or do_put.")
    )


def _token(context: flight.ServerCallContext) -> str:
    middleware = context.get_middleware(_MIDDLEWARE)
    return middleware.token if middleware is not None else ""


def _payloads(batch: pa.RecordBatch) -> list[bytes]:
    if batch.nbytes > PUT_BATCH_BYTES_MAX:
        raise flight_error(
            ArgumentError(f"A batch may have at most {PUT_BATCH_BYTES_MAX} bytes; split it.")
        )
    at = batch.schema.get_field_index("message")
    kinds = (pa.binary(), pa.large_binary())
    if at < 0 or batch.column(at).type not in kinds or batch.column(at).null_count:
        raise flight_error(ArgumentError("A batch needs a binary column 'message' without nulls."))
    payloads: list[bytes] = batch.column(at).to_pylist()
    return payloads
