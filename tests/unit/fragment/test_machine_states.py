"""The states of a message, a session and a claim are those of the machine that runs."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machine_page import SUBJECTS, prepared_by, table
from machine_search import (
    DURABLE,
    FAILED,
    NOTHING,
    Subject,
    World,
    rows,
    situation,
    step,
    trials,
)

from partibus.fragment.claims.feature import CLAIMS
from partibus.fragment.commands import Command, Resume, Suspend, Tick
from partibus.fragment.feature import Feature
from partibus.fragment.queue.feature import QUEUE
from partibus.fragment.sessions.feature import SESSIONS
from partibus.fragment.spec import FragmentSpec
from partibus.store.memory import MemoryStore
from partibus.testing.fragment import FragmentBench

FEATURES = {"message": QUEUE, "session": SESSIONS, "claim": CLAIMS}
NEEDS_MORE = {
    "message": {"AcceptSession", "ForwardWaiting"},  # sessions, and an entity that forwards
    "session": set(),
    "claim": set(),
}
"""Commands that prepare a change of the feature, but not on the entity that is searched."""


class BenchWorld(World):
    """The same steps with a broker and a store, whose answers wait until they are let through."""

    def __init__(self, spec: FragmentSpec) -> None:
        self.answers: list[Callable[[], None]] = []
        self.store_behind = MemoryStore(notify=self.answers.append, replayable=True)
        self.bench = FragmentBench(spec, self.store_behind)
        self.state = self.bench.state
        self.machine = self.bench.machine

    @property
    def now_ms(self) -> int:
        return self.bench.clock.now_ms()

    @now_ms.setter
    def now_ms(self, moment_ms: int) -> None:
        self.bench.clock.advance_ms(moment_ms - self.now_ms)

    @property
    def pending(self) -> list[Callable[[], None]]:
        return self.answers

    def apply(self, command: Command) -> None:
        self.now_ms += 1
        self.bench.submit(command)

    def store(self) -> None:
        answers = self.answers[:]
        self.answers.clear()
        for answer in answers:
            answer()
        self.bench.run()

    def fail(self) -> None:
        self.store_behind.fail()
        self.store()
        self.store_behind.heal()
        self.bench.run()


def names(subject: Subject) -> set[str]:
    return {name.partition(",")[0] for name in subject.commands}


def possible(subject: Subject) -> list[str]:
    """Every step but those after which nothing is delivered until the store is back."""
    steps = [*subject.commands, *map(str, range(len(subject.moments)))]
    steps += [DURABLE, FAILED] if subject.waits_for_store else []
    return [each for each in steps if each not in ("Suspend", "Undelivered, the store is down")]


def next_places(name: str, place: str, command: str) -> set[str]:
    return {
        row.outcome.place
        for row in rows(SUBJECTS[name])
        if row.place == place and command in row.names
    }


@pytest.mark.parametrize(("name", "feature"), FEATURES.items())
def test_every_command_of_the_feature_is_tried(name: str, feature: Feature) -> None:
    handled = {command.__name__ for command in (*feature.handlers, Tick, Suspend, Resume)}
    assert handled <= names(SUBJECTS[name])


@pytest.mark.parametrize(("name", "feature"), FEATURES.items())
def test_every_command_that_prepares_a_change_of_the_feature_is_tried(
    name: str, feature: Feature
) -> None:
    changes = frozenset([change.__name__ for change in feature.changes])
    prepare = {command for command, at in table("HANDLERS").items() if prepared_by(at, changes)}
    assert prepare - names(SUBJECTS[name]) == NEEDS_MORE[name]


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_broker_with_a_store_goes_through_every_transition(name: str) -> None:
    subject = SUBJECTS[name]
    shortest = {(each.place, each.name, each.outcome): each for each in reversed(trials(subject))}
    for trial in shortest.values():
        if FAILED not in trial.path:  # a broker lets time pass once the store is back
            world = BenchWorld(trial.spec)
            assert all(step(subject, world, each) for each in trial.path), trial
            next_place = trial.place if trial.outcome is None else trial.outcome.place
            assert subject.place(world) == next_place, trial


@pytest.mark.parametrize("name", SUBJECTS)
@given(data=st.data())
@settings(deadline=None, max_examples=30)
def test_no_walk_leaves_the_table(name: str, data: st.DataObject) -> None:
    """States that the search takes for equal are equal: longer ways find nothing else."""
    subject = SUBJECTS[name]
    known = {(each.place, each.name, each.facts): each.outcome for each in trials(subject)}
    world = World(data.draw(st.sampled_from(subject.specs)))
    for each in data.draw(st.lists(st.sampled_from(possible(subject)), max_size=40)):
        while len(world.pending_names()) > 1:
            world.store()
        place, facts, _, shown = situation(subject, world, each)
        if step(subject, world, each) and not each.isdigit():
            outcome = known[place, shown, facts]
            assert subject.place(world) == (place if outcome is None else outcome.place)


@pytest.mark.parametrize(
    ("name", "place", "command", "next_place"),
    [
        ("message", "locked", "Settle, complete", {NOTHING}),
        ("message", "locked", "Settle, abandon", {"waiting", "dead-lettered"}),
        ("message", "locked", "Settle, defer", {"deferred"}),
        ("message", "locked", "Renew", {"locked"}),
        ("message", "locked", "Demand", set()),
        ("message", "deferred", "Demand", set()),
        ("message", "deferred", "Tick", set()),
        ("message", "scheduled", "Tick", {"waiting"}),
        ("message", "dead-lettered", "Tick", set()),
        ("message", "dead-lettered, locked", "Settle, dead-letter", set()),
        ("session", "held", "AcceptSession, any", set()),
        ("session", "closing", "Return durable", {"free", "held"}),
        ("claim", "held", "Tick", {"lapsed"}),
        ("claim", "held", "RenewClaim, an earlier run", set()),
        ("claim", "lapsed", "ClaimMessages", {"held"}),
    ],
)
def test_known_transitions(name: str, place: str, command: str, next_place: set[str]) -> None:
    assert next_places(name, place, command) == next_place
