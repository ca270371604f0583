"""The error taxonomy: what a peer receives, in AMQP and in HTTP, and whether to retry.

Every class declares its AMQP `condition`, its `http_status` and `retryable`. The text
says what to do next and ends with a tracking id (ERR-22), so that a user's log line can
be found in the server's. Nothing here knows how an error travels: the gateway and the
HTTP side each translate once.
"""

import datetime
import uuid
from pathlib import Path
from typing import ClassVar

from partibus.domain import conditions


class BusError(Exception):
    """The bus could not do what was asked."""

    condition: ClassVar[str] = conditions.INTERNAL_ERROR
    http_status: ClassVar[int] = 500
    retryable: ClassVar[bool] = True

    def __init__(self, text: str | None = None) -> None:
        self.text = text if text is not None else (self.__doc__ or "").splitlines()[0]
        self.entity_path = ""
        """The entity that the text quotes, if it does."""
        self.tracking_id = str(uuid.uuid4())
        super().__init__(self.text)

    @property
    def description(self) -> str:
        """The text as a peer reads it, with the marks that support asks for."""
        return self.description_at("")

    def description_at(self, host: str) -> str:
        """The same, with entities in full as a client of that host would address them."""
        stamp = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")
        text, path = self.text, self.entity_path
        if host and path:
            text = text.replace(f"'{path}'", f"'sb://{host}/{path}'", 1)
        return f"{text} TrackingId:{self.tracking_id}, SystemTracker:partibus, Timestamp:{stamp}"


# --- the peer asked for something that is refused ---------------------------------------


class RequestError(BusError):
    """The request is refused; change it before trying again."""

    condition: ClassVar[str] = conditions.NOT_ALLOWED
    http_status: ClassVar[int] = 400
    retryable: ClassVar[bool] = False


class InvalidOperation(RequestError):
    """The operation is not valid in the entity's present state."""


class MessagesNotRead(RequestError):
    """Messages cannot be read with GET. Receive and lock one with POST to ENTITY/messages/head, or
    receive and delete one with DELETE there; to look at messages without receiving them, peek
    with an AMQP client or `partibus peek ENTITY`."""

    http_status: ClassVar[int] = 405

    def __init__(self, text: str | None = None) -> None:
        super().__init__(" ".join((self.__doc__ or "").split()) if text is None else text)


class EntityNotFound(RequestError):
    """The messaging entity could not be found. Create it, or correct its name."""

    condition: ClassVar[str] = conditions.NOT_FOUND
    http_status: ClassVar[int] = 404

    @classmethod
    def named(cls, path: str) -> "EntityNotFound":
        """The sentence that the JS client recognises as a missing entity."""
        error = cls(
            f"The messaging entity '{path}' could not be found. Create it, or correct the name."
        )
        error.entity_path = path
        return error


class EntityExists(RequestError):
    """An entity with this name already exists; choose another name."""

    condition: ClassVar[str] = conditions.MICROSOFT_ENTITY_EXISTS
    http_status: ClassVar[int] = 409

    @classmethod
    def named(cls, path: str) -> "EntityExists":
        """The sentence that users of the service know."""
        error = cls(f"The messaging entity '{path}' already exists. Choose another name.")
        error.entity_path = path
        return error


class OperationConflict(RequestError):
    """Another operation on this entity is in progress; try again when it has finished. SubCode=40901."""  # noqa: E501

    condition: ClassVar[str] = conditions.MICROSOFT_OPERATION_CANCELLED
    http_status: ClassVar[int] = 409
    retryable: ClassVar[bool] = True


class CatalogBusy(OperationConflict):
    """Another process is changing the namespace; try again. SubCode=40901."""


class EntityDisabled(RequestError):
    """The entity is disabled for this operation; set its status to Active."""

    condition: ClassVar[str] = conditions.MICROSOFT_ENTITY_DISABLED
    http_status: ClassVar[int] = 403


class MessageLockLost(RequestError):
    """The lock supplied is invalid. Either the lock expired, or the message has already been removed from the queue. Receive the message again."""  # noqa: E501

    condition: ClassVar[str] = conditions.MICROSOFT_MESSAGE_LOCK_LOST
    http_status: ClassVar[int] = 410


class SessionLockLost(RequestError):
    """The session lock was lost. Accept the session again."""

    condition: ClassVar[str] = conditions.MICROSOFT_SESSION_LOCK_LOST
    http_status: ClassVar[int] = 410


class SessionCannotBeLocked(RequestError):
    """The session is held by another receiver; try again when it is released."""

    condition: ClassVar[str] = conditions.MICROSOFT_SESSION_CANNOT_BE_LOCKED
    http_status: ClassVar[int] = 410


class ClaimLost(RequestError):
    """The claim lapsed, and others have taken some of its messages. Claim again."""

    condition: ClassVar[str] = conditions.PARTIBUS_CLAIM_LOST
    http_status: ClassVar[int] = 410


