"""Reads the rule book: which rule ids exist, and in which section each is defined.

Owns the knowledge of how docs/reference/semantics.md is written: a rule is defined where its
bold id opens a list item, a table row or a paragraph. Called by `make rules` and by the test
suite, which refuses a test that cites an id the book does not have. Never writes.
"""

import re
from pathlib import Path
from typing import Final

RULEBOOK: Final = Path(__file__).resolve().parent.parent / "docs" / "reference" / "semantics.md"

_HEADING: Final = re.compile(r"#{1,2} (\d.*)")
_DEFINITION: Final = re.compile(r"(?:- |\| )?\*\*([A-Z]{3,4}-\d+)\*\*")


def rules_by_section(path: Path = RULEBOOK) -> dict[str, list[str]]:
    """Section title to the ids it defines, both in the order of the book."""
    sections: dict[str, list[str]] = {}
    section = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if heading := _HEADING.match(line):
            section = heading.group(1)
        elif definition := _DEFINITION.match(line):
            sections.setdefault(section, []).append(definition.group(1))
    return sections


def rule_ids(path: Path = RULEBOOK) -> frozenset[str]:
    """Every id that the book defines."""
    return frozenset(rule for rules in rules_by_section(path).values() for rule in rules)
