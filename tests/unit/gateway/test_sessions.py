"""Session receivers on an in-memory bus: attach replies, waits and losses."""

import uuid

import pytest

from partibus.amqp.codec.types import (
    LONG,
    UUID16,
    Array,
    Described,
    Int,
    Symbol,
    Timestamp,
    UInt,
    ULong,
)
from partibus.amqp.delivery import ACCEPTED, Accepted, Rejected
from partibus.amqp.events import (
    DetachReceived,
    IncomingSettled,
    TransferReceived,
)
from partibus.amqp.link import Link
from partibus.cluster.remote import RemoteFragment
from partibus.domain.entity import QueueSpec
from partibus.domain.partition_key import fragment_index
from partibus.fragment.handle import Fragment
from partibus.gateway.links.session import LOST_NOTICE_MS
from partibus.gateway.operations.sessions import TIME_MAX_MS
from partibus.testing.bus import BusBench, ClientBench
from support.gateway.messages import in_session, plain
from support.gateway.session_clients import (
    Management,
    accept,
    bodies,
    detach_condition,
    given,
    outcomes,
    receive,
    send,
)
from support.nodes.far_side import FarSide

LOCK_MS = 30_000
SPEC = QueueSpec(requires_session=True, lock_duration_ms=LOCK_MS)
PARTITIONED = QueueSpec(
    requires_session=True, lock_duration_ms=LOCK_MS, enable_partitioning=True, fragments=4
)


@pytest.fixture
def bus() -> BusBench:
    bus = BusBench()
    bus.queue("q", SPEC)
    bus.queue("p", PARTITIONED)
    bus.queue("plain")
    return bus


@pytest.fixture
def client(bus: BusBench) -> ClientBench:
    return bus.client()


# --- attach ---------------------------------------------------------------------------------------


@pytest.mark.rule("SES-3", "SES-5")
@pytest.mark.parametrize("queue", ["q", "p"])
def test_the_attach_reply_names_the_session_and_the_end_of_its_lock(
    bus: BusBench, client: ClientBench, queue: str
) -> None:
    link = accept(client, queue, "a")
    assert given(link) == "a"
    until_ms = bus.clock.now_ms() + LOCK_MS
    ticks = link.properties["com.microsoft:locked-until-utc"]
    assert ticks == until_ms * 10_000 + 621_355_968_000_000_000
    assert link.source is not None and link.source.address == queue


@pytest.mark.rule("SES-5")
def test_a_described_filter_is_answered_by_a_described_filter(client: ClientBench) -> None:
    descriptor = ULong(0x137000000C)
    assert given(accept(client, "q", Described(descriptor, "a"))) == Described(descriptor, "a")
    send(client, "q", (1, "b"))
    assert given(accept(client, "q", Described(descriptor, None))) == Described(descriptor, "b")


@pytest.mark.rule("SES-3")
@pytest.mark.parametrize("wanted", [b"", b"a", Symbol("a"), ""])
@pytest.mark.parametrize("queue", ["q", "p"])
def test_a_session_is_named_in_any_type_of_text(
    client: ClientBench, queue: str, wanted: str | bytes
) -> None:
    name = "a" if wanted else ""
    send(client, queue, (1, name))
    link = accept(client, queue, wanted)
    assert given(link) == name
    assert bodies(receive(client, link, 1)) == [1]
    management = Management(client, queue)
    for text in (name, name.encode(), Symbol(name)):
        assert management.ask("get-session-state", session_id=text)[0] == 200


@pytest.mark.rule("SES-1")
def test_entities_with_sessions_and_receivers_without_do_not_fit(client: ClientBench) -> None:
    client.attach("q", sends=False)
    (detached,) = client.take(DetachReceived)
    assert isinstance(detached, DetachReceived) and detached.error is not None
    assert detached.error.condition == "amqp:not-allowed"
    assert "requires sessions to create a non-sessionful" in str(detached.error.description)
    accept(client, "plain", "a")
    assert detach_condition(client) == "amqp:not-allowed"


@pytest.mark.rule("DLQ-10")
def test_the_dead_letters_of_a_session_queue_have_no_sessions(client: ClientBench) -> None:
    assert client.attach("q/$DeadLetterQueue", sends=False).source is not None
    accept(client, "q/$DeadLetterQueue", "a")
    assert detach_condition(client) == "amqp:not-allowed"


@pytest.mark.parametrize("session", [7, "x" * 129])
def test_a_filter_that_is_no_session_id_is_refused(client: ClientBench, session: object) -> None:
    accept(client, "q", session)
    assert detach_condition(client) == "com.microsoft:argument-error"


