"""Sessions of a fragment of another process, over a wire that a test can cut."""

import pytest

from partibus.cluster.remote import RemoteFragment
from partibus.domain.errors import (
    BusError,
    EntityNotFound,
    OperationTimeout,
    SessionLockLost,
    StoreUnavailable,
)
from partibus.fragment.commands import Demand, Detach, Enqueue
from partibus.fragment.handle import LocalFragment
from partibus.fragment.message import NewMessage
from partibus.fragment.sessions.commands import (
    AcceptSession,
    FindOldestSession,
    GetSessionState,
    ListSessions,
    RenewSession,
    SessionConsumer,
    SetSessionState,
)
from partibus.fragment.spec import FragmentSpec
from partibus.testing.fragment import FragmentBench, Ports, SessionInbox
from support.nodes.far_side import FarSide

LOCK_MS = 10_000


class Bench:
    """A gateway's side with one far session fragment."""

    def __init__(self) -> None:
        self.owner = FragmentBench(
            FragmentSpec(lock_duration_ms=LOCK_MS, max_delivery_count=10, requires_session=True)
        )
        self.ports = Ports()
        self.side = FarSide(self.owner.scheduler, self._find, self.owner.run)
        self.fragment = RemoteFragment(self.side.far, 1, 0, 0)
        self.side.connect()

    def _find(self, fragment_id: int) -> LocalFragment | None:
        return LocalFragment(self.owner.broker, self.owner.machine, 0) if fragment_id == 1 else None

    def send(self, session_id: str, *bodies: bytes) -> None:
        messages = [NewMessage(body, -1, 0, session_id) for body in bodies]
        self.fragment.submit(Enqueue(self.ports, messages, [0], sum(map(len, bodies))))
        self.side.run()

    def accept(
        self, session_id: str | None, waits: bool = False
    ) -> tuple[SessionInbox, SessionConsumer]:
        inbox = SessionInbox()
        consumer = self.fragment.session_consumer(inbox, False)
        self.fragment.submit(AcceptSession(consumer, session_id, waits))
        self.side.run()
        return inbox, consumer


@pytest.fixture
def bench() -> Bench:
    return Bench()


def kinds(errors: list[BusError]) -> list[type]:
    return [type(error) for error in errors]


def test_a_far_session_is_held_received_and_released(bench: Bench) -> None:
    bench.send("a", b"1", b"2")
    inbox, consumer = bench.accept("a")
    assert inbox.locked_until_ms == bench.owner.clock.now_ms() + LOCK_MS
    bench.fragment.submit(Demand(consumer, 5, False))
    bench.side.run()
    assert [message.body for message in inbox.take()] == [b"1", b"2"]
    waiting, _ = bench.accept(None, waits=True)
    bench.fragment.submit(Detach(consumer))
    bench.side.run()
    assert waiting.session_id == "a"


def test_state_lock_and_list_of_far_sessions(bench: Bench) -> None:
    inbox, _ = bench.accept("a")
    for command in (
        SetSessionState(bench.ports, "a", inbox.lock, b"kept"),
        GetSessionState(bench.ports, "a", inbox.lock),
        RenewSession(bench.ports, "a", inbox.lock),
        ListSessions(bench.ports, None, 0, 10),
        FindOldestSession(bench.ports),
    ):
        bench.fragment.submit(command)
        bench.side.run()
    assert bench.ports.answers == [1, 0]
    assert bench.ports.states == [b"kept"]
    assert bench.ports.renewals == [[inbox.locked_until_ms]]
    assert bench.ports.listings == [(["a"], 0)]


def test_a_lapsed_session_is_told_afar(bench: Bench) -> None:
    inbox, _ = bench.accept("a")
    bench.owner.scheduler.advance_ms(LOCK_MS)
    bench.side.run()
    assert kinds(inbox.errors) == [SessionLockLost]


def test_when_the_process_is_lost_its_sessions_are_free_and_all_is_answered(bench: Bench) -> None:
    bench.send("a", b"1")
    inbox, _ = bench.accept("a")
    for command in (
        SetSessionState(bench.ports, "a", inbox.lock, b"x"),
        GetSessionState(bench.ports, "a", inbox.lock),
        RenewSession(bench.ports, "a", inbox.lock),
        ListSessions(bench.ports, None, 0, 10),
        FindOldestSession(bench.ports),
    ):
        bench.fragment.submit(command)
    bench.side.carry_requests()
    bench.side.cut()
    assert inbox.interrupted_count == 1
    assert [type(answer) for answer in bench.ports.answers] == [OperationTimeout] * 5
    assert bench.owner.accept("a")[0].is_holding


def test_while_the_process_is_lost_a_certain_session_is_refused(bench: Bench) -> None:
    bench.side.cut()
    refused, _ = bench.accept("a")
    at_once, _ = bench.accept(None)
    waiting, consumer = bench.accept(None, waits=True)
    assert kinds(refused.errors) == kinds(at_once.errors) == [StoreUnavailable]
    assert not waiting.errors
    bench.side.connect()
    assert waiting.resumed_count == 1
    bench.send("a", b"1")
    bench.fragment.submit(AcceptSession(consumer, None, True))
    bench.side.run()
    assert waiting.session_id == "a"


def test_a_fragment_that_is_not_served_there_gives_no_session(bench: Bench) -> None:
    stranger = RemoteFragment(bench.side.far, 99, 0, 0)
    inbox = SessionInbox()
    consumer = stranger.session_consumer(inbox, False)
    stranger.submit(AcceptSession(consumer, "a", False))
    bench.side.run()
    assert kinds(inbox.errors) == [EntityNotFound]
