"""How often each error was reported to peers of this process.

Owns one table of counters, by the AMQP condition. The gateway and the HTTP sides each count an
error where they translate it, the one place that every refusal passes.
"""

from collections import Counter
from typing import Final

from partibus.domain.errors import BusError, ServerBusy

THROTTLED: Final = "throttled"
USER: Final = "user"
SERVER: Final = "server"

_counts: Counter[tuple[str, str]] = Counter()


def note_error(error: BusError) -> None:
    """This error is reported to a peer."""
    _counts[_whose(error), error.condition] += 1


def error_counts() -> dict[tuple[str, str], int]:
    """The counts, by responsibility and condition."""
    return dict(_counts)


def _whose(error: BusError) -> str:
    """Whose fault an error is, as Azure Monitor classifies them."""
    if isinstance(error, ServerBusy):
        return THROTTLED
    return SERVER if error.http_status >= 500 else USER
