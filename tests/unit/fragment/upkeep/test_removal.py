"""Fragments that leave: everybody is answered, and no byte and no record stays behind."""

from collections.abc import Sequence
from typing import Any

import pytest

from partibus.domain.errors import BusError, EntityNotFound
from partibus.fragment.broker import Broker
from partibus.fragment.commands import (
    CancelScheduled,
    Command,
    Consumer,
    Demand,
    Detach,
    Enqueue,
    Interest,
    Outcome,
    Peek,
    Purge,
    ReceiveDeferred,
    Renew,
    Settle,
    SubQueueType,
    Undelivered,
)
from partibus.fragment.machine import HANDLERS, TOPIC_HANDLERS
from partibus.fragment.message import NewMessage
from partibus.fragment.records import DROPPED
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
from partibus.store.memory import MemoryStore
from partibus.testing.fragment import FragmentBench, Inbox, Ports, SessionInbox

LOCK_MS = 10_000
SPEC = FragmentSpec(lock_duration_ms=LOCK_MS, max_delivery_count=3, path="orders")
IN_SESSIONS = FragmentSpec(
    lock_duration_ms=LOCK_MS, max_delivery_count=3, requires_session=True, path="orders"
)
NEVER_MS = 1 << 60


class Bench(FragmentBench):
    """A fragment with a neighbour in the same store."""

    def start(self) -> None:
        super().start()
        self.neighbour = self.broker.add(2, self.spec)

    def restart_without(self) -> int:
        """A new process whose catalog has the neighbour alone; answers what it drops."""
        self.scheduler.crash()
        self.broker = Broker(self.store, self.clock, self.scheduler)
        self.broker.open()
        self.neighbour = self.broker.add(2, self.spec)
        strangers = self.broker.strangers()
        for fragment_id in strangers:
            self.broker.drop_stranger(fragment_id)
        self.run()
        return len(strangers)

    def drop(self) -> None:
        self.broker.drop(1)
        self.run()

    def fill(self) -> None:
        """Messages in every state that a fragment knows."""
        self.send(
            b"active", b"locked", b"deferred", b"deferred and locked", b"dead", b"dead locked"
        )
        self.send(b"scheduled", scheduled_ms=self.clock.now_ms() + 60_000)
        a, _, c, d, e, f = self.receive(6)
        self.settle([c.token, d.token], Outcome.DEFER)
        self.settle([e.token, f.token], Outcome.DEAD_LETTER)
        self.receive_deferred(d.sequence)
        self.receive(1, SubQueueType.DEAD_LETTER)
        self.settle([a.token], Outcome.ABANDON)

    @property
    def memory(self) -> MemoryStore:
        assert isinstance(self.store, MemoryStore)
        return self.store


@pytest.fixture
def bench() -> Bench:
    return Bench(SPEC)


def checkpointed(bench: Bench) -> list[int]:
    """The fragments that a checkpoint would have now."""
    return [machine.state.fragment_id for machine in bench.broker._kept()]


def test_every_body_is_released(bench: Bench) -> None:
    bench.fill()
    assert bench.store.live_bytes > 0
    bench.drop()
    assert bench.store.live_bytes == 0
    assert bench.broker.fragment_count == 1


def test_the_neighbour_goes_on(bench: Bench) -> None:
    bench.broker.submit(bench.neighbour, Enqueue(bench.ports, [NewMessage(b"mine", -1)], [9], 4))
    bench.run()
    bench.fill()
    bench.drop()
    bench.broker.submit(bench.neighbour, Enqueue(bench.ports, [NewMessage(b"more", -1)], [10], 4))
    bench.run()
    assert bench.ports.confirmations[-1] == 10
    assert bench.store.live_bytes == 8


def test_state_of_sessions_is_released_too() -> None:
    bench = Bench(IN_SESSIONS)
    bench.send(b"one", session_id="s")
    inbox, consumer = bench.accept("s")
    bench.demand(consumer, 5)
    bench.set_state(inbox, b"remember")
    bench.drop()
    assert bench.store.live_bytes == 0


