"""What goes wrong with the bus, in its own words, and how long to try again.

Owns the exceptions that Spark's users see and the patience with a bus that is away or busy: what
may work later is tried again with growing pauses until the time is up. No text here ever holds
a token or a key.
"""

import contextlib
import json
import re
import time
from typing import Final

from partibus.domain.sequence import SEQUENCE_BITS

UNREACHABLE: Final = "partibus:unreachable"
CLAIM_LOST: Final = "partibus:claim-lost"
FIRST_PAUSE_S: Final = 0.1
PAUSE_S_MAX: Final = 2.0
_ASKED_PAUSE: Final = re.compile(r"wait (\d+) seconds? and try again", re.IGNORECASE)
CLAIM_BACK_S: Final = 10.0
"""How long a claim may be gone for a task: one that lapsed while the bus was away is taken back by
the driver, as long as nobody has touched its messages."""


class BulkError(Exception):
    """The bus refused something; `condition` is what AMQP clients are told."""

    def __init__(self, condition: str, text: str, retryable: bool) -> None:
        super().__init__(f"{text} ({condition})")
        self.condition = condition
        self.text = text
        self.retryable = retryable


class ClaimLost(BulkError):
    """Messages of a claim were taken by others after it had lapsed."""


class DataLoss(Exception):
    """Messages that should have been read are gone."""


class UnreadableMessage(Exception):
    """A message that no row can be made of; which one, and what to do."""

    def __init__(self, entity: str, sequence_number: int, reason: str) -> None:
        super().__init__(
            f"Message {sequence_number} in fragment {sequence_number >> SEQUENCE_BITS} of "
            f"'{entity}' cannot become a row: {reason}. Receive and settle it with another "
            "client, or leave the column out with the option columns."
        )
        self.entity = entity
        self.sequence_number = sequence_number


def told_error(told: dict[str, object]) -> BulkError:
    """An error as the bus wrote it."""
    condition, text = str(told.get("condition", "")), str(told.get("text", ""))
    kind = ClaimLost if condition == CLAIM_LOST else BulkError
    return kind(condition, text, bool(told.get("retryable")))


def flight_error(error: Exception) -> BulkError:
    """What the bus said, taken out of what Flight made of it."""
    text = str(error)
    told: object = None
    if (start := text.find("{")) >= 0:
        # Behind our own words Flight may have put its own, with braces too.
        with contextlib.suppress(ValueError):
            told, _ = json.JSONDecoder().raw_decode(text, start)
    if not isinstance(told, dict) or "condition" not in told:
        first = text.partition("\n")[0].partition(". Detail:")[0]
        return BulkError(UNREACHABLE, f"The bus cannot be reached: {first}", True)
    return told_error(told)


class Patience:
    """Pauses between tries, longer and longer, until the time is up."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lapsed_at: float | None = None
        self.renew()

    def renew(self) -> None:
        """Something worked: the time begins anew."""
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

    def bear(self, error: BulkError) -> None:
        """Wait a little after an error, or raise it: it is final, or the time is up.

        A busy bus may tell how long it wants to be left alone; it is not asked before."""
        may_end = error.retryable or (isinstance(error, ClaimLost) and self._may_come_back())
        if not may_end or not self.wait(asked_pause_s(error.text)):
            raise error

    def _may_come_back(self) -> bool:
        now = time.monotonic()
        if self._lapsed_at is None:
            self._lapsed_at = now
        return now < self._lapsed_at + CLAIM_BACK_S


def asked_pause_s(text: str) -> float:
    """The seconds that an error asks to be waited; 0 when it asks for none."""
    match = _ASKED_PAUSE.search(text)
    return float(match[1]) if match is not None else 0.0
