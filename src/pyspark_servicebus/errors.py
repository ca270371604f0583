"""What goes wrong with the bus: conditions, exceptions, and how long to try again.

Owns the exceptions that Spark's users see. Each is a PySparkException with the name of a condition
and parameters, as Spark's own are; Spark passes an error of a task or of a stream on as text, from
which `condition_of` reads the name again. Also owns the retries for a bus that is unreachable or
busy: what may work later is tried again with growing pauses until the time is up. No text here may
contain a token or a key.
"""

import contextlib
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from pyspark.errors import PySparkException

from partibus.domain import conditions
from partibus.domain.sequence import fragment_of

_NAMES: Final = {
    conditions.PARTIBUS_UNREACHABLE: "SERVICEBUS_UNREACHABLE",
    conditions.PARTIBUS_CLAIM_LOST: "SERVICEBUS_CLAIM_LOST",
    conditions.PARTIBUS_CLAIM_FENCED: "SERVICEBUS_REPLACED_BY_LATER_RUN",
    conditions.PARTIBUS_STAGE_FENCED: "SERVICEBUS_REPLACED_BY_LATER_RUN",
    conditions.NOT_FOUND: "SERVICEBUS_ENTITY_NOT_FOUND",
    conditions.UNAUTHORIZED_ACCESS: "SERVICEBUS_UNAUTHORIZED",
    conditions.MICROSOFT_SERVER_BUSY: "SERVICEBUS_BUSY",
}
"""Conditions for Spark's users by those of AMQP; all others are a request that was refused."""
FIRST_PAUSE_S: Final = 0.1
PAUSE_S_MAX: Final = 2.0
_ASKED_PAUSE: Final = re.compile(r"wait (\d+) seconds? and try again", re.IGNORECASE)
CLAIM_BACK_S: Final = 10.0
"""How long a task waits for a missing claim: one that lapsed while the bus was unreachable is taken
back by the driver, as long as nobody else has touched its messages."""
_T = TypeVar("_T")
_CONDITION: Final = re.compile(r"\[(SERVICEBUS_[A-Z_]+(?:\.[A-Z_]+)?)\]")


class ServiceBusError(PySparkException):
    """An error of this data source, with `getCondition` and `getMessageParameters`."""

    def __init__(self, condition: str, words: str, **parameters: object) -> None:
        reported = {name: str(value) for name, value in parameters.items()}
        super().__init__(words, errorClass=condition, messageParameters=reported)
        self.words = words
        """The text without the name of the condition."""

    def getSqlState(self) -> None:  # noqa: N802 - Spark's name
        """None: Spark looks in its table of conditions, which has only its own."""

    def getBreakingChangeInfo(self) -> None:  # noqa: N802 - Spark's name
        """None, likewise."""


def condition_of(error: BaseException) -> str | None:
    """The condition of this data source in an error, even when Spark has wrapped it."""
    if isinstance(error, ServiceBusError):
        return error.getCondition()
    match = _CONDITION.search(str(error))
    return match[1] if match is not None else None


class BulkError(ServiceBusError):
    """The bus refused something; `condition` is the error condition that AMQP clients get."""

    def __init__(self, condition: str, text: str, retryable: bool) -> None:
        name = _NAMES.get(condition, "SERVICEBUS_REQUEST_REFUSED")
        super().__init__(
            name, f"{text} ({condition})", amqpCondition=condition, text=text, retryable=retryable
        )
        self.condition = condition
        self.text = text
        self.retryable = retryable


class ClaimLost(BulkError):
    """Messages of a claim were taken by others after it had lapsed."""


@dataclass(frozen=True, slots=True)
class LossAdvice:
    """What can be done about lost messages; each source provides its own text."""

    restart: str = "Begin with a new checkpoint"
    accept: str = "set failOnDataLoss=false to continue with what is there"