class ClaimFenced(RequestError):
    """Another run of the same owner has taken over; stop this one."""

    condition: ClassVar[str] = conditions.PARTIBUS_CLAIM_FENCED
    http_status: ClassVar[int] = 409


class StageLost(RequestError):
    """A stage is missing or incomplete: it expired or was dropped. Write the batch again."""

    condition: ClassVar[str] = conditions.PARTIBUS_STAGE_LOST
    http_status: ClassVar[int] = 410


class StageFenced(RequestError):
    """Another run of the same writer has taken over, or the batch has ended; stop this one."""

    condition: ClassVar[str] = conditions.PARTIBUS_STAGE_FENCED
    http_status: ClassVar[int] = 409


class MessageNotFound(RequestError):
    """There is no such message; peek to find its sequence number."""

    condition: ClassVar[str] = conditions.MICROSOFT_MESSAGE_NOT_FOUND
    http_status: ClassVar[int] = 404


class ParcelSealed(RequestError):
    """The origin has given up this outbox number and sends the message again."""


class MessageTooLarge(RequestError):
    """The message is larger than the entity accepts; make it smaller."""

    condition: ClassVar[str] = conditions.LINK_MESSAGE_SIZE_EXCEEDED
    http_status: ClassVar[int] = 413


class QuotaExceeded(RequestError):
    """A quota is used up; free space or raise the limit."""

    condition: ClassVar[str] = conditions.RESOURCE_LIMIT_EXCEEDED
    http_status: ClassVar[int] = 403


class NoMatchingSubscription(RequestError):
    """No subscription of the topic selects the message; add a rule that does."""

    condition: ClassVar[str] = conditions.MICROSOFT_NO_MATCHING_SUBSCRIPTION
    http_status: ClassVar[int] = 500


class Unauthorized(RequestError):
    """The token or key does not allow this; use a policy that has the right."""

    condition: ClassVar[str] = conditions.UNAUTHORIZED_ACCESS
    http_status: ClassVar[int] = 401


class ArgumentError(RequestError):
    """An argument is not valid; correct it."""

    condition: ClassVar[str] = conditions.MICROSOFT_ARGUMENT_ERROR


class MalformedMessage(RequestError):
    """The message is not a well-formed AMQP message; re-encode it."""

    condition: ClassVar[str] = conditions.DECODE_ERROR


class NotImplementedHere(RequestError):
    """This server does not offer the operation."""

    condition: ClassVar[str] = conditions.NOT_IMPLEMENTED
    http_status: ClassVar[int] = 501


class TransactionUnknown(RequestError):
    """No transaction with this id is open on this connection; declare another."""

    condition: ClassVar[str] = conditions.TRANSACTION_UNKNOWN_ID
    http_status: ClassVar[int] = 404


class TransactionRolledBack(RequestError):
    """The transaction was rolled back and had no effect; repeat it in another."""

    condition: ClassVar[str] = conditions.TRANSACTION_ROLLBACK
    http_status: ClassVar[int] = 409


class TransactionSizeExceeded(QuotaExceeded):
    """The transaction is too large; split it into several."""


# --- it may work when tried again ---------------------------------------------------------


class TransientError(BusError):
    """The bus cannot do it right now; try again."""

    condition: ClassVar[str] = conditions.MICROSOFT_SERVER_BUSY
    http_status: ClassVar[int] = 503


class ServerBusy(TransientError):
    """The server is busy; wait a few seconds and try again."""


class OperationTimeout(TransientError):
    """The operation did not finish in time; its outcome is unknown."""

    condition: ClassVar[str] = conditions.MICROSOFT_TIMEOUT
    http_status: ClassVar[int] = 408


class StoreUnavailable(TransientError):
    """The store of this fragment is down; it is probed until it answers, so try again."""


class StoreFull(StoreUnavailable):
    """The disk of this store is almost full; receive or purge messages, then send again."""


class TransactionTimedOut(TransientError):
    """The transaction did not end in time and was rolled back; repeat it in another."""

    condition: ClassVar[str] = conditions.TRANSACTION_TIMEOUT
    http_status: ClassVar[int] = 408


# --- configuration ------------------------------------------------------------------------


class ConfigError(BusError):
    """The configuration cannot be used; the text names the line or path to correct."""

    http_status: ClassVar[int] = 400
    retryable: ClassVar[bool] = False


class StoreCorrupt(BusError):
    """Stored data failed its checksum; the text names the file and the offset."""

    retryable: ClassVar[bool] = False

    def __init__(self, text: str | None = None, place: Path | str = "") -> None:
        super().__init__(text)
        self.place = str(place)
        """The file, directory or lane that the text names; empty where only its content is
        known."""

    @classmethod
    def at(cls, place: Path | str, offset: int | None, reason: str) -> "StoreCorrupt":
        """The error for damage in a file, at an offset if there is one to name."""
        where = f"{place}" if offset is None else f"{place}: offset {offset}"
        return cls(f"{where}: {reason}", place)