@pytest.mark.rule("SES-1", "SEED-30")
@pytest.mark.parametrize("queue", ["q", "p"])
def test_a_message_without_a_session_is_rejected(client: ClientBench, queue: str) -> None:
    link = client.attach(queue, sends=True)
    client.send(link, [plain(1), in_session(2, "a")])
    refused, accepted = outcomes(client)
    assert isinstance(refused, Rejected) and refused.error is not None
    assert refused.error.condition == "amqp:not-allowed"
    assert isinstance(accepted, Accepted)


@pytest.mark.rule("SES-3")
def test_a_held_session_is_refused_at_once(bus: BusBench, client: ClientBench) -> None:
    accept(client, "q", "a")
    other = bus.client()
    accept(other, "q", "a")
    assert detach_condition(other) == "com.microsoft:session-cannot-be-locked"


# --- any session ----------------------------------------------------------------------------------


@pytest.mark.rule("SES-4")
@pytest.mark.parametrize("queue", ["q", "p"])
def test_a_client_waits_for_a_session_until_there_is_one(
    bus: BusBench, client: ClientBench, queue: str
) -> None:
    link = accept(client, queue, None)
    assert link.source is None
    bus.scheduler.advance_ms(20_000)
    send(bus.client(), queue, (1, "a"))
    client.run()
    assert given(link) == "a"
    assert bodies(receive(client, link, 5)) == [1]
    # What it waited for at other fragments is called off: the next session is for others.
    other = bus.client()
    send(other, queue, (2, "b"), (3, "c"))
    assert {given(accept(other, queue)), given(accept(other, queue))} == {"b", "c"}


@pytest.mark.rule("SES-4")
@pytest.mark.parametrize("queue", ["q", "p"])
def test_a_client_that_waited_in_vain_is_told(
    bus: BusBench, client: ClientBench, queue: str
) -> None:
    accept(client, queue, None, 2_000)
    bus.scheduler.advance_ms(1_900)
    client.run()
    assert detach_condition(client) is None
    bus.scheduler.advance_ms(200)
    client.run()
    assert detach_condition(client) == "com.microsoft:timeout"
    send(client, queue, (1, "a"))
    assert given(accept(bus.client(), queue)) == "a"


def test_a_client_that_says_no_time_is_told_within_a_minute(
    bus: BusBench, client: ClientBench
) -> None:
    accept(client, "q", None)
    bus.scheduler.advance_ms(58_000)
    client.run()
    assert detach_condition(client) is None
    bus.scheduler.advance_ms(2_000)
    client.run()
    assert detach_condition(client) == "com.microsoft:timeout"


def test_a_client_that_leaves_while_it_waits_takes_no_session(
    bus: BusBench, client: ClientBench
) -> None:
    link = accept(client, "q", None)
    link.detach()
    client.run()
    send(client, "q", (1, "a"))
    assert given(accept(bus.client(), "q")) == "a"


@pytest.mark.rule("SES-20", "SES-25", "SEED-31")
def test_the_oldest_head_over_all_fragments_is_given_first(
    bus: BusBench, client: ClientBench
) -> None:
    names = [f"s{number}" for number in range(24)]
    assert len({fragment_index(name, 4) for name in names}) == 4
    for number, name in enumerate(reversed(names)):
        send(client, "p", (number, name))
        bus.scheduler.advance_ms(5)
    assert [given(accept(client, "p", None, 10)) for _ in names] == names[::-1]


def test_credit_that_comes_before_the_session_is_used(bus: BusBench, client: ClientBench) -> None:
    link = accept(client, "q", None)
    link.set_credit(3)
    client.run()
    send(bus.client(), "q", (1, "a"))
    client.run()
    (event,) = client.take(TransferReceived)
    assert isinstance(event, TransferReceived)
    assert bodies([event]) == [1]


# --- holding and losing ---------------------------------------------------------------------------


@pytest.mark.rule("SES-7", "SES-14")
def test_a_detached_link_releases_its_session_for_the_next(
    bus: BusBench, client: ClientBench
) -> None:
    send(client, "q", (1, "a"), (2, "a"))
    link = accept(client, "q", "a")
    receive(client, link, 1)
    waiting = bus.client()
    heir = accept(waiting, "q", None)
    link.detach()
    client.run()
    waiting.run()
    assert given(heir) == "a"
    assert bodies(receive(waiting, heir, 5)) == [1, 2]


