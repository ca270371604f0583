"""What is prepared about cursors, until it is durable.

Owns the changes that the commands about cursors make, and the trimming of what is kept: each has
its records and what is needed to carry it out. Made and finished by `behaviour`.
"""

from dataclasses import dataclass

from partibus.fragment.changes import Change
from partibus.fragment.cursors.commands import CursorPort, CursorSummary
from partibus.fragment.ports import AnswerPort


@dataclass(eq=False)
class CursorPlacement(Change):
    """A cursor is placed where it was asked to be."""

    cursor: CursorSummary
    port: CursorPort


@dataclass(eq=False)
class CursorDrop(Change):
    """A cursor is deleted."""

    name: str
    port: AnswerPort


@dataclass(eq=False)
class Trim(Change):
    """Nothing below a number is kept any more."""

    floor: int
