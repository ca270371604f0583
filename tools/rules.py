"""`make rules`: per section of the rule book, how many rules have a test and which have none.

Reads the marks `@pytest.mark.rule("ID", ...)` from the syntax trees of tests/, so it needs no
test run and counts what a test claims, not what passed. Exits 1 when a test cites an id that
the book does not define.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from rulebook import rule_ids, rules_by_section

TESTS = Path(__file__).resolve().parent.parent / "tests"


def main() -> int:
    cited = cited_rules(TESTS)
    for line in report(rules_by_section(), cited):
        print(line)
    unknown = sorted(cited.keys() - rule_ids())
    for rule in unknown:
        print(f"unknown rule {rule} cited in {', '.join(sorted(cited[rule]))}", file=sys.stderr)
    return 1 if unknown else 0


def cited_rules(tests: Path) -> dict[str, set[str]]:
    """Rule id to the test files that cite it."""
    cited: dict[str, set[str]] = {}
    for path in sorted(tests.rglob("test_*.py")):
        for rule in _marks(ast.parse(path.read_text(encoding="utf-8"))):
            cited.setdefault(rule, set()).add(str(path.relative_to(tests)))
    return cited


def report(sections: dict[str, list[str]], cited: dict[str, set[str]]) -> Iterator[str]:
    """The lines to print: one for each section, its unproven rules, and the sum."""
    proven_total = 0
    for section, rules in sections.items():
        missing = [rule for rule in rules if rule not in cited]
        proven = len(rules) - len(missing)
        proven_total += proven
        yield f"{proven:4d} of {len(rules):3d}  {section}"
        if missing:
            yield f"{'':14}without a test: {_shortened(missing)}"
    rules_total = sum(len(rules) for rules in sections.values())
    yield f"{proven_total:4d} of {rules_total:3d}  rules have a test"


def _marks(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.rule":
            for argument in node.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.value


def _shortened(rules: list[str]) -> str:
    """SEED-1..3, SEED-7: runs of one prefix are combined."""
    runs: list[tuple[str, int, int]] = []
    for rule in rules:
        prefix, number = rule.rsplit("-", 1)
        if runs and runs[-1][0] == prefix and runs[-1][2] + 1 == int(number):
            runs[-1] = (prefix, runs[-1][1], int(number))
        else:
            runs.append((prefix, int(number), int(number)))
    return ", ".join(f"{p}-{a}" if a == b else f"{p}-{a}..{b}" for p, a, b in runs)


if __name__ == "__main__":
    sys.exit(main())