def test_a_lost_connection_releases_its_sessions(bus: BusBench, client: ClientBench) -> None:
    accept(client, "q", "a")
    client.connection.connection_lost()
    bus.scheduler.run()
    assert given(accept(bus.client(), "q", "a")) == "a"


@pytest.mark.rule("SES-7", "SES-12", "SES-13")
def test_a_lapsed_session_ends_its_link(bus: BusBench, client: ClientBench) -> None:
    send(client, "q", (1, "a"))
    link = accept(client, "q", "a")
    (event,) = receive(client, link, 1)
    management = Management(client, "q")
    bus.scheduler.advance_ms(LOCK_MS + LOST_NOTICE_MS)
    client.run()
    assert detach_condition(client) == "com.microsoft:session-lock-lost"
    lost = (410, "com.microsoft:session-lock-lost")
    token = uuid.UUID(bytes_le=event.tag)
    for operation, fields in {
        "renew-session-lock": {},
        "get-session-state": {},
        "set-session-state": {"session_state": b"x"},
        "receive-by-sequence-number": {
            "sequence_numbers": Array(LONG, [1]),
            "receiver_settle_mode": UInt(1),
        },
        "update-disposition": {
            "disposition_status": "completed",
            "lock_tokens": Array(UUID16, [token]),
        },
    }.items():
        status, _, condition = management.ask(operation, session_id="a", **fields)
        assert (status, condition) == lost, operation


@pytest.mark.rule("SES-7")
def test_a_lapsed_session_is_free_at_once_and_its_link_hears_later(
    bus: BusBench, client: ClientBench
) -> None:
    accept(client, "q", "a")
    bus.scheduler.advance_ms(LOCK_MS)
    client.run()
    assert not client.take(DetachReceived)
    assert given(accept(client, "q", "a")) == "a"
    bus.scheduler.advance_ms(LOST_NOTICE_MS)
    client.run()
    assert detach_condition(client) == "com.microsoft:session-lock-lost"
    assert Management(client, "q").ask("renew-session-lock", session_id="a")[0] == 200


def test_settling_on_the_link_after_the_time_is_up(bus: BusBench, client: ClientBench) -> None:
    send(client, "q", (1, "a"))
    link = accept(client, "q", "a")
    (event,) = receive(client, link, 1)
    bus.clock.advance_ms(LOCK_MS)
    link.propose(event.delivery_id, ACCEPTED)
    client.run()
    (settled,) = client.take(IncomingSettled)
    assert isinstance(settled, IncomingSettled) and isinstance(settled.state, Rejected)
    assert settled.state.error is not None
    assert settled.state.error.condition == "com.microsoft:session-lock-lost"


@pytest.mark.rule("SES-12")
def test_only_the_holder_s_connection_speaks_for_a_session(
    bus: BusBench, client: ClientBench
) -> None:
    accept(client, "q", "a")
    stranger = Management(bus.client(), "q")
    status, _, condition = stranger.ask("renew-session-lock", session_id="a")
    assert (status, condition) == (410, "com.microsoft:session-lock-lost")
    assert Management(client, "q").ask("renew-session-lock", session_id="a")[0] == 200


# --- fragments of another process -----------------------------------------------------------------


class FarSessions:
    """A partitioned session queue whose fragments all belong to another process."""

    def __init__(self) -> None:
        self.bus = BusBench()
        self.owned: dict[int, Fragment] = {}
        self.far = FarSide(
            self.bus.scheduler, self.owned.get, self.bus.scheduler.run, is_automatic=True
        )
        for fragment in self.bus.queue("p", PARTITIONED):
            self.owned[fragment.fragment_id] = fragment
            handle = RemoteFragment(self.far.far, fragment.fragment_id, fragment.index, 0)
            self.bus.namespace.put_fragment(handle)
        self.far.connect()
        self.client = self.bus.client()


@pytest.fixture
def far() -> FarSessions:
    return FarSessions()


