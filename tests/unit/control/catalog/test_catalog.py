"""The catalog: identities, placement, durability, policies and the change feed."""

from dataclasses import replace
from pathlib import Path

import pytest

from partibus.control.access.policies import AccessPolicy
from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.record import Change, ChangeKind
from partibus.domain.entity import (
    CorrelationFilter,
    EntityKind,
    FilterType,
    QueueSpec,
    RuleSpec,
    SubscriptionSpec,
    TopicSpec,
)
from partibus.domain.errors import (
    ArgumentError,
    ConfigError,
    EntityExists,
    EntityNotFound,
    QuotaExceeded,
    StoreUnavailable,
)
from partibus.domain.limits import (
    EMULATOR,
    PREMIUM,
    PREMIUM_2017,
    PREMIUM_2020,
    SELFHOST,
    STANDARD,
    Profile,
)
from partibus.domain.refusal import PropertyImmutable, PropertyRefused
from partibus.domain.rights import ALL_RIGHTS, Rights


class SteppingClock:
    """A clock that moves on by a millisecond each time it is read."""

    def __init__(self) -> None:
        self.ms = 1_000

    def now_ms(self) -> int:
        self.ms += 1
        return self.ms


def policy(name: str, rights: Rights = Rights.SEND) -> AccessPolicy:
    return AccessPolicy(name, f"{name}-1", f"{name}-2", rights)


# --- entities -----------------------------------------------------------------------------------


@pytest.mark.rule("ENT-8")
def test_names_are_found_in_any_case_and_keep_their_own() -> None:
    catalog = Catalog()
    made = catalog.create("Orders/New", QueueSpec())
    assert catalog.lookup("orders/NEW") is made
    assert made.path == "Orders/New"
    assert catalog.lookup("orders") is None


@pytest.mark.rule("ENT-9")
def test_queues_and_topics_share_their_names() -> None:
    catalog = Catalog()
    catalog.create("a", QueueSpec())
    for spec in (QueueSpec(), TopicSpec()):
        with pytest.raises(EntityExists):
            catalog.create("A", spec)


def test_everything_survives_reopening(tmp_path: Path) -> None:
    rule = RuleSpec(
        name="mine",
        filter_type=FilterType.CORRELATION,
        sql_expression="",
        correlation=CorrelationFilter(
            label="x", properties={"n": 1, "f": 1.5, "t": "1", "b": True}
        ),
        action="SET a = @a",
        action_parameters={"a": 1.0, "unused": "x"},
    )
    other = RuleSpec(
        name="sql",
        filter_type=FilterType.SQL,
        sql_expression="n = @n AND s = @s AND b = @b",
        parameters={"n": 1, "s": "1", "b": True},
    )
    file = tmp_path / "data" / "catalog.db"
    first = Catalog(file, stores=2)
    first.create("q", QueueSpec(lock_duration_ms=7_000, requires_session=True, user_metadata="ü"))
    first.create("p", QueueSpec(enable_partitioning=True, fragments=5))
    first.create("t", TopicSpec(requires_duplicate_detection=True))
    first.create("t/subscriptions/S", SubscriptionSpec(rules=(rule, other)))
    first.put_policy("", policy("Root", ALL_RIGHTS))
    first.put_policy("Q", policy("mine"))
    before = first.entities()
    first.close()
    second = Catalog(file, stores=2)
    assert second.entities() == before
    assert second.policies() == (policy("Root", ALL_RIGHTS),)
    assert second.policies("q") == (policy("mine"),)
    assert second.policies_named("mine") == (("q", policy("mine")),)
    second.close()


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    file = tmp_path / "catalog.db"
    catalog = Catalog(file)
    catalog.create("q", QueueSpec())
    assert [path.stat().st_mode & 0o077 for path in tmp_path.iterdir()] == [0] * len(
        list(tmp_path.iterdir())
    )
    catalog.close()


def test_the_database_is_set_to_lose_nothing(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "catalog.db")
    connection = catalog._database._connection
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    catalog.close()
    reopened = Catalog(tmp_path / "catalog.db")
    connection = reopened._database._connection
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    reopened.close()


def test_ids_are_never_used_twice(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "catalog.db")
    catalog.create("a", QueueSpec())
    gone = catalog.create("b", QueueSpec(enable_partitioning=True, fragments=3))
    catalog.delete("b")
    catalog.close()
    catalog = Catalog(tmp_path / "catalog.db")
    new = catalog.create("b", QueueSpec())
    assert new.entity_id > gone.entity_id
    assert new.fragments[0].fragment_id > max(p.fragment_id for p in gone.fragments)
    catalog.close()