def every_command(ports: Ports, inbox: SessionInbox) -> list[Command]:
    consumer = SessionConsumer(1, inbox, False)
    return [
        Enqueue(ports, [NewMessage(b"x", -1)], [7], 1),
        Settle(ports, "request", SubQueueType.MAIN, [5], Outcome.COMPLETE),
        Renew(ports, SubQueueType.MAIN, [5]),
        CancelScheduled(ports, [5]),
        ReceiveDeferred(ports, SubQueueType.MAIN, [5], False),
        Peek(ports, SubQueueType.MAIN, 0, 10, 1000),
        Purge(ports, SubQueueType.MAIN, 10, NEVER_MS),
        FindOldestSession(ports),
        RenewSession(ports, "s", 5),
        GetSessionState(ports, "s", 5),
        SetSessionState(ports, "s", 5, b""),
        ListSessions(ports, None, 0, 10),
        AcceptSession(consumer, None, True),
        Demand(consumer, 5, True),
        Demand(consumer, 5, False),
        Interest(consumer),
        Detach(consumer),
    ]


@pytest.mark.parametrize("is_waiting", [True, False], ids=["in the mailbox", "afterwards"])
def test_every_command_is_answered(bench: Bench, is_waiting: bool) -> None:
    inbox = SessionInbox()
    if not is_waiting:
        bench.drop()
    for command in every_command(bench.ports, inbox):
        bench.broker.submit(bench.machine, command)
    if is_waiting:
        bench.broker.drop(1)
    bench.run()
    errors: list[object] = [error for _, error in bench.ports.refusals]
    errors += [error for _, _, error in bench.ports.settlements]
    errors += [*bench.ports.answers, *inbox.errors]
    assert len(errors) == 1 + 1 + 10 + 1
    assert all(isinstance(error, EntityNotFound) for error in errors)
    assert all("'orders'" in str(error) for error in errors)
    assert inbox.drained_count == 1
    assert not bench.ports.confirmations


class Listener:
    """A port and a receiver of every kind: it records the calls."""

    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []

    def failed(self, error: BusError) -> None:
        self.heard.append((error,))

    not_accepted = failed

    def refused(self, requests: Sequence[int], error: BusError) -> None:
        self.heard.append((*requests, error))

    def settled(self, request: object, lost: Sequence[int], error: BusError | None) -> None:
        self.heard.append((request, error))

    def unreadable(self, parcels: Sequence[object], error: BusError) -> None:
        self.heard.append((error,))

    def drained(self) -> None:
        self.heard.append(())


def fields_of(kind: type[Command]) -> set[str]:
    return {*dir(kind), *getattr(kind, "__dataclass_fields__", ())}


def bare(kind: type[Command], listener: Listener) -> Command:
    """A command of which only what an answer needs is there: a refusal must not need more."""
    consumer = SessionConsumer(1, listener, False)  # type: ignore[arg-type]
    # Compiled, these cannot be made without their arguments; the others are dataclasses.
    whole: dict[type[Command], tuple[Any, ...]] = {
        Demand: (consumer, 1, True),
        Enqueue: (listener, [], [7], 0),
        Interest: (consumer,),
        Settle: (listener, 7, SubQueueType.MAIN, [], Outcome.COMPLETE),
    }
    if kind in whole:
        return kind(*whole[kind])
    command = kind.__new__(kind)
    answered = {"port": listener, "requests": [7], "request": 7, "consumer": consumer}
    for name, value in answered.items():
        if name in fields_of(kind):
            setattr(command, name, value)
    return command


EVERY_KIND = sorted({*HANDLERS, *TOPIC_HANDLERS}, key=lambda kind: kind.__name__)
WITHOUT_AN_ANSWER = {Interest, Detach, Undelivered}
"""What a receiver says and expects no answer to."""


