"""What was found among dead letters, and what rules did or would do, as text and as JSON.

Owns the numbers of a report and their form on a terminal. It is made once by the pipeline and read
by people and programs; `deadletters.page` makes the page for a browser.
"""

import datetime
from dataclasses import dataclass, field
from typing import Final

from pyspark_servicebus.pipelines.report.text_table import moment, report_json, short, text_table
from pyspark_servicebus.pipelines.report.wording import counted

CAUSES_SHOWN: Final = 20
SHAPE_SHOWN: Final = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One dead letter, safe to print."""

    sequence_number: int
    enqueued_time: datetime.datetime
    message_id: str
    subject: str
    attempts: int
    description: str
    body_bytes: int
    body_preview: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Similar dead letters: of one entity, for one reason, with one shape of text."""

    entity: str
    reason: str
    shape: str
    count: int
    first: datetime.datetime
    last: datetime.datetime
    attempts_max: int
    body_bytes: int
    samples: tuple[Sample, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hour:
    """How many dead letters of a reason were enqueued in an hour."""

    hour: datetime.datetime
    entity: str
    reason: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCount:
    """What a rule matches, and the outcomes."""

    rule: str
    action: str
    matched: int
    unfixable: int = 0
    """Of them, those on which it cannot be carried out."""
    done: int = 0
    failed: int = 0
    gone: int = 0
    held: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterReport:
    """Everything that `pipeline deadletters` reports."""

    namespace: str
    taken_at: datetime.datetime
    entities_looked_at: int
    counted: dict[str, int]
    """Dead letters by entity, as the bus counted them before the read."""
    total: int
    """Dead letters that were read."""
    causes: tuple[Cause, ...]
    causes_left_off: int = 0
    hours: tuple[Hour, ...] = ()
    deferred: int = 0
    rules: tuple[RuleCount, ...] = ()
    without_rule: int = 0
    has_rules: bool = False
    is_dry_run: bool = False
    problems: tuple[str, ...] = ()
    written: tuple[str, ...] = field(default=())

    @property
    def failed(self) -> int:
        """Dead letters that a rule matches but was not carried out on."""
        return sum(rule.failed + rule.held for rule in self.rules)

    def shortfall(self) -> str | None:
        """Where the rules were not carried out, for the exit code."""
        if not self.failed:
            return None
        were = "was" if self.failed == 1 else "were"
        return f"{counted(self.failed, 'dead letter')} {were} not moved; the report says which."

    def as_json(self) -> str:
        return report_json(self)

    def as_text(self) -> str:
        parts = [self.headline()]
        if self.causes:
            parts.append(self._cause_table())
        if self.has_rules:
            parts.append(self._rule_table())
        if self.problems:
            parts.append("\n".join(f"  {problem}" for problem in self.problems))
        if self.written:
            parts.append("\n".join(f"written: {path}" for path in self.written))
        return "\n\n".join(parts)

    def headline(self) -> str:
        """The finding in a sentence."""
        if not self.total:
            return f"No dead letters in {counted(self.entities_looked_at, 'entity', 'entities')}."
        having = len({cause.entity for cause in self.causes})
        text = (
            f"{counted(self.total, 'dead letter')} in {counted(having, 'entity', 'entities')}, for "
            f"{counted(len(self.causes) + self.causes_left_off, 'cause')}"
        )
        top = self.causes[0]
        share = round(100 * top.count / self.total)
        return f"{text}; {share} % are {top.reason} in {top.entity}."

    def _cause_table(self) -> str:
        rows = [
            (
                f"{cause.count:,}",
                cause.entity,
                cause.reason,
                short(cause.shape or "(no text)", SHAPE_SHOWN),
                moment(cause.first),
                moment(cause.last),
            )
            for cause in self.causes[:CAUSES_SHOWN]
        ]
        heads = ("count", "entity", "reason", "text", "first", "last")
        table = text_table(heads, rows, right=(0,))
        left = len(self.causes) + self.causes_left_off - CAUSES_SHOWN
        return table + (f"\n... and {counted(left, 'cause')} more" if left > 0 else "")

    def _rule_table(self) -> str:
        rows = [self.rule_row(rule) for rule in self.rules]
        rest = "(no rule: left)" if self.rules else "(no rule)"
        blanks = ("",) * (2 if self.is_dry_run else 5)
        rows.append((rest, "", f"{self.without_rule:,}", *blanks[1:]))
        ends = ("cannot",) if self.is_dry_run else ("done", "failed", "gone", "held")
        title = "What would happen:" if self.is_dry_run else "What happened:"
        numbers = tuple(range(2, 3 + len(ends)))
        return f"{title}\n" + text_table(("rule", "action", "fits", *ends), rows, right=numbers)

    def rule_row(self, rule: RuleCount) -> tuple[str, ...]:
        """A line of the table of rules: the end shows what happened, or what cannot."""
        row = (rule.rule, rule.action, f"{rule.matched:,}")
        ends = (rule.done, rule.failed, rule.gone, rule.held)
        return (*row, *(f"{n:,}" for n in ((rule.unfixable,) if self.is_dry_run else ends)))