def test_fragments_go_round_the_stores() -> None:
    catalog = Catalog(stores=3)
    single = [catalog.create(f"q{n}", QueueSpec()).fragments[0].store for n in range(4)]
    assert single == [0, 1, 2, 0]
    many = catalog.create("p", QueueSpec(enable_partitioning=True)).fragments
    assert len(many) == 16
    assert [p.store for p in many] == [(1 + n) % 3 for n in range(16)]
    assert [p.fragment_id for p in many] == list(range(5, 21))


def test_topics_with_a_subscription_each_spread_over_the_stores() -> None:
    catalog = Catalog(stores=2)
    stores = []
    for number in range(12):
        topic = catalog.create(f"t{number}", TopicSpec())
        made = catalog.create(f"t{number}/Subscriptions/s", SubscriptionSpec())
        assert made.fragments[0].store == topic.fragments[0].store
        stores.append(topic.fragments[0].store)
    assert stores == [0, 1] * 6


def test_a_store_that_entities_left_is_filled_first() -> None:
    catalog = Catalog(stores=3)
    made = [catalog.create(f"q{n}", QueueSpec()) for n in range(9)]
    for record in made:
        if record.fragments[0].store == 1:
            catalog.delete(record.path)
    again = [catalog.create(f"n{n}", QueueSpec()).fragments[0].store for n in range(4)]
    assert again == [1, 1, 1, 0]


def test_a_missing_store_is_noticed_at_the_start(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "catalog.db", stores=2)
    catalog.create("a", QueueSpec())
    catalog.create("lost", QueueSpec())
    catalog.close()
    with pytest.raises(ConfigError, match=r"'lost' has a fragment in store 1.*has 1"):
        Catalog(tmp_path / "catalog.db", stores=1)
    grown = Catalog(tmp_path / "catalog.db", stores=4)
    assert [r.fragments[0].store for r in grown.entities()] == [0, 1]
    grown.close()


@pytest.mark.rule("PRP-2")
def test_an_update_of_a_fixed_property_leaves_the_entity_as_it_was() -> None:
    catalog = Catalog()
    before = catalog.create("q", QueueSpec())
    with pytest.raises(PropertyImmutable) as caught:
        catalog.update("q", QueueSpec(requires_session=True, lock_duration_ms=9_000))
    assert caught.value.sub_code == 40000
    assert catalog.lookup("q") is before


def test_an_update_changes_the_spec_and_its_time_only() -> None:
    catalog = Catalog(clock=SteppingClock())
    before = catalog.create("q", QueueSpec())
    after = catalog.update("Q", replace(before.queue, max_delivery_count=2))
    assert after.queue.max_delivery_count == 2
    assert after.created_ms == before.created_ms < after.updated_ms
    assert replace(after, spec=before.spec, updated_ms=before.updated_ms) == before
    assert catalog.update("q", after.spec) is after


def test_what_is_missing_is_not_found() -> None:
    catalog = Catalog()
    for act in (
        lambda: catalog.update("no", QueueSpec()),
        lambda: catalog.delete("no"),
        lambda: catalog.entity("no"),
        lambda: catalog.put_policy("no", policy("p")),
        lambda: catalog.delete_policy("", "p"),
        lambda: catalog.create("no/Subscriptions/s", SubscriptionSpec()),
    ):
        with pytest.raises(EntityNotFound):
            act()


@pytest.mark.rule("CON-1")
def test_older_partitioned_entities_go_on_under_premium_2020(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "catalog.db", profile=PREMIUM_2017)
    catalog.create("old", QueueSpec())
    catalog.close()
    catalog = Catalog(tmp_path / "catalog.db", profile=PREMIUM_2020)
    after = catalog.update("old", QueueSpec(max_delivery_count=3))
    assert (after.queue.enable_partitioning, len(after.fragments)) == (True, 2)
    assert not catalog.create("new", QueueSpec(enable_partitioning=True)).queue.enable_partitioning
    catalog.close()


# --- topics -------------------------------------------------------------------------------------


@pytest.mark.rule("ENT-1")
def test_a_topic_holds_subscriptions_and_takes_them_along() -> None:
    catalog = Catalog()
    catalog.create("T", TopicSpec(enable_partitioning=True, fragments=4))
    catalog.create("t2", TopicSpec())
    catalog.create("t2/Subscriptions/s", SubscriptionSpec())
    made = catalog.create("t/subscriptions/s", SubscriptionSpec())
    assert made.path == "T/Subscriptions/s"
    assert made.kind is EntityKind.SUBSCRIPTION
    assert len(made.fragments) == 4
    assert catalog.subscriptions("t") == (made,)
    heard: list[Change] = []
    catalog.subscribe(heard.append)
    catalog.delete("t")
    assert [(c.kind, c.path) for c in heard] == [
        (ChangeKind.DELETED, "T/Subscriptions/s"),
        (ChangeKind.DELETED, "T"),
    ]
    assert [r.path for r in catalog.entities()] == ["t2", "t2/Subscriptions/s"]


