"""What can go wrong with a rule: when it is created, and when it is evaluated.

Owns the two refusals of FLT-8, which show the text with a mark under the error, and the error of an
evaluation (FLT-9), which leaves the package only as text. The refusals name the property of the
definitions file, so that a file's reader can point at the line.
"""

from typing import Final

from partibus.domain.refusal import PropertyRefused

_EXCERPT_WIDTH: Final = 60


def excerpt(text: str, start: int, end: int) -> str:
    """Two lines: the text around a position, and marks under the position."""
    first = max(0, min(start - _EXCERPT_WIDTH // 2, len(text) - _EXCERPT_WIDTH))
    last = min(len(text), first + _EXCERPT_WIDTH)
    before, after = "..." if first else "", "..." if last < len(text) else ""
    shown = "".join(c if c.isprintable() else " " for c in text[first:last])
    marks = "^" * max(1, min(end, last) - start)
    return f"  {before}{shown}{after}\n  {' ' * (len(before) + start - first)}{marks}"


class RuleRefused(PropertyRefused):
    """A rule is not valid; correct its text."""

    property_in_file: str = "rule"

    def __init__(self, reason: str, text: str = "", start: int = 0, end: int | None = None) -> None:
        self.start = start
        self.end = start + 1 if end is None else end
        self.complaint = reason
        if text:
            reason = f"{reason} At character {start + 1}:\n{excerpt(text, start, self.end)}"
        super().__init__(self.property_in_file, reason)


class FilterError(RuleRefused):
    """The SQL expression of a filter is not valid; correct it."""

    property_in_file = "sql_filter"


class CorrelationError(RuleRefused):
    """The conditions of a correlation filter are not valid; correct them."""

    property_in_file = "correlation_filter"


class RuleActionError(RuleRefused):
    """The SQL expression of an action is not valid; correct it."""

    property_in_file = "action"


class EvaluationError(Exception):
    """An expression has no value for this message: types that do not fit, a division by zero."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