@pytest.mark.parametrize("kind", EVERY_KIND, ids=lambda kind: kind.__name__)
def test_every_kind_that_the_machine_handles_is_answered_once(
    bench: Bench, kind: type[Command]
) -> None:
    listener = Listener()
    bench.drop()
    bench.broker.submit(bench.machine, bare(kind, listener))
    bench.run()
    waits = bool({"port", "consumer"} & fields_of(kind)) and kind not in WITHOUT_AN_ANSWER
    assert len(listener.heard) == waits
    errors = [heard[-1] for heard in listener.heard if heard]
    assert all(isinstance(error, EntityNotFound) for error in errors)
    assert bool(errors) == (waits and kind is not Demand), "a drain ends without an error"


def test_what_was_under_way_to_the_store_is_answered_and_released(bench: Bench) -> None:
    inbox, consumer = bench.receiver(deletes=True)
    bench.demand(consumer, 10)
    bench.broker.submit(bench.machine, Enqueue(bench.ports, [NewMessage(b"x", -1)], [7], 1))
    bench.scheduler._soon.popleft()()  # the turn, without the store's answer
    bench.drop()
    assert bench.ports.confirmations == [7]
    assert not inbox.messages, "nothing is handed out any more"
    assert bench.store.live_bytes == 0


def test_what_would_follow_a_change_is_not_done(bench: Bench) -> None:
    """An abandoned message would go to the receiver that waits, by a further change."""
    bench.send(b"x")
    (held,) = bench.receive(1)
    inbox, consumer = bench.receiver(deletes=True)
    bench.demand(consumer, 10)
    bench.broker.submit(
        bench.machine, Settle(None, None, SubQueueType.MAIN, [held.token], Outcome.ABANDON)
    )
    bench.scheduler._soon.popleft()()
    bench.drop()
    assert not inbox.messages
    assert bench.store.live_bytes == 0
    assert records_after_drop(bench.memory) == []


def records_after_drop(store: MemoryStore) -> list[int]:
    kinds = [record.kind for record in store.open().records if record.fragment == 1]
    return kinds[kinds.index(DROPPED) + 1 :]


@pytest.mark.parametrize("with_checkpoint", [False, True])
def test_after_a_restart_nothing_of_it_is_known(bench: Bench, with_checkpoint: bool) -> None:
    bench.fill()
    bench.broker.submit(bench.neighbour, Enqueue(bench.ports, [NewMessage(b"mine", -1)], [9], 4))
    bench.drop()
    if with_checkpoint:
        bench.broker._checkpoint()
        bench.run()
    assert bench.restart_without() == 0, "the log itself says that it is gone"
    assert bench.store.live_bytes == 4


@pytest.mark.parametrize("with_checkpoint", [False, True])
def test_a_crash_before_the_record_leaves_a_stranger(bench: Bench, with_checkpoint: bool) -> None:
    bench.fill()
    if with_checkpoint:
        bench.broker._checkpoint()
        bench.run()
    bench.broker.drop(1)
    assert bench.restart_without() == 1
    assert bench.store.live_bytes == 0
    bench.broker._checkpoint()
    bench.run()
    assert bench.restart_without() == 0, "a checkpoint leaves strangers out"


def test_while_the_store_is_down_it_waits_and_stays_in_checkpoints(bench: Bench) -> None:
    bench.fill()
    bench.memory.fail()
    bench.run()
    bench.drop()
    assert bench.store.live_bytes > 0
    assert 1 in checkpointed(bench)
    inbox = Inbox()
    bench.broker.submit(
        bench.machine, Demand(Consumer(1, inbox, SubQueueType.MAIN, False), 5, True)
    )
    bench.run()
    assert (inbox.messages, inbox.drained_count) == ([], 1)
    bench.memory.heal()
    bench.run()
    assert bench.store.live_bytes == 0
    assert checkpointed(bench) == [2]


def test_a_store_that_fails_under_the_record_is_asked_again(bench: Bench) -> None:
    bench.fill()
    bench.broker.drop(1)
    bench.memory.fail()
    bench.run()
    assert bench.store.live_bytes > 0
    bench.memory.heal()
    bench.run()
    assert bench.store.live_bytes == 0
    assert bench.restart_without() == 0