def test_a_queue_has_no_subscriptions() -> None:
    catalog = Catalog()
    catalog.create("q", QueueSpec())
    with pytest.raises(ArgumentError, match="not the path of a subscription"):
        catalog.create("q/Subscriptions/s", SubscriptionSpec())


# --- quotas -------------------------------------------------------------------------------------


@pytest.mark.rule("EMU-8", "QTA-2")
def test_the_emulator_holds_fifty_queues_and_topics() -> None:
    assert (STANDARD.entities_max, PREMIUM_2020.entities_max) == (10_000, 1_000)
    catalog = Catalog(profile=EMULATOR)
    for number in range(49):
        catalog.create(f"q{number}", QueueSpec())
    catalog.create("t", TopicSpec())
    catalog.create("t/Subscriptions/s", SubscriptionSpec())
    with pytest.raises(QuotaExceeded):
        catalog.create("one-more", QueueSpec())
    catalog.delete("q0")
    catalog.create("one-more", QueueSpec())


@pytest.mark.rule("QTA-3")
def test_standard_holds_a_hundred_partitioned_entities() -> None:
    catalog = Catalog(profile=STANDARD)
    with catalog.batch():
        for number in range(100):
            catalog.create(f"q{number}", QueueSpec(enable_partitioning=True))
    with pytest.raises(QuotaExceeded, match="partitioned"):
        catalog.create("one-more", QueueSpec(enable_partitioning=True))
    catalog.create("one-more", QueueSpec())


@pytest.mark.rule("QTA-11")
def test_a_topic_has_room_for_so_many_subscriptions() -> None:
    assert STANDARD.subscriptions_per_topic_max == 2_000
    catalog = Catalog(profile=EMULATOR)
    catalog.create("t", TopicSpec())
    for number in range(50):
        catalog.create(f"t/Subscriptions/s{number}", SubscriptionSpec())
    with pytest.raises(QuotaExceeded, match="subscriptions"):
        catalog.create("t/Subscriptions/more", SubscriptionSpec())


@pytest.mark.rule("QTA-12")
def test_filters_are_counted_over_the_topic() -> None:
    assert STANDARD.sql_filters_per_topic_max == 2_000
    assert STANDARD.correlation_filters_per_topic_max == 100_000
    catalog = Catalog(profile=replace(EMULATOR, sql_filters_per_topic_max=3))
    catalog.create("t", TopicSpec())

    def rules(count: int) -> SubscriptionSpec:
        made = (RuleSpec(name=f"r{n}", filter_type=FilterType.SQL) for n in range(count))
        return SubscriptionSpec(rules=tuple(made))

    catalog.create("t/Subscriptions/a", rules(2))
    with pytest.raises(QuotaExceeded, match="at most 3 SQL filters"):
        catalog.create("t/Subscriptions/b", rules(2))
    catalog.create("t/Subscriptions/b", rules(1))
    with pytest.raises(QuotaExceeded):
        catalog.update("t/Subscriptions/b", rules(2))
    catalog.update("t/Subscriptions/a", rules(1))
    catalog.update("t/Subscriptions/b", rules(2))


@pytest.mark.rule("FWD-2")
def test_a_forward_needs_its_destination() -> None:
    catalog = Catalog()
    for spec in (QueueSpec(forward_to="b"), QueueSpec(forward_dead_lettered_messages_to="b")):
        with pytest.raises(PropertyRefused, match="no queue or topic named 'b'"):
            catalog.create("a", spec)
    assert catalog.lookup("a") is None
    catalog.create("b", QueueSpec())
    catalog.create("a", QueueSpec(forward_to="B"))
    with pytest.raises(PropertyRefused) as missing:
        catalog.update("b", QueueSpec(forward_to="c"))
    assert (missing.value.http_status, missing.value.sub_code) == (400, 40400)


@pytest.mark.rule("FWD-6")
@pytest.mark.parametrize("profile", [STANDARD, PREMIUM, EMULATOR, SELFHOST])
def test_queues_may_forward_in_a_circle(profile: Profile) -> None:
    catalog = Catalog(profile=profile)
    catalog.create("c", QueueSpec())
    catalog.create("b", QueueSpec(forward_to="c"))
    catalog.update("c", QueueSpec(forward_to="B", forward_dead_lettered_messages_to="c"))
    assert catalog.entity("c").queue.forward_to == "B"
    catalog.create("own", QueueSpec(forward_to="own", forward_dead_lettered_messages_to="own"))
    assert catalog.entity("own").queue.forward_to == "own"
    with catalog.batch():
        catalog.create("x", QueueSpec(forward_to="y"))
        catalog.create("y", QueueSpec(forward_to="x"))


