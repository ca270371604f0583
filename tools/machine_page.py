"""`python tools/machine_page.py`: the diagrams of docs/internals/machine.md, from the code.

Reads the tables that the fragment machine runs on (`fragment/machine.py`) and the functions in them
from their syntax trees: which command is handled where, which changes it may prepare, and what
happens when the records of a change are durable or have failed. The states of a message, a session
and a claim are found by running the machine (`machine_search`). Prints the diagrams; with --write
it puts them between the marks of the page. A test compares.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from machine_claim import CLAIM
from machine_message import MESSAGE
from machine_search import drawn
from machine_session import SESSION

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "internals" / "machine.md"
SOURCE: Final = ROOT / "src"
MACHINE: Final = "partibus.fragment.machine"
BEGIN, END = "<!-- {} begin -->", "<!-- {} end -->"

Place = tuple[str, str]
"""A module and a name in it."""
SUBJECTS: Final = {"message": MESSAGE, "session": SESSION, "claim": CLAIM}
"""What is followed through its states, by the mark of its part of the page."""


@dataclass(frozen=True, slots=True)
class Module:
    """What is needed of one module: its functions, and what its names mean."""

    name: str
    functions: dict[str, ast.FunctionDef]
    imported: dict[str, Place]
    """Local name to module and name; the name is empty for a module."""
    tables: dict[str, ast.Dict] = field(default_factory=dict)


@cache
def module(name: str) -> Module:
    """One module of the product, parsed."""
    path = SOURCE.joinpath(*name.split(".")).with_suffix(".py")
    made = Module(name, {}, {})
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            made.functions[node.name] = node
        elif isinstance(node, ast.ImportFrom):
            _note_imports(made, node)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Dict):
            made.tables[ast.unparse(node.target)] = node.value
    return made


def _note_imports(made: Module, node: ast.ImportFrom) -> None:
    for alias in node.names:
        whole = f"{node.module}.{alias.name}"
        is_module = SOURCE.joinpath(*whole.split(".")).with_suffix(".py").exists()
        place = (whole, "") if is_module else (node.module or "", alias.name)
        made.imported[alias.asname or alias.name] = place


@cache
def features() -> dict[str, ast.Call]:
    """The declaration of each feature, `Feature(...)`, by the module that it is in."""
    found: dict[str, ast.Call] = {}
    for name, _ in module(MACHINE).imported.values():
        if not name.endswith(".feature"):
            continue
        path = SOURCE.joinpath(*name.split(".")).with_suffix(".py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Call):
                found[name] = node.value
    return found


def table(name: str) -> dict[str, Place]:
    """One table of the machine: the class of a command or change, and its function."""
    found = dict(_rows(module(MACHINE), module(MACHINE).tables[name]))
    for feature, call in features().items():
        inside = module(feature)
        handlers, changes = call.args
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        if name in ("HANDLERS", "TOPIC_HANDLERS"):
            found |= _rows(inside, handlers)
        if name == "TOPIC_HANDLERS" and "topic_handlers" in given:
            found |= _rows(inside, given["topic_handlers"])
        if name in ("COMMITS", "ABORTS"):
            found |= _rows(inside, changes, ("COMMITS", "ABORTS").index(name))
    return found


def _rows(inside: Module, rows: ast.expr, which: int | None = None) -> dict[str, Place]:
    """A dict of functions, or of pairs of them of which one is chosen."""
    assert isinstance(rows, ast.Dict)
    found: dict[str, Place] = {}
    for key, value in zip(rows.keys, rows.values, strict=True):
        assert key is not None
        chosen = value.elts[which] if isinstance(value, ast.Tuple) and which is not None else value
        place = _resolve(inside, chosen)
        assert place is not None, ast.unparse(value)
        found[ast.unparse(key).rpartition(".")[2]] = place
    return found


def prepared_by_time(changes: frozenset[str]) -> set[str]:
    """The changes that a tick may prepare, through the features."""
    found: set[str] = set()
    for feature, call in features().items():
        for keyword in call.keywords:
            place = _resolve(module(feature), keyword.value) if keyword.arg == "on_tick" else None
            found |= prepared_by(place, changes) if place else set()
    return found


def _resolve(inside: Module, node: ast.expr) -> Place | None:
    """The function that an expression names, when it is one of the fragment's."""
    if isinstance(node, ast.Name):
        if node.id in inside.functions:
            return inside.name, node.id
        place = inside.imported.get(node.id)
        return place if place and place[1] and _is_ours(place[0]) else None
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        owner = inside.imported.get(node.value.id)
        if owner and not owner[1] and _is_ours(owner[0]):
            return owner[0], node.attr
    return None