class DataLoss(ServiceBusError):
    """Messages that should have been read are gone.

    `kind` is the second part of the condition's name, `what` a sentence, and `remedy` the
    alternative to accepting the loss.
    """

    def __init__(
        self, kind: str, what: str, remedy: str, advice: LossAdvice, **parameters: object
    ) -> None:
        super().__init__(
            f"SERVICEBUS_DATA_LOSS.{kind}", f"{what} {remedy}, or {advice.accept}.", **parameters
        )
        self.kind = kind


class CheckpointError(ServiceBusError, ValueError):
    """A checkpoint, or a file belonging to it, that this version or this query cannot use."""

    def __init__(self, kind: str, words: str, **parameters: object) -> None:
        super().__init__(f"SERVICEBUS_CHECKPOINT.{kind}", words, **parameters)


class UnreadableMessage(ServiceBusError):
    """A message that cannot become a row; says which one, and what to do."""

    def __init__(self, entity: str, sequence_number: int, reason: str) -> None:
        fragment = fragment_of(sequence_number)
        super().__init__(
            "SERVICEBUS_MESSAGE_UNREADABLE",
            f"Message {sequence_number} in fragment {fragment} of '{entity}' cannot become a row: "
            f"{reason}. Receive and settle it with another client, or leave the column out with "
            "the option columns.",
            entity=entity,
            fragment=fragment,
            sequenceNumber=sequence_number,
            reason=reason,
        )
        self.entity = entity
        self.sequence_number = sequence_number


def reported_error(reported: dict[str, object]) -> BulkError:
    """An error as the bus wrote it."""
    condition, text = str(reported.get("condition", "")), str(reported.get("text", ""))
    kind = ClaimLost if condition == conditions.PARTIBUS_CLAIM_LOST else BulkError
    return kind(condition, text, bool(reported.get("retryable")))


def flight_error(error: Exception) -> BulkError:
    """The error of the bus, extracted from Flight's."""
    text = str(error)
    reported: object = None
    if (start := text.find("{")) >= 0:
        # Flight may have appended its own text, which may contain braces too.
        with contextlib.suppress(ValueError):
            reported, _ = json.JSONDecoder().raw_decode(text, start)
    if not isinstance(reported, dict) or "condition" not in reported:
        first = text.partition("\n")[0].partition(". Detail:")[0]
        return BulkError(
            conditions.PARTIBUS_UNREACHABLE, f"The bus cannot be reached: {first}", True
        )
    return reported_error(reported)


class Backoff:
    """Pauses between attempts, longer and longer, until the time is up."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lapsed_at: float | None = None
        self.reset()

    def reset(self) -> None:
        """An attempt succeeded: the time starts again."""
        self._deadline = time.monotonic() + self._seconds
        self._pause_s = FIRST_PAUSE_S
        self._lapsed_at = None

    def wait(self, least_s: float = 0.0) -> bool:
        """Wait a little; False, at once, when the time is up."""
        pause_s = max(self._pause_s, least_s)
        if time.monotonic() + pause_s > self._deadline:
            return False
        time.sleep(pause_s)
        self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)
        return True

    def wait_or_raise(self, error: BulkError) -> None:
        """Wait a little after an error, or raise it: it is final, or the time is up.

        A busy bus may say how long to wait; then there is no earlier attempt.
        """
        may_end = error.retryable or (isinstance(error, ClaimLost) and self._may_come_back())
        if not may_end or not self.wait(asked_pause_s(error.text)):
            raise error

    def _may_come_back(self) -> bool:
        now = time.monotonic()
        if self._lapsed_at is None:
            self._lapsed_at = now
        return now < self._lapsed_at + CLAIM_BACK_S


def retried(seconds: float, work: Callable[[], _T]) -> _T:
    """Do something that may be repeated; what may work later is retried until the time is up."""
    backoff = Backoff(seconds)
    while True:
        try:
            return work()
        except BulkError as error:
            backoff.wait_or_raise(error)


def asked_pause_s(text: str) -> float:
    """The seconds that an error asks to wait; 0 when it does not."""
    match = _ASKED_PAUSE.search(text)
    return float(match[1]) if match is not None else 0.0
