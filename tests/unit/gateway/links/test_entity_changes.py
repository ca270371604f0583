"""Links whose entity is changed or deleted, and claims whose policy is."""

import pytest

from partibus.amqp.delivery import Accepted, Rejected
from partibus.amqp.events import (
    CloseReceived,
    DetachReceived,
    DispositionReceived,
    Event,
    TransferReceived,
)
from partibus.amqp.link import Link
from partibus.control.access.policies import (
    DEVELOPMENT_KEY,
    ROOT_POLICY_NAME,
    AccessPolicy,
    regenerate,
)
from partibus.domain.entity import EntityStatus, QueueSpec
from partibus.domain.rights import ALL_RIGHTS, Rights
from partibus.gateway.gateway import SWEEP_INTERVAL_MS
from partibus.gateway.links.session_filter import SESSION_FILTER
from partibus.testing.bus import BusBench, ClientBench
from support.gateway.messages import in_session, plain

PARTITIONED = QueueSpec(enable_partitioning=True, fragments=4)
NOT_FOUND = "amqp:not-found"
DISABLED = "com.microsoft:entity-disabled"
UNAUTHORIZED = "amqp:unauthorized-access"


def detached(client: ClientBench) -> dict[Link, str]:
    """The links that the server has ended, with its reason."""
    ends = [event for event in client.take(DetachReceived) if isinstance(event, DetachReceived)]
    return {event.link: event.error.condition for event in ends if event.error is not None}


def outcomes(client: ClientBench) -> list[object]:
    events: list[Event] = client.take(DispositionReceived)
    return [event.state for event in events if isinstance(event, DispositionReceived)]


@pytest.fixture
def bus() -> BusBench:
    return BusBench(stores=2)


@pytest.mark.rule("ERR-1")
@pytest.mark.parametrize("spec", [QueueSpec(), PARTITIONED], ids=["plain", "partitioned"])
def test_every_link_of_a_deleted_entity_is_told(bus: BusBench, spec: QueueSpec) -> None:
    bus.queue("Orders", spec)
    bus.queue("orders/eu")
    client = bus.client()
    links = [
        client.attach("orders", sends=True),
        client.attach("ORDERS", sends=False),
        client.attach("orders/$DeadLetterQueue", sends=False),
        client.attach("orders/$management", sends=True),
        client.attach("orders/$management", sends=False),
    ]
    others = [client.attach("orders/eu", sends=True), client.attach("orders/eu", sends=False)]
    bus.catalog.delete("orders")
    client.run()
    assert detached(client) == dict.fromkeys(links, NOT_FOUND)
    client.send(others[0], [plain(1)])
    assert [type(state) for state in outcomes(client)] == [Accepted]
    client.attach("orders", sends=True, name="again")
    assert list(detached(client).values()) == [NOT_FOUND]


def test_sends_under_way_are_answered_before_their_link_goes(bus: BusBench) -> None:
    bus.queue("q")
    client = bus.client()
    sender = client.attach("q", sends=True)
    for number in range(3):
        sender.send(plain(number), b"t", False, 0, None)
    client.connection.data_received(client.engine.data_to_send())
    bus.catalog.delete("q")
    client.run()
    events = [e for e in client.events if isinstance(e, DispositionReceived | DetachReceived)]
    assert isinstance(events[-1], DetachReceived)
    (state,) = {type(state) for state in outcomes(client)}
    assert state is Rejected
    assert bus.stores[0].live_bytes == bus.stores[1].live_bytes == 0
    assert client.connection.unconfirmed_bytes == 0


def test_a_client_that_waits_for_a_session_is_told(bus: BusBench) -> None:
    bus.queue("q", QueueSpec(requires_session=True))
    client = bus.client()
    client.send(client.attach("q", sends=True), [in_session(1, "a")])
    held = client.attach("q", sends=False, name="held", filters={SESSION_FILTER: "a"})
    waits = client.attach("q", sends=False, name="waits", filters={SESSION_FILTER: None})
    bus.catalog.delete("q")
    client.run()
    ends = detached(client)
    assert ends[held] == ends[waits] == NOT_FOUND


def test_made_anew_it_is_another_entity(bus: BusBench) -> None:
    bus.queue("q")
    client = bus.client()
    client.send(client.attach("q", sends=True), [plain(n) for n in range(5)])
    bus.catalog.delete("q")
    client.run()
    bus.queue("q")
    receiver = client.attach("q", sends=False, name="new")
    receiver.set_credit(10)
    client.run()
    assert client.take(TransferReceived) == []
    client.send(client.attach("q", sends=True, name="sends"), [plain(7)])
    assert len(client.take(TransferReceived)) == 1


def test_nothing_of_a_deleted_entity_stays(bus: BusBench) -> None:
    bus.queue("stays")
    client = bus.client()
    for number in range(100):
        bus.queue("goes", PARTITIONED if number % 2 else QueueSpec())
        sender = client.attach("goes", sends=True, name=f"s{number}")
        receiver = client.attach("goes", sends=False, name=f"r{number}")
        client.send(sender, [plain(n) for n in range(4)])
        receiver.set_credit(2)
        client.run()
        bus.catalog.delete("goes")
        client.run()
    assert len(detached(client)) == 200
    assert len(list(bus.namespace.fragments())) == 1
    assert sum(broker.fragment_count for broker in bus.brokers) == 1
    assert [store.live_bytes for store in bus.stores] == [0, 0]
    assert bus.gateway._prefixes == {}
    assert len(bus.namespace._entities) == 0
    assert client.connection.links == []