def test_far_sessions_are_used_like_near_ones(far: FarSessions) -> None:
    client = far.client
    waiting = accept(client, "p", None)
    send(client, "p", (1, "a"), (2, "b"), (3, "a"))
    assert given(waiting) == "a"
    assert bodies(receive(client, waiting, 5)) == [1, 3]
    management = Management(client, "p")
    assert management.ask("set-session-state", session_id="a", session_state=b"x")[0] == 200
    assert management.ask("get-session-state", session_id="a")[1] == {"session-state": b"x"}
    assert management.ask("renew-session-lock", session_id="a")[0] == 200
    every = {"last_updated_time": Timestamp(TIME_MAX_MS), "skip": Int(0), "top": Int(9)}
    _, body, _ = management.ask("get-message-sessions", **every)
    ids = body["sessions-ids"]
    assert isinstance(ids, Array) and sorted(map(str, ids.items)) == ["a", "b"]
    assert given(accept(client, "p", None, 1000)) == "b"
    accept(client, "p", "a")
    assert detach_condition(client) == "com.microsoft:session-cannot-be-locked"
    far.bus.scheduler.advance_ms(LOCK_MS + LOST_NOTICE_MS)
    client.run()
    conditions = {
        str(event.error.condition)
        for event in client.take(DetachReceived)
        if isinstance(event, DetachReceived) and event.error is not None
    }
    assert conditions == {"com.microsoft:session-lock-lost"}


def test_a_lost_process_takes_its_sessions_along(far: FarSessions) -> None:
    client = far.client
    send(client, "p", (1, "a"))
    link = accept(client, "p", "a")
    receive(client, link, 1)
    far.far.cut()
    client.run()
    assert detach_condition(client) == "com.microsoft:session-lock-lost"
    accept(client, "p", "a")
    assert detach_condition(client) == "com.microsoft:server-busy"
    waiting = accept(client, "p", None, 50_000)
    far.far.connect()
    client.run()
    assert given(waiting) == "a"
    assert bodies(receive(client, waiting, 5)) == [1]


# --- sessions that may be taken over --------------------------------------------------------------

NON_EXCLUSIVE = "com.microsoft:non-exclusive-session-filter:list"


def accept_shared(
    client: ClientBench, queue: str, session_id: str | None, token: uuid.UUID | None = None
) -> Link:
    asked = Described(ULong(0x137000000E), [session_id, token])
    name = f"shared-{uuid.uuid4()}"
    return client.attach(queue, sends=False, name=name, filters={NON_EXCLUSIVE: asked})


def shared(link: Link) -> tuple[object, uuid.UUID]:
    """The session and the token that an attach reply names."""
    assert link.source is not None, "the link was refused or not answered"
    answer = link.source.filters[NON_EXCLUSIVE]
    assert isinstance(answer, Described) and answer.descriptor == 0x137000000E
    assert isinstance(answer.value, list)
    session_id, token = answer.value
    assert isinstance(token, uuid.UUID)
    return session_id, token


@pytest.mark.rule("SES-26", "SES-27")
@pytest.mark.parametrize("queue", ["q", "p"])
def test_a_session_is_taken_over_by_its_token_from_another_connection(
    bus: BusBench, client: ClientBench, queue: str
) -> None:
    send(client, queue, (1, "a"), (2, "a"))
    first = accept_shared(client, queue, None)
    session_id, token = shared(first)
    assert session_id == "a" and "com.microsoft:locked-until-utc" in first.properties
    (message,) = receive(client, first, 1)
    other = bus.client()
    second = accept_shared(other, queue, None, token)
    assert shared(second)[0] == "a" and shared(second)[1] != token
    bus.scheduler.advance_ms(LOST_NOTICE_MS)
    client.run()
    assert detach_condition(client) == "com.microsoft:session-lock-lost"
    tokens = Array(UUID16, [uuid.UUID(bytes_le=message.tag)])
    settled = Management(other, queue).ask(
        "update-disposition", disposition_status="completed", lock_tokens=tokens, session_id="a"
    )
    assert settled[0] == 200
    assert bodies(receive(other, second, 5)) == [2]
    assert Management(other, queue).ask("renew-session-lock", session_id="a")[0] == 200
    assert Management(client, queue).ask("renew-session-lock", session_id="a")[0] == 410


@pytest.mark.rule("SES-27")
def test_a_token_of_nobody_is_refused(bus: BusBench, client: ClientBench) -> None:
    accept_shared(client, "q", "a", uuid.uuid4())
    assert detach_condition(client) == "com.microsoft:session-lock-lost"
    assert given(accept(client, "q", "a")) == "a"
    other = bus.client()
    accept_shared(other, "q", "a")
    assert detach_condition(other) == "com.microsoft:session-cannot-be-locked"


@pytest.mark.rule("SES-26")
@pytest.mark.parametrize("asked", [None, "a", [1, None], ["a", "b"], ["a", None, None]])
def test_a_filter_of_another_shape_is_refused(client: ClientBench, asked: object) -> None:
    filters: dict[str, object] = {NON_EXCLUSIVE: Described(ULong(0x137000000E), asked)}
    client.attach("q", sends=False, name="odd", filters=filters)
    assert detach_condition(client) == "com.microsoft:argument-error"
