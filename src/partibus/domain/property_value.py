"""The values that rules compare with and set: the conditions of filters, and parameters.

Owns which types there are. A time is kept as the text that its owner wrote, so that every client
reads back the same value of the same type; `rules.time_values` interprets it. It must never
validate the text: the catalog does, when it checks a rule.
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
