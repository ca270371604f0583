"""What may happen to a message, a session or a claim, found by trying it on the machine.

Owns the search and the form of its result: from an empty fragment, every command is tried in every
state that is reached, with time passing in between. So the tables of docs/internals/machine.md say
what the code does, and nobody keeps them by hand. `machine_message`, `machine_session` and
`machine_claim` declare what is followed and what is tried; this module must not know any command.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Final, TypeAlias

from partibus.domain.errors import StoreUnavailable
from partibus.fragment.changes import Answer, Change
from partibus.fragment.commands import Command
from partibus.fragment.effects import Effects
from partibus.fragment.machine import Machine
from partibus.fragment.spec import FragmentSpec
from partibus.fragment.state import State

NOTHING: Final = "[*]"
"""The place of what is not stored, as mermaid draws it."""
_START_MS: Final = 1_000_000


class World:
    """A fragment with a clock. No store, and nobody who is told anything."""

    def __init__(self, spec: FragmentSpec) -> None:
        self.now_ms = _START_MS
        self.state = State(1, spec)
        self.machine = Machine(self.state)
        self.pending: list[Change] = []
        """Prepared, and not durable yet."""

    def apply(self, command: Command) -> None:
        """One command, a moment after the one before."""
        self.now_ms += 1
        out = Effects()
        self.machine.apply(command, self.now_ms, out)
        self.pending += out.changes

    def store(self) -> None:
        """All that is pending is durable; what follows from it is pending then."""
        changes, out = self.pending, Effects()
        for change in changes:
            self.machine.commit(change, self.now_ms, out)
        self.pending = out.changes

    def fail(self) -> None:
        """The store failed."""
        changes, out = self.pending, Effects()
        for change in changes:
            self.machine.abort(change, StoreUnavailable(), out)
        self.pending = out.changes

    def pending_names(self) -> list[str]:
        """The changes that are pending; an answer to wait for changes nothing."""
        return [type(change).__name__ for change in self.pending if not isinstance(change, Answer)]


Make: TypeAlias = Callable[[World], Command | None]
"""A command as it may be given now; None when there is nothing to give it for."""
Fact: TypeAlias = tuple[str, str, Callable[[World], bool]]
"""A condition: how it is said when it is true, when it is not, and whether it is."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """What the search follows, and what it tries."""

    specs: tuple[FragmentSpec, ...]
    commands: dict[str, Make]
    """By the name of the command, and what is special about it after a comma."""
    moments: tuple[Callable[[World], int], ...]
    """Times at which something lapses or is due; 0 for none."""
    place: Callable[[World], str]
    facts: tuple[Fact, ...]
    """On which it may depend what a command does; those that explain most come first."""
    more: Callable[[World], tuple[object, ...]]
    """What else tells two states apart."""
    waits_for_store: bool = False
    """What happens before a change is durable matters: that it becomes durable, or fails, is an
    event of its own."""


Path: TypeAlias = tuple[str, ...]
"""The names of commands and events, and the numbers of moments."""
DURABLE, FAILED = " durable", " failed"
_PENDING_MAX: Final = 1


Chosen: TypeAlias = tuple[tuple[int, bool], ...]
"""Some of the facts, by their numbers, and whether they are true."""


@dataclass(frozen=True)
class Outcome:
    """What came of a command."""

    place: str
    changes: tuple[str, ...]
    place_if_failed: str


@dataclass(frozen=True)
class Trial:
    """A command that was tried, in what state, and its outcome; None when it changed nothing."""

    place: str
    name: str
    facts: tuple[bool, ...]
    outcome: Outcome | None
    spec: FragmentSpec
    path: Path
    """How to get there; the command is its last step."""


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    place: str
    names: tuple[str, ...]
    condition: str
    outcome: Outcome


def step(subject: Subject, world: World, name: str) -> bool:
    """Carry one step of a path out; False when it is not possible now."""
    if name.isdigit():
        moment_ms = subject.moments[int(name)](world)
        is_possible = moment_ms > world.now_ms
        world.now_ms = max(world.now_ms, moment_ms)
        return is_possible
    if name in (DURABLE, FAILED):
        is_possible = bool(world.pending)
        (world.store if name == DURABLE else world.fail)()
        return is_possible
    command = subject.commands[name](world)
    if command is not None:
        world.apply(command)
    while world.pending and not subject.waits_for_store:
        world.store()
    return command is not None


def fingerprint(subject: Subject, world: World) -> tuple[object, ...]:
    """Equal for states in which the same may happen."""
    names = tuple(world.pending_names())
    facts = _facts(subject, world)
    return (world.state.spec, subject.place(world), facts, names, *subject.more(world))


def _facts(subject: Subject, world: World) -> tuple[bool, ...]:
    return tuple([is_true(world) for _, _, is_true in subject.facts])


def _moments(subject: Subject, world: World) -> list[int]:
    return [moment_ms(world) for moment_ms in subject.moments]


def _replayed(subject: Subject, spec: FragmentSpec, path: Path) -> World:
    world = World(spec)
    for name in path:
        step(subject, world, name)
    return world


@cache
def trials(subject: Subject) -> list[Trial]:
    """Every step in every state that can be reached."""
    return [trial for spec in subject.specs for trial in _searched(subject, spec)]


def _searched(subject: Subject, spec: FragmentSpec) -> Iterator[Trial]:
    every = [*subject.commands, *map(str, range(len(subject.moments)))]
    if subject.waits_for_store:
        every += [DURABLE, FAILED]
    known = {fingerprint(subject, World(spec))}
    waiting: deque[Path] = deque([()])
    while waiting:
        path = waiting.popleft()
        for name in every:
            world = _replayed(subject, spec, path)
            before = situation(subject, world, name)
            if not step(subject, world, name):
                continue
            if not name.isdigit():
                yield tried(subject, before, world, spec, (*path, name))
            now = fingerprint(subject, world)
            if now not in known and len(world.pending_names()) <= _PENDING_MAX:
                known.add(now)
                waiting.append((*path, name))


Situation: TypeAlias = tuple[str, tuple[bool, ...], list[int], str]
"""Place, facts, the moments to come, and the step as a table shows it."""


def situation(subject: Subject, world: World, name: str) -> Situation:
    """What a step is tried in."""
    shown = name
    if name in (DURABLE, FAILED):
        shown = ", ".join(dict.fromkeys(world.pending_names())) + name
    return subject.place(world), _facts(subject, world), _moments(subject, world), shown


def tried(
    subject: Subject, before: Situation, world: World, spec: FragmentSpec, path: Path
) -> Trial:
    """What the last step of a path did. A later moment is a change too: a lock was renewed."""
    place, facts, moments_ms, shown = before
    now = subject.place(world)
    if now == place and _moments(subject, world) == moments_ms:
        return Trial(place, shown, facts, None, spec, path)
    changes, if_failed = _of_the_store(subject, spec, path)
    return Trial(place, shown, facts, Outcome(now, changes, if_failed), spec, path)


def _of_the_store(subject: Subject, spec: FragmentSpec, path: Path) -> tuple[tuple[str, ...], str]:
    """What the last command of a path prepares, and where its failure leads."""
    if subject.waits_for_store:
        return (), ""
    world = _replayed(subject, spec, path[:-1])
    command = subject.commands[path[-1]](world)
    assert command is not None
    world.apply(command)
    names = tuple(dict.fromkeys(world.pending_names()))
    world.fail()
    return names, subject.place(world) if names else ""


# --- rows ---------------------------------------------------------------------------------------


@cache
def rows(subject: Subject) -> list[Row]:
    """The table: what changes a place or a deadline, and when."""
    found: dict[tuple[str, str], dict[tuple[bool, ...], Outcome | None]] = defaultdict(dict)
    for trial in trials(subject):
        outcomes = found[trial.place, trial.name]
        known = outcomes.setdefault(trial.facts, trial.outcome)
        assert known == trial.outcome, f"{trial} and {known}: a fact is missing"
    merged: dict[tuple[str, str, Outcome], list[str]] = defaultdict(list)
    for (place, name), outcomes in found.items():
        for outcome in dict.fromkeys(outcomes.values()):
            if outcome is not None:
                condition = _condition(subject, outcomes, outcome)
                merged[place, condition, outcome].append(name)
    return [
        Row(place, tuple(names), condition, outcome)
        for (place, condition, outcome), names in merged.items()
    ]


def _condition(
    subject: Subject, outcomes: dict[tuple[bool, ...], Outcome | None], wanted: Outcome
) -> str:
    """The fewest facts that tell the cases of one outcome from those of the others."""
    inside = [facts for facts, outcome in outcomes.items() if outcome == wanted]
    outside = [facts for facts, outcome in outcomes.items() if outcome != wanted]
    chosen = _telling(inside, outside)
    words = []
    for facts in inside if chosen is None else ():
        alone = _telling([facts], outside)
        assert alone is not None, "two outcomes of one state"
        words.append(_said_of(subject, alone))
    return "; or ".join(dict.fromkeys(words)) if chosen is None else _said_of(subject, chosen)


def _telling(inside: list[tuple[bool, ...]], outside: list[tuple[bool, ...]]) -> Chosen | None:
    """The fewest facts that all cases inside share and no case outside has."""
    shared = [(i, value) for i, value in enumerate(inside[0]) if _have(inside, i, value)]
    for size in range(len(shared) + 1):
        for chosen in combinations(shared, size):
            if not any(all(facts[i] == value for i, value in chosen) for facts in outside):
                return chosen
    return None


def _have(cases: list[tuple[bool, ...]], i: int, value: bool) -> bool:
    return all(facts[i] == value for facts in cases)


def _said_of(subject: Subject, chosen: Chosen) -> str:
    words = []
    for i, value in chosen:
        said, otherwise, _ = subject.facts[i]
        words.append(said if value else otherwise)
    return " and ".join(words)


# --- as text ------------------------------------------------------------------------------------


def drawn(subject: Subject) -> str:
    """A subject's diagram and its table."""
    table = rows(subject)
    return "\n".join(
        [*_diagram(table), "", *_table(subject, table), "", _without_rows(subject, table)]
    )