# --- policies -----------------------------------------------------------------------------------


@pytest.mark.rule("SAS-3", "QTA-14")
def test_each_level_has_twelve_policies_at_most() -> None:
    catalog = Catalog()
    catalog.create("q", QueueSpec())
    catalog.create("t", TopicSpec())
    for path in ("", "q", "t"):
        for number in range(12):
            catalog.put_policy(path, policy(f"p{number}"))
        with pytest.raises(QuotaExceeded, match="12 policies"):
            catalog.put_policy(path, policy("p12"))
        catalog.put_policy(path, policy("p3", Rights.LISTEN))
        catalog.delete_policy(path, "p4")
        catalog.put_policy(path, policy("p12"))


@pytest.mark.rule("SAS-3")
def test_a_subscription_has_no_policies() -> None:
    catalog = Catalog()
    catalog.create("t", TopicSpec())
    catalog.create("t/Subscriptions/s", SubscriptionSpec())
    with pytest.raises(ArgumentError, match="put them on its topic"):
        catalog.put_policy("t/Subscriptions/s", policy("p"))


def test_policies_go_with_their_entity(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "catalog.db")
    catalog.create("q", QueueSpec())
    catalog.put_policy("Q", policy("p"))
    catalog.delete("q")
    catalog.create("q", QueueSpec())
    assert catalog.policies("q") == ()
    assert catalog.policies_named("p") == ()
    catalog.close()
    catalog = Catalog(tmp_path / "catalog.db")
    assert catalog.policies("q") == ()
    catalog.close()


# --- change feed and batches --------------------------------------------------------------------


def test_changes_are_heard_after_they_are_made() -> None:
    catalog = Catalog()
    heard: list[tuple[ChangeKind, str, bool]] = []

    def listen(change: Change) -> None:
        heard.append((change.kind, change.path, catalog.lookup(change.path) is change.after))

    catalog.subscribe(listen)
    record = catalog.create("Q", QueueSpec())
    catalog.update("q", QueueSpec(max_delivery_count=1))
    catalog.update("q", QueueSpec(max_delivery_count=1))
    catalog.put_policy("q", policy("p"))
    catalog.put_policy("q", policy("p"))
    catalog.delete("q")
    assert [entry[:2] for entry in heard] == [
        (ChangeKind.CREATED, "Q"),
        (ChangeKind.UPDATED, "Q"),
        (ChangeKind.POLICIES, "Q"),
        (ChangeKind.DELETED, "Q"),
    ]
    assert heard[0][2] and heard[1][2] and heard[3][2]
    assert record.path == "Q"


def test_a_batch_is_all_or_nothing(tmp_path: Path) -> None:
    file = tmp_path / "catalog.db"
    catalog = Catalog(file)
    kept = catalog.create("kept", QueueSpec())
    heard: list[Change] = []
    catalog.subscribe(heard.append)
    with pytest.raises(EntityExists), catalog.batch():
        catalog.create("new", QueueSpec())
        catalog.update("kept", QueueSpec(max_delivery_count=1))
        catalog.put_policy("", policy("p"))
        catalog.create("NEW", QueueSpec())
    assert heard == []
    assert catalog.entities() == (kept,)
    assert catalog.policies() == ()
    assert catalog.policies_named("p") == ()
    catalog.create("after", QueueSpec())
    catalog.close()
    catalog = Catalog(file)
    assert [r.path for r in catalog.entities()] == ["kept", "after"]
    catalog.close()


def test_a_batch_is_heard_at_its_end() -> None:
    catalog = Catalog()
    heard: list[str] = []
    catalog.subscribe(lambda change: heard.append(change.path))
    with catalog.batch():
        catalog.create("a", QueueSpec(forward_to="b"))
        catalog.create("b", QueueSpec())
        assert heard == []
    assert heard == ["a", "b"]


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "catalog.db")
    catalog._database._connection.execute("PRAGMA query_only = ON")
    with pytest.raises(StoreUnavailable, match="The catalog cannot be written"):
        catalog.create("q", QueueSpec())
    assert catalog.lookup("q") is None
    catalog._database._connection.execute("PRAGMA query_only = OFF")
    catalog.create("q", QueueSpec())
    catalog.close()
