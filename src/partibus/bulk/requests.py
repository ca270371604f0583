"""Requests of the bulk path, as encoded in tickets, descriptors and actions.

Owns the forms: JSON objects, validated strictly, with a limit on everything. Numbers are those of a
fragment; fragments are named by their index within the entity. It must never decide anything or use
a fragment.
"""

from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta, Struct

from partibus.domain.errors import ArgumentError
from partibus.domain.sequence import NUMBERS_END, SEQUENCE_MAX

REQUEST_BYTES_MAX: Final = 1024 * 1024
"""Enough for a claim over a thousand fragments."""
DURATION_MS_MAX: Final = 7 * 24 * 3600 * 1000
MESSAGES_MAX: Final = 10_000_000
BYTES_MAX: Final = 1 << 40
TIME_MS_MAX: Final = 1 << 53
BATCH_BYTES_DEFAULT: Final = 2 * 1024 * 1024
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Path = Annotated[str, Meta(min_length=1, max_length=400)]
Number = Annotated[int, Meta(ge=0, le=SEQUENCE_MAX)]
Index = Annotated[int, Meta(ge=0, lt=1 << 16)]
Run = Annotated[int, Meta(ge=1, le=(1 << 63) - 1)]
Epoch = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Duration = Annotated[int, Meta(ge=1000, le=DURATION_MS_MAX)]
Count = Annotated[int, Meta(ge=0, le=MESSAGES_MAX)]
Bytes = Annotated[int, Meta(ge=0, le=BYTES_MAX)]
SubQueue = Annotated[str, Meta(pattern="^(none|deadletter|waiting)$")]


class Request(Struct, forbid_unknown_fields=True):
    """The fields of every request."""

    entity: Path


class FragmentsRequest(Request, kw_only=True):
    """A request to all fragments, or to those that it names."""

    fragments: list[Index] | None = None


class StatusRequest(FragmentsRequest):
    """The status of the fragments."""

    sub_queue: SubQueue = "none"


class Limits(Struct, forbid_unknown_fields=True):
    """How much to plan or to claim of a fragment."""

    messages: Count = MESSAGES_MAX
    bytes: Bytes = BYTES_MAX


class PlanRequest(Request, rename={"start": "from"}):
    """How far a read of each fragment would get, within the limits of each or of all."""

    start: dict[Index, Number]
    limits: dict[Index, Limits] = {}
    max_messages: Count = MESSAGES_MAX
    max_bytes: Bytes = BYTES_MAX
    sub_queue: SubQueue = "none"


class FindRequest(FragmentsRequest):
    """The first message of each fragment that was enqueued at or after a time."""

    timestamp_ms: Annotated[int, Meta(ge=0, lt=1 << 53)]


class ClaimRequest(Request):
    """Hold messages of several fragments."""

    owner: Name
    epoch: Epoch
    start: Name
    duration_ms: Duration
    limits: dict[Index, Limits]


class RenewRequest(FragmentsRequest):
    """Extend a claim."""

    owner: Name
    epoch: Epoch
    start: Name
    duration_ms: Duration


class SettleRequest(FragmentsRequest):
    """Complete the claimed messages."""

    owner: Name
    epoch: Epoch
    start: Name


class ReleaseRequest(FragmentsRequest):
    """Release the claimed messages."""

    owner: Name
    epoch: Epoch
    forget: bool = False


class ListRequest(FragmentsRequest):
    """The claims, or the cursors, of an entity."""


class CursorRequest(Request):
    """One cursor."""

    name: Name


class PlaceRequest(Request):
    """Create or move a cursor."""

    name: Name
    positions: dict[Index, Number]
    retain_ms: Annotated[int, Meta(ge=0, lt=1 << 53)]
    retain_bytes: Bytes


class FilterRequest(Request):
    """Check whether a filter is valid, before anything is read with it."""

    filter: Annotated[str, Meta(min_length=1)]


class Choice(Struct, forbid_unknown_fields=True):
    """Which messages of a range are wanted; by default all."""

    filter: str = ""
    session_ids: list[str] | None = None
    message_ids: list[str] | None = None
    enqueued_from_ms: Annotated[int, Meta(ge=0)] = 0
    enqueued_to_ms: Annotated[int, Meta(ge=0, le=TIME_MS_MAX)] = TIME_MS_MAX


class Ticket(Request, rename={"first": "from", "last": "to"}):
    """One read: a range of a fragment, or of a claim in it."""

    fragment: Index
    mode: Annotated[str, Meta(pattern="^(range|claim)$")]
    first: Number = 0
    last: Annotated[int, Meta(ge=0, le=NUMBERS_END)] = NUMBERS_END
    sub_queue: SubQueue = "none"
    owner: str = ""
    start: str = ""
    max_bytes_per_batch: Annotated[int, Meta(ge=1, le=BATCH_BYTES_MAX)] = BATCH_BYTES_DEFAULT
    choice: Choice | None = None
    form: Annotated[str, Meta(pattern="^(message|parts|heads)$")] = "message"
    """Whole messages, or their parts in columns: with bodies, or only their heads."""


class PutRequest(Request):
    """Where messages are sent.

    `keyless_here`: those without a key go to fragments of the receiving process. For senders that
    distribute them over all processes themselves, so that none is passed from one to another.
    """

    deliver: Annotated[str, Meta(pattern="^atLeastOnce$")] = "atLeastOnce"
    keyless_here: bool = False


class StagedPutRequest(Request):
    """Where messages are staged: in a stage of a writer whose home is the entity.

    `chunk` is the number of the first batch in the stage; they are bound to `target`, or else to
    the entity itself.
    """

    deliver: Annotated[str, Meta(pattern="^staged$")]
    writer: Name
    epoch: Run
    stage: Name
    chunk: Annotated[int, Meta(ge=0, lt=1 << 31)] = 0
    target: Annotated[str, Meta(max_length=400)] = ""


class WriterRequest(Request):
    """One writer."""

    writer: Name


class PublishRequest(Request):
    """Publish stages, each with the number of its messages, as a batch of a series."""

    writer: Name
    series: Name
    epoch: Run
    batch: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
    stages: list[tuple[Name, Count]]


class DropStagesRequest(Request):
    """Drop what a writer has staged up to an epoch, or some stages of it.

    With `forget` the writer is forgotten too, with the record of the batches that it has
    published."""

    writer: Name
    epoch: Run
    stages: list[Name] | None = None
    forget: bool = False


class Delivery(Struct):
    """How messages are sent, whatever else is requested."""

    deliver: str = "atLeastOnce"


# Text that is not UTF-8, and deeply nested values, raise other errors.
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

RequestType = TypeVar("RequestType", bound=Request)


def read_request(raw: bytes, kind: type[RequestType]) -> RequestType:
    """A request of a kind; the error says what is wrong with it."""
    if len(raw) > REQUEST_BYTES_MAX:
        raise ArgumentError(f"The request has {len(raw)} bytes; the limit is {REQUEST_BYTES_MAX}.")
    try:
        return msgspec.json.decode(raw, type=kind)
    except _UNREADABLE as error:
        raise ArgumentError(f"The request cannot be read: {error}.") from error


def read_put(raw: bytes) -> PutRequest | StagedPutRequest:
    """A request to put messages, of either kind."""
    try:
        is_staged = msgspec.json.decode(raw, type=Delivery).deliver == "staged"
    except _UNREADABLE:
        is_staged = False
    return read_request(raw, StagedPutRequest) if is_staged else read_request(raw, PutRequest)


def write_answer(answer: dict[str, Any]) -> bytes:
    """An answer as bytes."""
    return msgspec.json.encode(answer)
