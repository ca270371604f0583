"""What is asked over the bulk path, as it stands in tickets, descriptors and actions.

Owns the forms: JSON objects, read strictly, with a limit on everything. Numbers are those of
a fragment; fragments are named by their index within the entity. It decides nothing and knows
no fragment.
"""

from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta, Struct

from partibus.domain.errors import ArgumentError

REQUEST_BYTES_MAX: Final = 1024 * 1024
"""A claim over a thousand fragments needs less."""
DURATION_MS_MAX: Final = 7 * 24 * 3600 * 1000
MESSAGES_MAX: Final = 10_000_000
BYTES_MAX: Final = 1 << 40
BATCH_BYTES_DEFAULT: Final = 2 * 1024 * 1024
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Path = Annotated[str, Meta(min_length=1, max_length=400)]
Number = Annotated[int, Meta(ge=0, lt=1 << 48)]
Index = Annotated[int, Meta(ge=0, lt=1 << 16)]
Epoch = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Duration = Annotated[int, Meta(ge=1000, le=DURATION_MS_MAX)]
Count = Annotated[int, Meta(ge=0, le=MESSAGES_MAX)]
Bytes = Annotated[int, Meta(ge=0, le=BYTES_MAX)]
SubQueue = Annotated[str, Meta(pattern="^(none|deadletter)$")]


class Request(Struct, forbid_unknown_fields=True):
    """What every request names."""

    entity: Path


class StatusRequest(Request):
    """How the fragments stand."""

    sub_queue: SubQueue = "none"
    fragments: list[Index] | None = None


class Limits(Struct, forbid_unknown_fields=True):
    """How much to plan or to claim of a fragment."""

    messages: Count = MESSAGES_MAX
    bytes: Bytes = BYTES_MAX


class PlanRequest(Request, rename={"start": "from"}):
    """How far a read of each fragment would come, within the limits of each or of all."""

    start: dict[Index, Number]
    limits: dict[Index, Limits] = {}
    max_messages: Count = MESSAGES_MAX
    max_bytes: Bytes = BYTES_MAX
    sub_queue: SubQueue = "none"


class FindRequest(Request):
    """The first message of each fragment that was enqueued at or after a time."""

    timestamp_ms: Annotated[int, Meta(ge=0, lt=1 << 53)]
    fragments: list[Index] | None = None


class ClaimRequest(Request):
    """Hold messages of several fragments."""

    owner: Name
    epoch: Epoch
    start: Name
    duration_ms: Duration
    limits: dict[Index, Limits]


class RenewRequest(Request):
    """Hold them for longer."""

    owner: Name
    epoch: Epoch
    start: Name
    duration_ms: Duration
    fragments: list[Index] | None = None


class SettleRequest(Request):
    """Complete them."""

    owner: Name
    epoch: Epoch
    start: Name
    fragments: list[Index] | None = None


class ReleaseRequest(Request):
    """Give them back."""

    owner: Name
    epoch: Epoch
    forget: bool = False
    fragments: list[Index] | None = None


class ListRequest(Request):
    """The claims, or the cursors, of an entity."""

    fragments: list[Index] | None = None


class CursorRequest(Request):
    """One cursor."""

    name: Name


class PlaceRequest(Request):
    """Make a cursor, or move it."""

    name: Name
    positions: dict[Index, Number]
    retain_ms: Annotated[int, Meta(ge=0, lt=1 << 53)]
    retain_bytes: Bytes


class Ticket(Request, rename={"first": "from", "last": "to"}):
    """One read: a range of a fragment, or of a claim in it."""

    fragment: Index
    mode: Annotated[str, Meta(pattern="^(range|claim)$")]
    first: Number = 0
    last: Annotated[int, Meta(ge=0, le=1 << 48)] = 1 << 48
    sub_queue: SubQueue = "none"
    owner: str = ""
    start: str = ""
    max_bytes_per_batch: Annotated[int, Meta(ge=1, le=BATCH_BYTES_MAX)] = BATCH_BYTES_DEFAULT


class PutRequest(Request):
    """Where messages are to go."""

    deliver: Annotated[str, Meta(pattern="^atLeastOnce$")] = "atLeastOnce"


RequestType = TypeVar("RequestType", bound=Request)


def read_request(raw: bytes, kind: type[RequestType]) -> RequestType:
    """A request of a kind; what is wrong with it is told in the error."""
    if len(raw) > REQUEST_BYTES_MAX:
        raise ArgumentError(f"The request has {len(raw)} bytes; {REQUEST_BYTES_MAX} are allowed.")
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.MsgspecError as error:
        raise ArgumentError(f"The request cannot be read: {error}.") from error


def write_answer(answer: dict[str, Any]) -> bytes:
    """An answer as it goes out."""
    return msgspec.json.encode(answer)
