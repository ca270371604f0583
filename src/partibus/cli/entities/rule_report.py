"""The result of rules for a message, for people or for programs.

Owns the texts and tables of `partibus rule test` and `partibus rule explain`; the facts come from
`rules.reach`. Called by the verbs about rules.
"""

from collections.abc import Sequence
from typing import Final

import typer

from partibus.cli.tables import print_table
from partibus.rules.action import REMOVED, Edit
from partibus.rules.explain import Term, spoken
from partibus.rules.reach import Reach
from partibus.rules.view import SYSTEM_NAMES

_MARKS: Final = {"true": "+", "false": "-", "unknown": "?", "error": "!"}


def print_reaches(reaches: Sequence[Reach]) -> None:
    """One line for each subscription."""
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
            typer.echo(f"  then {format_edit(edit)}")
        if explanation.action_error:
            typer.echo(f"  but its action fails: {explanation.action_error}")


def _print_term(term: Term, indent: str) -> None:
    arrow = " <--" if term.decides and not term.parts and indent.strip(" ") == "" else ""
    values = ", ".join(f"{name} is {spoken(value)}" for name, value in term.values)
    note = term.error if term.outcome == "error" and not term.parts else values
    reported = f"{indent}{_MARKS[term.outcome]} {term.outcome:7}  {term.text}"
    typer.echo(f"{reported}{f'   ({note})' if note else ''}{arrow}")
    for part in term.parts:
        _print_term(part, indent + "  ")


def format_edit(edit: Edit) -> str:
    """An edit in the syntax of actions."""
    name = f"sys.{SYSTEM_NAMES[edit.name]}" if edit.scope == "sys" else edit.name
    if edit.value is REMOVED:
        return f"REMOVE {name}"
    return f"SET {name} = {spoken(edit.value)}"