def test_reads_that_were_asked_before_are_answered_before_bodies_go() -> None:
    class Cold(MemoryStore):
        """Reads take a turn; a released body is really gone."""

        def read_now(self, refs: list[tuple[int, int]]) -> list[bytes] | None:
            return None

        def read(self, refs: list[tuple[int, int]], done: object) -> None:
            def answer() -> None:
                bodies: list[bytes] | BusError = MemoryStore.read_now(self, refs) or []
                done(bodies)  # type: ignore[operator]

            later.append(answer)

    later: list[object] = []
    bench = Bench(SPEC)
    bench.store = Cold(notify=bench.scheduler.call_soon)
    bench.start()
    bench.send(b"a", b"b")
    ports = Ports()
    bench.broker.submit(bench.machine, Peek(ports, SubQueueType.MAIN, 0, 10, 1000))
    bench.broker.submit(bench.machine, Peek(ports, SubQueueType.MAIN, 0, 10, 1000))
    bench.run()
    bench.drop()
    assert bench.store.live_bytes == 2
    while later:
        later.pop(0)()  # type: ignore[operator]
        bench.run()
    assert [bodies_of(found) for found in ports.lookups] == [[b"a", b"b"], [b"a", b"b"]]
    assert bench.store.live_bytes == 0
    assert bench.broker.damage.count == 0


def bodies_of(found: object) -> list[bytes]:
    assert isinstance(found, Sequence)
    return [delivered.body for delivered in found]


# --- other properties -----------------------------------------------------------------------------


def shortened(spec: FragmentSpec) -> FragmentSpec:
    return FragmentSpec(
        lock_duration_ms=2_000,
        max_delivery_count=3,
        requires_session=spec.requires_session,
        path="orders",
    )


def test_shorter_locks_lapse_before_longer_ones_that_were_taken_earlier(bench: Bench) -> None:
    bench.send(b"long", b"short")
    (long,) = bench.receive(1)
    bench.broker.change(1, shortened(SPEC))
    (short,) = bench.receive(1)
    assert (long.locked_until_ms, short.locked_until_ms) == (
        bench.clock.now_ms() + LOCK_MS,
        bench.clock.now_ms() + 2_000,
    )
    bench.scheduler.advance_ms(3_000)
    assert [(m.body, m.delivery_count) for m in bench.receive(5)] == [(b"short", 1)]
    bench.scheduler.advance_ms(LOCK_MS - 3_000)
    assert sorted(m.body for m in bench.receive(5)) == [b"long", b"short"]


def test_shorter_locks_of_sessions_lapse_first_too() -> None:
    bench = Bench(IN_SESSIONS)
    bench.send(b"1", session_id="long")
    bench.send(b"2", session_id="short")
    long, _ = bench.accept("long")
    bench.broker.change(1, shortened(IN_SESSIONS))
    short, _ = bench.accept("short")
    bench.scheduler.advance_ms(3_000)
    assert (long.is_holding, short.is_holding) == (True, False)
    bench.scheduler.advance_ms(LOCK_MS)
    assert not long.is_holding


def test_use_is_noted_and_housekeeping_is_not(bench: Bench) -> None:
    began_ms = bench.machine.used_ms
    assert began_ms == bench.clock.now_ms()
    bench.send(b"x", ttl_ms=1_000)
    bench.receive(1)
    bench.scheduler.advance_ms(60_000)
    assert bench.machine.used_ms == began_ms, "locks lapse and messages expire by themselves"
    bench.peek()
    assert bench.machine.used_ms == began_ms + 60_000


def test_a_checkpoint_does_not_bring_back_what_the_log_calls_void(bench: Bench) -> None:
    """The record is durable and a read still holds the bodies: a checkpoint comes just then."""
    bench.fill()
    gone: list[int] = []
    bench.broker.on_removed = gone.append
    bench.broker._reads_under_way += 1
    bench.drop()
    assert 1 in bench.broker._removals.machines
    assert 1 not in checkpointed(bench)
    assert gone == [], "its tombstone must stay until nothing of it is left"
    bench.broker._reads_under_way -= 1
    held_back, bench.broker._held_back = bench.broker._held_back, []
    bench.broker._let_out(held_back)
    bench.run()
    assert gone == [1]
    assert bench.store.live_bytes == 0
