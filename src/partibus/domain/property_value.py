"""The values that rules compare with and set: the conditions of filters, and parameters.

Owns which types there are. A time is kept in the words in which its owner wrote it, so that it
reads back as the same value of the same type in every client; `rules.time_values` says what it
means. Nothing here checks that the words are valid: the catalog does, when it checks a rule.
"""

from dataclasses import dataclass
from typing import Literal

TimeKind = Literal["dateTime", "duration"]
"""The types by their names in XML Schema."""


@dataclass(slots=True, frozen=True)
class TimeValue:
    """A moment such as `2020-07-05T11:12:13Z`, or a duration such as `P1DT2H`."""

    kind: TimeKind
    text: str


PropertyValue = str | int | float | bool | TimeValue
