"""What to do with dead letters: rules, of which the first match decides.

Owns the meaning of a rule: what it matches, what it does, and when a message that failed before may
be sent again. Pure; used by Spark's workers, which decide, and by the driver, which carries it out.
`rules_file` owns the syntax.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark_servicebus.pipelines.run.globs import fits_any

ATTEMPTS_PROPERTY: Final = "x-partibus-resubmits"
"""How often rules have sent a message again; counted in the message itself."""
ACTIONS: Final = ("resubmit", "fix", "park", "purge", "leave")
SENDING: Final = ("resubmit", "fix", "park")
MESSAGE_IDS: Final = ("auto", "keep", "new")
NO_RULE: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """What rules look at."""

    entity: str
    reason: str
    description: str
    shape: str
    properties: Mapping[str, str | None]
    attempts: int
    age_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """The condition of a rule: all given parts must be true; without any it matches everything."""

    entities: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    description: re.Pattern[str] | None = None
    shapes: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    attempts: tuple[int, int] = (0, 1 << 31)
    """The minimum and maximum."""
    older_than_ms: int = 0
    younger_than_ms: int | None = None

    def fits(self, letter: DeadLetter) -> bool:
        """Whether a dead letter matches; the cheap checks first."""
        return (
            self.attempts[0] <= letter.attempts <= self.attempts[1]
            and letter.age_ms >= self.older_than_ms
            and (self.younger_than_ms is None or letter.age_ms < self.younger_than_ms)
            and fits_any(self.entities, letter.entity)
            and fits_any(self.reasons, letter.reason)
            and fits_any(self.shapes, letter.shape)
            and self._fits_properties(letter.properties)
            and (self.description is None or bool(self.description.search(letter.description)))
        )

    def _fits_properties(self, found: Mapping[str, str | None]) -> bool:
        return all(
            name in found and fits_any((glob,), found[name] or "")
            for name, glob in self.properties.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule: its condition and its action."""

    name: str
    action: str
    when: When = field(default_factory=When)
    target: str | None = None
    """Where to send; None is the entity of the dead letter itself, or its topic."""
    set_properties: Mapping[str, object] = field(default_factory=dict)
    remove_properties: tuple[str, ...] = ()
    body_merge: object = None
    """A JSON merge patch (RFC 7396); None leaves the body as it is."""
    max_attempts: int | None = None
    delay_ms: int = 0
    backoff: float = 1.0
    delay_max_ms: int | None = None
    message_id: str = "auto"

    def fits(self, letter: DeadLetter) -> bool:
        """Whether this rule decides; after its maximum of attempts the next one does."""
        if self.max_attempts is not None and letter.attempts >= self.max_attempts:
            return False
        return self.when.fits(letter)

    def delay_after(self, attempts: int) -> int:
        """How long a message waits once it has been sent again this often."""
        delay_ms = self.delay_ms * self.backoff ** min(attempts, 64)
        return round(delay_ms if self.delay_max_ms is None else min(delay_ms, self.delay_max_ms))


def decide(rules: Sequence[Rule], letter: DeadLetter) -> int:
    """The index of the deciding rule, or NO_RULE: then the message stays."""
    for index, rule in enumerate(rules):
        if rule.fits(letter):
            return index
    return NO_RULE


def attempts_of(properties: Mapping[str, object]) -> int:
    """How often a message was sent again, according to its property."""
    reported = properties.get(ATTEMPTS_PROPERTY)
    try:
        return max(0, int(str(reported))) if reported is not None else 0
    except ValueError:
        return 0
