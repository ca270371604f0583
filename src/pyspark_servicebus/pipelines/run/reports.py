"""What every pipeline returns, and whether it did everything requested.

Owns the interface between a pipeline and its callers: a verb, a script, a declared file. All of
them print a report first and then call `all_done`, so that they end with the same code. A report
that may fall short has a method `shortfall`; what others have done meanwhile is not a shortfall.
"""

import json
from dataclasses import asdict
from typing import Any, Protocol, TypeVar, runtime_checkable

from pyspark_servicebus.pipelines.run.progress import PipelineFailed


class Report(Protocol):
    """What a pipeline returns."""

    def as_json(self) -> str:
        """For programs."""

    def as_text(self) -> str:
        """For people."""


class JsonReport:
    """The form for programs of a report that is a dataclass of plain values."""

    __slots__ = ()

    def as_json(self) -> str:
        """For programs."""
        report: Any = self
        return json.dumps(asdict(report), indent=2)


@runtime_checkable
class _MayFallShort(Protocol):
    def shortfall(self) -> str | None:
        """What was requested and not done, as a sentence; None when everything was done."""


Made = TypeVar("Made", bound=Report)


def shortfall_of(report: Report) -> str | None:
    """What a run has not done of what was requested, as a sentence."""
    return report.shortfall() if isinstance(report, _MayFallShort) else None


def all_done(report: Report) -> None:
    """Raise PipelineFailed when a run has not done everything requested."""
    if reported := shortfall_of(report):
        raise PipelineFailed(reported)
