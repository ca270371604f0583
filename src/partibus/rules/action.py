"""Actions of rules: what they change on the copy that a subscription gets (ACT-1 to ACT-6).

Owns the statements and the edits that they produce. An action reads the view and must never change
anything: the caller applies the edits to the copy (ACT-4). Statements run in order, and later ones
see what earlier ones did. Called by the selection of a topic's copies.
"""

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from partibus.domain.property_value import PropertyValue
from partibus.rules.compiler import Compiler
from partibus.rules.complaint import Complaint
from partibus.rules.conversion import SETTABLE, converted, system_value
from partibus.rules.errors import RuleActionError
from partibus.rules.logic import Evaluator
from partibus.rules.parser import parse_action
from partibus.rules.tree import Property, Statement
from partibus.rules.view import ABSENT, SYSTEM_NAMES, MessageView


class Removed(enum.Enum):
    """The type of `REMOVED`."""

    REMOVED = "removed"


REMOVED: Final = Removed.REMOVED
"""In an edit: the property is removed."""


class Edit(NamedTuple):
    """One property to set or to remove.

    `name` is the canonical lower-case name in the scope "sys", and as the action spells it
    in the scope "user", where an existing property of that name in any case is meant. The
    value is one of `view.Value`, None for null, which clears a system property.
    """

    scope: Literal["sys", "user"]
    name: str
    value: object


class _Step(NamedTuple):
    """A compiled statement; without a value it removes."""

    target: Property
    value: Evaluator | None
    term: str


class Action:
    """A compiled action."""

    __slots__ = ("_steps", "text")

    def __init__(self, text: str, parameters: Mapping[str, PropertyValue]) -> None:
        self.text = text
        compiler = Compiler(text, parameters)
        try:
            self._steps = [_step(compiler, text, found) for found in parse_action(text)]
        except Complaint as complaint:
            raise RuleActionError(complaint.reason, text, complaint.start, complaint.end) from None

    def apply(self, view: MessageView) -> list[Edit]:
        """The edits for this message, one for each property that changes.

        Raises `EvaluationError` if a statement cannot be evaluated for the message; the caller
        handles it like a filter that cannot be evaluated (FLT-9).
        """
        copy = _EditedView(view)
        for target, value, term in self._steps:
            if value is None:
                copy.put(target, REMOVED)
            elif target.is_system:
                copy.put(target, system_value(target.name, value(copy), term))
            else:
                copy.put(target, converted(value(copy), copy.user(target.name)))
        return list(copy.edits.values())


def _step(compiler: Compiler, text: str, statement: Statement) -> _Step:
    target = statement.target
    if target.is_system and target.name not in SETTABLE:
        raise Complaint(
            f"sys.{SYSTEM_NAMES[target.name]} is set by the broker and cannot be changed.",
            target.start,
            target.end,
        )
    value = None if statement.value is None else compiler.value(statement.value)
    return _Step(target, value, text[statement.start : statement.end])


@dataclass(eq=False, slots=True)
class _EditedView:
    """A message after the statements so far."""

    view: MessageView
    edits: dict[tuple[bool, str], Edit] = field(init=False, default_factory=dict)

    def put(self, target: Property, value: object) -> None:
        key = (target.is_system, target.name)
        known = self.edits.get(key)
        if target.is_system:
            self.edits[key] = Edit("sys", target.name, value)
        else:
            self.edits[key] = Edit("user", known.name if known else target.spelling, value)

    def system(self, name: str) -> object:
        edit = self.edits.get((True, name))
        if edit is None:
            return self.view.system(name)
        return None if edit.value is REMOVED else edit.value

    def user(self, name_lower: str) -> object:
        edit = self.edits.get((False, name_lower))
        if edit is None:
            return self.view.user(name_lower)
        return ABSENT if edit.value is REMOVED else edit.value

    def names(self) -> Collection[str]:
        removed = {n for (s, n), edit in self.edits.items() if not s and edit.value is REMOVED}
        added = {name for (is_system, name) in self.edits if not is_system}
        return (set(self.view.names()) | added) - removed
