"""An entity on the driver: where its fragments are, and requests to them.

Owns discovery, the requested fragments, and the sending of an action to all workers concerned. A
worker or a store that is down is an answer, not an exception: every fragment has one, and the
caller decides what it can do without. Batches and streams share it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from partibus.domain import conditions
from partibus.domain.errors import ArgumentError
from pyspark_servicebus.access import Access
from pyspark_servicebus.bus import Entity, Flight, discover
from pyspark_servicebus.errors import Backoff, BulkError, reported_error, retried
from pyspark_servicebus.options import SourceOptions

Answers = dict[int, dict[str, Any]]
_VALUES: Final = {"plan": "from", "claim": "limits", "cursor.put": "positions"}
"""The name under which an action gets its values by fragment; all others get only fragments."""


class Reading:
    """The driver's view of an entity."""

    def __init__(self, options: SourceOptions, access: Access | None = None) -> None:
        self.options = options
        self._access = access
        self._entity: Entity | None = None
        self._flight: Flight | None = None

    # --- where it is ----------------------------------------------------------------------

    @property
    def access(self) -> Access:
        """The access to the bus, opened when first needed."""
        if self._access is None:
            options = self.options
            self._access = Access(options.credentials, options.entity, options.retry_s)
        return self._access

    def refresh(self) -> Entity:
        """Ask the bus again where the fragments are; waits for an unreachable one."""
        options = self.options
        self._entity = retried(options.retry_s, lambda: discover(self.access, options.entity))
        return self._entity

    @property
    def entity(self) -> Entity:
        """The entity, as last reported."""
        return self._entity if self._entity is not None else self.refresh()

    @property
    def flight(self) -> Flight:
        """The Flight clients for its fragments."""
        if self._flight is None:
            self._flight = Flight(self.entity.path, self.access)
        return self._flight

    def fragments(self) -> list[int]:
        """The fragments to read, whether or not they are reachable now."""
        wanted, entity = self.options.fragments, self.entity
        if wanted is None:
            return list(entity.locations)
        if unknown := set(wanted) - set(entity.locations):
            raise BulkError(
                ArgumentError.condition,
                f"fragments: '{entity.path}' has {len(entity.locations)} fragments, numbered from "
                f"0; there is no {min(unknown)}.",
                False,
            )
        return sorted(set(wanted))

    def close(self) -> None:
        """Close the connections."""
        if self._flight is not None:
            self._flight.close()

    def check_filter(self) -> None:
        """Have the bus refuse an invalid filter, before anything is read."""
        text = self.options.selection.filter
        if text:
            locations = [place for place in self.entity.locations.values() if place is not None]
            for location in locations[:1]:
                self.flight.action(location, "filter.check", filter=text)

    # --- questions to it ------------------------------------------------------------------

    def ask(
        self,
        action: str,
        about: Mapping[int, Any] | Iterable[int],
        *,
        retry_s: float = 0.0,
        **fields: Any,
    ) -> Answers:
        """Send one action to all workers concerned; returns an answer for every fragment.

        `about` has values by fragment, or only the fragments. What may work later is retried for
        this long; then the error is the fragment's answer.
        """
        values = about if isinstance(about, Mapping) else None
        missing = list(about)
        backoff = Backoff(retry_s)
        answers: Answers = {}
        while True:
            answers.update(self._ask_once(action, missing, values, fields))
            missing = [index for index in missing if _may_work_later(answers[index])]
            if not missing or not backoff.wait():
                return answers
            self.refresh()

    def _ask_once(
        self,
        action: str,
        indexes: list[int],
        values: Mapping[int, Any] | None,
        fields: dict[str, Any],
    ) -> Answers:
        by_location: dict[str | None, list[int]] = {}
        for index in indexes:
            by_location.setdefault(self.entity.locations.get(index), []).append(index)
        answers: Answers = {}
        for location, mine in by_location.items():
            if location is None:
                answers.update(_no_answer(mine, "its worker is down"))
                continue
            own: Any = mine if values is None else {str(index): values[index] for index in mine}
            under = _VALUES.get(action, "fragments")
            try:
                reported = self.flight.action(location, action, **fields, **{under: own})
            except BulkError as error:
                if not error.retryable:
                    raise
                answers.update(_no_answer(mine, error.text))
                continue
            answers.update({int(i): answer for i, answer in reported["fragments"].items()})
        return answers


def _no_answer(indexes: list[int], text: str) -> Answers:
    error = {
        "condition": conditions.PARTIBUS_UNREACHABLE,
        "text": f"It does not answer: {text}",
        "retryable": True,
    }
    return {index: {"error": error} for index in indexes}


def _may_work_later(answer: dict[str, Any]) -> bool:
    error = answer["error"]
    return error is not None and bool(error["retryable"])


def good(answers: Answers, what: str, *, but_for: str | None = None) -> Answers:
    """The answers without an error; those that may work later are left out.

    A final error is raised, except for the condition that the caller handles.
    """
    found: Answers = {}
    for index, answer in answers.items():
        error = answer["error"]
        if error is None:
            found[index] = answer
        elif not error["retryable"] and error["condition"] != but_for:
            raise _named(error, index, what)
    return found


def require(answers: Answers, what: str) -> Answers:
    """All answers; the first error among them is raised."""
    for index, answer in answers.items():
        if answer["error"] is not None:
            raise _named(answer["error"], index, what)
    return answers


def _named(error: dict[str, Any], index: int, what: str) -> BulkError:
    return reported_error({**error, "text": f"{what}, fragment {index}: {error['text']}"})
