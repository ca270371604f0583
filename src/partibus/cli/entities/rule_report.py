"""What rules make of a message, written for people or for programs.

Owns the words, tables and JSON of `partibus rule test` and `partibus rule explain`; the
facts are `rules.explain`'s. Called by the verbs about rules.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import typer

from partibus.rules.action import REMOVED, Edit
from partibus.rules.explain import Explanation, Term, spoken
from partibus.rules.ruleset import Match
from partibus.rules.view import ABSENT, SYSTEM_NAMES

_MARKS: Final = {"true": "+", "false": "-", "unknown": "?", "error": "!"}


class Reach(NamedTuple):
    """A subscription, the copies that it gets, and what each of its rules said."""

    path: str
    matches: Sequence[Match]
    explanations: Sequence[Explanation]

    @property
    def result(self) -> str:
        """The copies in words."""
        dead = sum(match.error is not None for match in self.matches)
        copies = len(self.matches) - dead
        if not self.matches:
            return "no"
        told = [f"{copies} copies" if copies > 1 else "yes"] if copies else []
        return ", ".join([*told, "dead letter"] if dead else told)

    @property
    def reason(self) -> str:
        """Why, by the rule that says it best."""
        if not self.explanations:
            return "it has no rules"
        matching = [e for e in self.explanations if e.matches]
        failing = [e for e in self.explanations if e.term.outcome == "error"]
        chosen = matching or failing or self.explanations
        return " | ".join(f"{e.rule_name}: {e.reason}" for e in chosen)


def print_reaches(reaches: Sequence[Reach]) -> None:
    """One line for each subscription."""
    from partibus.cli.tables import print_table

    columns = ("subscription", "gets it", "why")
    rows = [(reach.path, reach.result, reach.reason) for reach in reaches]
    print_table(columns, rows, text_columns=columns)


def print_explanations(reach: Reach) -> None:
    """Every rule with the tree of its terms."""
    typer.echo(f"{reach.path}: {reach.result}")
    for explanation in reach.explanations:
        verdict = "matches" if explanation.matches else "does not match"
        typer.echo(f"\nrule {explanation.rule_name}: {verdict}, because {explanation.reason}")
        if explanation.term.parts:
            _print_term(explanation.term, "  ")
        for edit in explanation.edits:
            typer.echo(f"  then {spoken_edit(edit)}")
        if explanation.action_error:
            typer.echo(f"  but its action fails: {explanation.action_error}")


def _print_term(term: Term, indent: str) -> None:
    arrow = " <--" if term.decides and not term.parts and indent.strip(" ") == "" else ""
    values = ", ".join(f"{name} is {spoken(value)}" for name, value in term.values)
    note = term.error if term.outcome == "error" and not term.parts else values
    told = f"{indent}{_MARKS[term.outcome]} {term.outcome:7}  {term.text}"
    typer.echo(f"{told}{f'   ({note})' if note else ''}{arrow}")
    for part in term.parts:
        _print_term(part, indent + "  ")


def spoken_edit(edit: Edit) -> str:
    """An edit in the words of the language."""
    name = f"sys.{SYSTEM_NAMES[edit.name]}" if edit.scope == "sys" else edit.name
    if edit.value is REMOVED:
        return f"REMOVE {name}"
    return f"SET {name} = {spoken(edit.value)}"


# --- for programs -----------------------------------------------------------------------------


def reach_json(reach: Reach) -> dict[str, object]:
    """A subscription, its copies and its rules."""
    return {
        "subscription": reach.path,
        "receives": any(match.error is None for match in reach.matches),
        "copies": [
            {"rule": match.rule_name, "dead_letter": match.error is not None, "error": match.error}
            for match in reach.matches
        ],
        "rules": [_explanation_json(explanation) for explanation in reach.explanations],
    }


def _explanation_json(explanation: Explanation) -> dict[str, object]:
    return {
        "name": explanation.rule_name,
        "matches": explanation.matches,
        "reason": explanation.reason,
        "term": _term_json(explanation.term),
        "edits": [
            {"scope": e.scope, "name": e.name, "removed": True}
            if e.value is REMOVED
            else {"scope": e.scope, "name": e.name, "value": _plain(e.value)}
            for e in explanation.edits
        ],
        "action_error": explanation.action_error or None,
    }


def _term_json(term: Term) -> dict[str, object]:
    return {
        "text": term.text,
        "outcome": term.outcome,
        "decides": term.decides,
        "error": term.error or None,
        "values": [
            {"name": name, "is_set": value is not ABSENT, "value": _plain(value)}
            for name, value in term.values
        ],
        "parts": [_term_json(part) for part in term.parts],
    }


def _plain(value: object) -> object:
    """A value as JSON has it; what it has no word for is text."""
    if value is ABSENT:
        return None
    return value if value is None or isinstance(value, str | int | float) else spoken(value)
