"""Messages for which a function failed: how they are found, and where they go.

Owns the form of a failed message, which is the message itself with the reason in the properties
that dead letters have, and the search for the rows of a batch that make a function of whole frames
fail. A failure that no row causes must never be attributed to rows. Called by the steps and by
`transform`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from partibus.domain.annotations import DEAD_LETTER_DESCRIPTION, DEAD_LETTER_REASON

ORIGIN: Final = "DeadLetterSource"
FAILED: Final = "TransformFailed"
TEXT_CHARACTERS_MAX: Final = 1000

Attempt = Callable[[Sequence[int]], str | None]
"""Tries the function on the messages with these numbers; returns the error."""


class TooManyFailures(Exception):
    """More rows fail than the settings allow; the function itself is likely wrong."""


def failed_row(row: Mapping[str, Any], text: str, queue: str) -> dict[str, Any]:
    """The original message, to be sent to the queue for failures."""
    properties = dict(row.get("application_properties") or {})
    properties[DEAD_LETTER_REASON] = FAILED
    properties[DEAD_LETTER_DESCRIPTION] = text[:TEXT_CHARACTERS_MAX]
    if row.get("entity"):
        properties[ORIGIN] = row["entity"]
    return {**row, "application_properties": properties, "target": queue}


def failing_numbers(numbers: Sequence[int], attempt: Attempt, most: int) -> dict[int, str]:
    """The messages for which the function fails, each with the text of its failure.

    The batch is bisected until single messages fail: about 2 log n attempts for each of them.
    """
    found: dict[int, str] = {}
    for number, text in _failing(numbers, attempt):
        found[number] = text
        if len(found) > most:
            raise TooManyFailures(
                f"More than {most} messages of one batch failed; the last error: {text} Nothing "
                "was consumed or sent. Correct the function, or allow more with failures_max."
            )
    return found


def _failing(numbers: Sequence[int], attempt: Attempt) -> Iterator[tuple[int, str]]:
    text = attempt(numbers)
    if text is None:
        return
    if len(numbers) == 1:
        yield numbers[0], text
        return
    middle = len(numbers) // 2
    yield from _failing(numbers[:middle], attempt)
    yield from _failing(numbers[middle:], attempt)
