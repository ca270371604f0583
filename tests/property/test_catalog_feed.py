"""Several processes change one catalog in any order; whoever listens ends up with the same.

Each process keeps a copy of the namespace that it builds from its change feed alone. Whatever
was done where, and whoever looked when, in the end all copies are what the catalog says.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partibus.control.access.policies import AccessPolicy
from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.record import Change, ChangeKind, EntityRecord
from partibus.domain.entity import EntitySpec, QueueSpec, SubscriptionSpec, TopicSpec
from partibus.domain.errors import BusError
from partibus.domain.rights import Rights
from support.postgres import PostgresServer, temporary_database

PROCESSES = 3
PATHS = ("a", "b", "t", "t/subscriptions/x", "t/subscriptions/y")


class Process:
    """One process: its catalog, and what it made of what it was told."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.copy: dict[int, EntityRecord] = {}
        self.policies: dict[str, tuple[AccessPolicy, ...]] = {}
        self.catalog.subscribe(self._hear)

    def _hear(self, change: Change) -> None:
        before, after = change.before, change.after
        if change.kind is ChangeKind.POLICIES:
            self.policies[change.path.lower()] = self.catalog.policies(change.path)
        elif change.kind is ChangeKind.CREATED:
            assert before is None and after is not None
            assert all(known.path.lower() != after.path.lower() for known in self.copy.values())
            assert after.entity_id not in self.copy
            self.copy[after.entity_id] = after
        elif change.kind is ChangeKind.UPDATED:
            assert before is not None and after is not None
            assert self.copy[before.entity_id] == before
            self.copy[after.entity_id] = after
        else:
            assert before is not None and after is None
            assert self.copy.pop(before.entity_id) == before
            self.policies.pop(before.path.lower(), None)

    def act(self, action: str, path: str, number: int) -> None:
        catalog = self.catalog
        if action == "create":
            catalog.create(path, spec_of(path, number))
        elif action == "update":
            catalog.update(path, spec_of(path, number))
        elif action == "delete":
            catalog.delete(path)
        elif action == "policy":
            scope = "" if number % 2 else path
            catalog.put_policy(scope, AccessPolicy("p", f"key {number}", "second", Rights.SEND))
        elif action == "drop policy":
            catalog.delete_policy("" if number % 2 else path, "p")
        else:
            catalog.refresh()


def spec_of(path: str, number: int) -> EntitySpec:
    if "/" in path:
        return SubscriptionSpec(max_delivery_count=number + 1)
    if path == "t":
        return TopicSpec(max_size_in_megabytes=1024 + number)
    return QueueSpec(max_delivery_count=number + 1)


STEPS = st.lists(
    st.tuples(
        st.integers(0, PROCESSES - 1),
        st.sampled_from(
            ["create", "create", "update", "delete", "policy", "drop policy", "refresh"]
        ),
        st.sampled_from(PATHS),
        st.integers(0, 5),
    ),
    max_size=30,
)


Open = Callable[[], Catalog]


@contextmanager
def in_a_file() -> Iterator[Open]:
    with tempfile.TemporaryDirectory() as directory:
        yield lambda: Catalog(Path(directory) / "catalog.db", stores=2)


@contextmanager
def in_a_cluster(dsn: str) -> Iterator[Open]:
    from partibus.control.postgres.catalog import PostgresCatalog

    with temporary_database(dsn) as place:
        yield lambda: Catalog(rows=PostgresCatalog(place), stores=2)


@settings(deadline=None, max_examples=60)
@given(steps=STEPS)
def test_every_process_ends_with_the_same_namespace(
    steps: list[tuple[int, str, str, int]],
) -> None:
    with in_a_file() as opened:
        check(opened, steps)


@pytest.mark.group("postgres")
@settings(deadline=None, max_examples=10)
@given(steps=STEPS)
def test_every_node_ends_with_the_same_namespace(
    postgres: PostgresServer, steps: list[tuple[int, str, str, int]]
) -> None:
    with in_a_cluster(postgres.dsn) as opened:
        check(opened, steps)


def check(opened: Open, steps: list[tuple[int, str, str, int]]) -> None:
    processes = [Process(opened()) for _ in range(PROCESSES)]
    seen: set[int] = set()
    for process, action, path, number in steps:
        try:
            processes[process].act(action, path, number)
        except BusError:
            continue
        for placed in processes[process].catalog.entities():
            seen.update(placement.fragment_id for placement in placed.fragments)
    fresh = opened()
    expected = {record.entity_id: record for record in fresh.entities()}
    for process in processes:
        process.catalog.refresh()
        assert process.copy == expected
        assert {r.entity_id: r for r in process.catalog.entities()} == expected
        for scope in ("", *PATHS):
            assert process.policies.get(scope, ()) == fresh.policies(scope)
        process.catalog.close()
    # No id is given twice: the next one is beyond all that ever were.
    newest = fresh.create("newest", QueueSpec())
    assert newest.fragments[0].fragment_id > max(seen, default=0)
    fresh.close()
