"""Several processes over one catalog: who writes when, and who hears of what."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from partibus.control.access.policies import AccessPolicy
from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.record import Change
from partibus.domain.entity import QueueSpec, SubscriptionSpec, TopicSpec
from partibus.domain.errors import CatalogBusy, EntityExists, EntityNotFound
from partibus.domain.rights import Rights
from partibus.testing.clock import ManualClock

SENDER = AccessPolicy("sender", "k1", "k2", Rights.SEND)


class Two:
    """Two processes' views of one file, and what each was told."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.one, self.two = Catalog(file, stores=4), Catalog(file, stores=4)
        self.told: list[Change] = []
        self.two.subscribe(self.told.append)

    def heard(self) -> list[tuple[str, str]]:
        told, self.told[:] = list(self.told), []
        return [(change.kind.value, change.path) for change in told]


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Two]:
    yield Two(tmp_path / "catalog.db")


def test_what_one_writes_the_other_hears_when_it_looks(both: Two) -> None:
    both.one.create("a", QueueSpec())
    both.one.create("t", TopicSpec())
    both.one.create("t/subscriptions/s", SubscriptionSpec())
    both.one.put_policy("a", SENDER)
    assert both.two.lookup("a") is None and both.heard() == []
    changes = both.two.refresh()
    assert len(changes) == 4
    assert both.heard() == [
        ("created", "a"),
        ("created", "t"),
        ("created", "t/Subscriptions/s"),
        ("policies", "a"),
    ]
    assert both.two.entity("a") == both.one.entity("a")
    assert both.two.policy("a", "sender") == SENDER
    assert both.two.refresh() == [], "nothing is told twice"


def test_an_update_tells_what_was_and_what_is(both: Two) -> None:
    both.one.create("a", QueueSpec())
    both.two.refresh()
    both.heard()
    both.one.update("a", QueueSpec(max_delivery_count=3))
    (change,) = both.two.refresh()
    assert change.before is not None and change.after is not None
    assert change.before.queue.max_delivery_count == 10
    assert change.after.queue.max_delivery_count == 3
    assert both.two.policies_named("sender") == ()


def test_deleted_and_made_anew_is_two_changes_and_never_the_same_ids(both: Two) -> None:
    first = both.one.create("a", QueueSpec(enable_partitioning=True, fragments=3))
    both.two.refresh()
    both.heard()
    both.one.delete("a")
    second = both.one.create("A", QueueSpec())
    both.two.refresh()
    assert both.heard() == [("deleted", "a"), ("created", "A")]
    assert first.entity_id != second.entity_id
    assert not {p.fragment_id for p in first.fragments} & {p.fragment_id for p in second.fragments}


def test_a_topic_goes_after_its_subscriptions(both: Two) -> None:
    both.one.create("t", TopicSpec())
    both.one.create("t/subscriptions/s", SubscriptionSpec())
    both.two.refresh()
    both.heard()
    both.one.delete("t")
    both.two.refresh()
    assert both.heard() == [("deleted", "t/Subscriptions/s"), ("deleted", "t")]


def test_a_policy_that_changes_or_goes_is_told_by_its_scope(both: Two) -> None:
    both.one.create("a", QueueSpec())
    both.one.put_policy("a", SENDER)
    both.one.put_policy("", SENDER)
    both.two.refresh()
    both.heard()
    both.one.put_policy("", AccessPolicy("sender", "new", "k2", Rights.SEND))
    both.one.delete_policy("a", "sender")
    both.two.refresh()
    assert sorted(both.heard()) == [("policies", ""), ("policies", "a")]
    assert both.two.policies("a") == ()


def test_whoever_writes_sees_first_what_others_have_written(both: Two) -> None:
    both.one.create("a", QueueSpec())
    with pytest.raises(EntityExists):
        both.two.create("A", QueueSpec())
    assert both.heard() == [("created", "a")], "it is told although its own change was refused"
    both.one.delete("a")
    with pytest.raises(EntityNotFound):
        both.two.update("a", QueueSpec(max_delivery_count=3))
    both.heard()
    both.two.create("a", QueueSpec())
    assert both.heard() == [("created", "a")]


def test_one_writes_at_a_time(both: Two) -> None:
    other = sqlite3.connect(both.file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(CatalogBusy):
        both.one.create("a", QueueSpec())
    assert both.one.lookup("a") is None
    other.execute("ROLLBACK")
    other.close()
    both.one.create("a", QueueSpec())


def test_a_refused_change_leaves_no_trace(both: Two) -> None:
    with pytest.raises(RuntimeError), both.one.batch():
        both.one.create("a", QueueSpec())
        raise RuntimeError
    assert both.one.lookup("a") is None
    assert both.two.refresh() == []


def test_idle_time_is_kept_for_what_is_there(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "catalog.db", clock=ManualClock())
    first = catalog.create("a", QueueSpec())
    catalog.put_idle_times({first.entity_id: 60_000, 999: 5})
    catalog.put_idle_times({first.entity_id: 120_000})
    assert Catalog(tmp_path / "catalog.db").idle_times() == {first.entity_id: 120_000}
    catalog.delete("a")
    assert catalog.idle_times() == {}