def _is_ours(name: str) -> bool:
    return name.startswith("partibus.fragment.")


def prepared_by(place: Place, changes: frozenset[str]) -> set[str]:
    """The changes that a function may prepare, itself or through what it calls."""
    found: set[str] = set()
    seen = {place}
    waiting = [place]
    while waiting:
        name, function = waiting.pop()
        inside = module(name)
        if function not in inside.functions:
            continue
        for call in ast.walk(inside.functions[function]):
            if not isinstance(call, ast.Call):
                continue
            if isinstance(call.func, ast.Name) and call.func.id in changes:
                found.add(call.func.id)
            called = _resolve(inside, call.func)
            if called and called not in seen:
                seen.add(called)
                waiting.append(called)
    return found


def feature_of(place: Place) -> str:
    """The folder of a function: queue, claims, ..."""
    parts = place[0].split(".")
    return parts[2] if len(parts) > 3 else "machine"


def diagrams() -> dict[str, str]:
    """The text of every feature's diagram and tables, by the feature's name."""
    handlers, commits, aborts = table("HANDLERS"), table("COMMITS"), table("ABORTS")
    topic_only = {n: p for n, p in table("TOPIC_HANDLERS").items() if handlers.get(n) != p}
    changes = frozenset(commits)
    made = {}
    for feature in sorted({feature_of(place) for place in [*handlers.values(), *commits.values()]}):
        every = topic_only if feature == "topics" else handlers
        own = {name: place for name, place in every.items() if feature_of(place) == feature}
        kept = {name: place for name, place in commits.items() if feature_of(place) == feature}
        prepares = {n: prepared_by(p, changes) for n, p in {**own, "Tick": every["Tick"]}.items()}
        if feature != "topics":
            prepares["Tick"] = prepared_by_time(changes)
        made[feature] = "\n".join(
            [*_diagram(prepares, kept), *_commands(own, prepares), *_changes(kept, aborts)]
        )
    return made | {name: drawn(subject) for name, subject in SUBJECTS.items()}


def _diagram(prepares: dict[str, set[str]], commits: dict[str, Place]) -> Iterator[str]:
    """Commands and the clock, the changes that they prepare, and what these become."""
    if not commits:
        return
    yield "```mermaid"
    yield "flowchart LR"
    for command, changes in prepares.items():
        for change in sorted(changes & commits.keys()):
            yield f"    {command}[{command}] --> {change}({change})"
    for change, (_, function) in commits.items():
        yield f"    {change}({change}) -- durable --> {function}[[{function}]]"
    yield "```"
    yield ""


def _commands(handlers: dict[str, Place], prepares: dict[str, set[str]]) -> Iterator[str]:
    yield "| command | handled by | may prepare |"
    yield "|---|---|---|"
    for command, place in handlers.items():
        changes = ", ".join(f"`{change}`" for change in sorted(prepares[command]))
        yield f"| `{command}` | {_shown(place)} | {changes or 'nothing: answered at once'} |"


def _changes(commits: dict[str, Place], aborts: dict[str, Place]) -> Iterator[str]:
    if not commits:
        return
    yield ""
    yield "| change | when its records are durable | when they failed |"
    yield "|---|---|---|"
    for change, place in commits.items():
        yield f"| `{change}` | {_shown(place)} | {_shown(aborts[change])} |"


def _shown(place: Place) -> str:
    return f"`{place[0].removeprefix('partibus.fragment.')}.{place[1]}`"


def filled(page: str) -> str:
    """The page with every diagram between its marks made again."""
    for name, text in diagrams().items():
        begin, end = BEGIN.format(name), END.format(name)
        head, rest = page.split(begin, 1)
        page = f"{head}{begin}\n{text}\n{end}{rest.split(end, 1)[1]}"
    return page


def main() -> int:
    if "--write" in sys.argv[1:]:
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        for name, text in diagrams().items():
            print(f"\n## {name}\n\n{text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
