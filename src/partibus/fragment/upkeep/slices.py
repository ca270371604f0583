"""Slices: how much of what is due at one moment is done in one turn.

Owns the allowance that a tick spends. Thousands of locks that lapse or messages that expire
together are handled a slice at a time, so that the other fragments of the broker get their turns in
between; a fragment with more to do reports it and is ticked again at once. What is not handled yet
has ended all the same: code that uses a lock or takes a message checks its time.
"""

from typing import Final

SLICE: Final = 256
"""Messages: one or two milliseconds of a turn, with their records."""


class Allowance:
    """What may still be done in this turn, shared by all that are ticked in it."""

    __slots__ = ("left",)

    def __init__(self, count: int = SLICE) -> None:
        self.left = count

    def spend(self, count: int) -> None:
        """Count work that was done."""
        self.left = max(0, self.left - count)