# --- status ---------------------------------------------------------------------------------------


@pytest.mark.rule("STS-6")
@pytest.mark.parametrize(
    ("status", "ends"),
    [
        (EntityStatus.ACTIVE, set()),
        (EntityStatus.DISABLED, {"sends", "receives", "dead letters"}),
        (EntityStatus.SEND_DISABLED, {"sends"}),
        (EntityStatus.RECEIVE_DISABLED, {"receives", "dead letters"}),
    ],
)
def test_a_status_ends_what_it_forbids(bus: BusBench, status: EntityStatus, ends: set[str]) -> None:
    bus.queue("q")
    client = bus.client()
    links = {
        "sends": client.attach("q", sends=True),
        "receives": client.attach("q", sends=False),
        "dead letters": client.attach("q/$deadletterqueue", sends=False),
        "manages": client.attach("q/$management", sends=True),
    }
    bus.catalog.update("q", QueueSpec(status=status, lock_duration_ms=30_000))
    client.run()
    assert detached(client) == {links[name]: DISABLED for name in ends}


def test_links_apply_the_size_that_the_entity_has_now(bus: BusBench) -> None:
    bus.queue("q", QueueSpec(max_message_size_in_kilobytes=64))
    client = bus.client()
    sender = client.attach("q", sends=True)
    client.send(sender, [plain(1, 3000)])
    bus.catalog.update("q", QueueSpec(max_message_size_in_kilobytes=2))
    client.send(sender, [plain(2, 3000)])
    bus.catalog.update("q", QueueSpec(max_message_size_in_kilobytes=128))
    client.send(sender, [plain(3, 100_000)])
    assert [type(state) for state in outcomes(client)] == [Accepted, Rejected, Accepted]


# --- claims ---------------------------------------------------------------------------------------


def swept(bus: BusBench, client: ClientBench) -> dict[Link, str]:
    bus.scheduler.advance_ms(SWEEP_INTERVAL_MS)
    client.run()
    return detached(client)


@pytest.fixture
def policy(bus: BusBench) -> AccessPolicy:
    bus.queue("q")
    policy = AccessPolicy(ROOT_POLICY_NAME, DEVELOPMENT_KEY, "second", ALL_RIGHTS)
    bus.catalog.put_policy("", policy)
    return policy


@pytest.mark.rule("SAS-7")
def test_a_new_key_ends_the_links_of_the_old_one(bus: BusBench, policy: AccessPolicy) -> None:
    first, second = bus.client(), bus.client(key="second")
    links = [client.attach("q", sends=True) for client in (first, second)]
    bus.catalog.put_policy("", regenerate(policy, "primary"))
    assert swept(bus, first) == {links[0]: UNAUTHORIZED}
    assert swept(bus, second) == {}
    second.send(links[1], [plain(1)])
    assert [type(state) for state in outcomes(second)] == [Accepted]


def test_a_policy_that_is_gone_ends_its_links(bus: BusBench, policy: AccessPolicy) -> None:
    client = bus.client()
    link = client.attach("q", sends=False)
    bus.catalog.delete_policy("", ROOT_POLICY_NAME)
    assert swept(bus, client) == {link: UNAUTHORIZED}
    bus.scheduler.advance_ms(25_000)
    client.run()
    assert client.take(CloseReceived), "a client that holds nothing is cut off after a while"


def test_fewer_rights_end_the_links_that_need_them(bus: BusBench, policy: AccessPolicy) -> None:
    client = bus.client()
    sender, receiver = client.attach("q", sends=True), client.attach("q", sends=False)
    bus.catalog.put_policy(
        "", AccessPolicy(ROOT_POLICY_NAME, DEVELOPMENT_KEY, "second", Rights.SEND)
    )
    assert swept(bus, client) == {receiver: UNAUTHORIZED}
    client.send(sender, [plain(1)])
    assert [type(state) for state in outcomes(client)] == [Accepted]


def test_other_policies_disturb_nobody(bus: BusBench, policy: AccessPolicy) -> None:
    client = bus.client()
    client.attach("q", sends=True)
    bus.catalog.put_policy("q", AccessPolicy("other", "k1", "k2", Rights.SEND))
    bus.catalog.delete_policy("q", "other")
    assert swept(bus, client) == {}


def test_the_policies_of_an_entity_go_with_it(bus: BusBench, policy: AccessPolicy) -> None:
    bus.catalog.put_policy("q", AccessPolicy(ROOT_POLICY_NAME, "own", "own2", ALL_RIGHTS))
    client = bus.client(key="own")
    client.attach("q", sends=True)
    bus.catalog.delete("q")
    client.run()
    bus.queue("q")
    detached(client)
    bus.scheduler.advance_ms(SWEEP_INTERVAL_MS)
    again = client.attach("q", sends=True, name="again")
    assert detached(client) == {again: UNAUTHORIZED}
