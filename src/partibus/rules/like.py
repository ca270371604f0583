"""LIKE patterns as a fixed number of searches (SQL-7).

Owns the reading of `%`, `_` and the escape, and the matching. A pattern is split at its `%` into
pieces; the first must begin the text, the last must end it, and each other is searched after the
one before. The leftmost match is always as good as any, so nothing is ever tried twice and no
pattern can be slow. Called by `rules.compiler`.
"""

import functools
import re
from collections.abc import Callable
from typing import Final

from partibus.domain.limits import FILTER_LENGTH_MAX

Piece = list[str | None]
"""What is between two `%`: characters, and None for any one character."""
Search = Callable[[str, int, int], int]
"""Where a piece begins in a text between two positions; -1 if it is not there."""

_CACHED_MAX: Final = 1024


class PatternError(ValueError):
    """A pattern or its escape is not well formed."""


class LikePattern:
    """A compiled pattern."""

    __slots__ = ("_first", "_is_single", "_last", "_least", "_middle")

    def __init__(self, pattern: str, escape: str | None = None) -> None:
        pieces = _pieces(pattern, escape)
        self._is_single = len(pieces) == 1
        self._least = sum(map(len, pieces))
        self._first = (_search(pieces[0]), len(pieces[0]))
        self._last = (_search(pieces[-1]), len(pieces[-1]))
        self._middle = [(_search(piece), len(piece)) for piece in pieces[1:-1] if piece]

    def matches(self, text: str) -> bool:
        """Whether the whole text fits the pattern."""
        search, place = self._first
        if len(text) < self._least or search(text, 0, place) < 0:
            return False
        if self._is_single:
            return len(text) == self._least
        search, length = self._last
        end = len(text) - length
        if search(text, end, len(text)) < 0:
            return False
        for search, length in self._middle:
            found = search(text, place, end)
            if found < 0:
                return False
            place = found + length
        return True


@functools.lru_cache(maxsize=_CACHED_MAX)
def like_pattern(pattern: str, escape: str | None) -> LikePattern:
    """A pattern, compiled or cached; a bad one is a `PatternError`."""
    return LikePattern(pattern, escape)


def _pieces(pattern: str, escape: str | None) -> list[Piece]:
    if len(pattern) > FILTER_LENGTH_MAX:
        raise PatternError(f"a pattern has at most {FILTER_LENGTH_MAX} characters")
    if escape is not None and len(escape) != 1:
        raise PatternError("the escape is not exactly one character")
    pieces: list[Piece] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, None)
            if escaped is None:
                raise PatternError("the pattern ends with its escape character")
            pieces[-1].append(escaped)
        elif character == "%":
            pieces.append([])
        else:
            pieces[-1].append(None if character == "_" else character)
    return pieces


def _search(piece: Piece) -> Search:
    """The leftmost position of a piece; one as long as the range must match all of it."""
    plain = [character for character in piece if character is not None]
    if len(plain) == len(piece):
        text = "".join(plain)

        def find(subject: str, start: int, end: int) -> int:
            return subject.find(text, start, end)

        return find
    expression = re.compile(
        "".join("." if character is None else re.escape(character) for character in piece),
        re.DOTALL,
    )

    def scan(subject: str, start: int, end: int) -> int:
        found = expression.search(subject, start, end)
        return -1 if found is None else found.start()

    return scan