def _diagram(table: list[Row]) -> Iterator[str]:
    """The table without its conditions, and without what leaves the place as it was."""
    yield "```mermaid"
    yield "stateDiagram-v2"
    places = dict.fromkeys([place for row in table for place in (row.place, row.outcome.place)])
    for place in places:
        if place != NOTHING:
            yield f'    state "{place}" as {_identifier(place)}'
    edges: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for row in table:
        if row.place != row.outcome.place:
            edges[row.place, row.outcome.place].update(dict.fromkeys(row.names))
    for (begin, end), names in edges.items():
        yield f"    {_identifier(begin)} --> {_identifier(end)} : {_label(list(names))}"
    yield "```"


def _label(names: list[str]) -> str:
    """`Settle (abandon, release), Tick`."""
    special: dict[str, list[str]] = defaultdict(list)
    for name in names:
        command, _, rest = name.partition(", ")
        special[command].append(rest)
    return ", ".join(
        [name if "" in rest else f"{name} ({', '.join(rest)})" for name, rest in special.items()]
    )


def _identifier(place: str) -> str:
    return place if place == NOTHING else place.replace(" ", "_").replace("-", "_").replace(",", "")


def _table(subject: Subject, table: list[Row]) -> Iterator[str]:
    stored = "" if subject.waits_for_store else " change | if the store fails |"
    yield f"| state | command | when | next state |{stored}"
    yield "|---|---|---|---|" + ("" if subject.waits_for_store else "---|---|")
    places = list(dict.fromkeys([row.place for row in table]))
    for row in sorted(table, key=lambda row: places.index(row.place)):
        names = "; ".join([_command(name) for name in row.names])
        outcome = row.outcome
        line = f"| {_said(row.place)} | {names} | {row.condition} | {_said(outcome.place)} |"
        if not subject.waits_for_store:
            changes = ", ".join([f"`{change}`" for change in outcome.changes])
            line += f" {changes} | {_said(outcome.place_if_failed)} |"
        yield " ".join(line.split())


def _said(place: str) -> str:
    return "(none)" if place == NOTHING else place


def _command(name: str) -> str:
    if name.endswith((DURABLE, FAILED)):
        change, _, event = name.rpartition(" ")
        return f"`{change}` {event}"
    command, comma, special = name.partition(",")
    return f"`{command}`{comma}{special}"


def _without_rows(subject: Subject, table: list[Row]) -> str:
    shown = {name for row in table for name in row.names}
    silent = dict.fromkeys([name.partition(",")[0] for name in subject.commands])
    for name in shown:
        silent.pop(name.partition(",")[0], None)
    names = ", ".join([f"`{name}`" for name in silent])
    return f"Tried in every state, and without a row because they change none: {names}."
