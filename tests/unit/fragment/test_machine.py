"""What a fragment does with messages, locks and settlements."""

import pytest

from partibus.domain.errors import InvalidOperation, QuotaExceeded
from partibus.fragment.commands import Outcome, SubQueueType
from partibus.fragment.message import Overlay
from partibus.fragment.spec import FragmentSpec
from partibus.testing.fragment import FragmentBench

SPEC = FragmentSpec(lock_duration_ms=30_000, max_delivery_count=3, path="q")


@pytest.fixture
def bench() -> FragmentBench:
    return FragmentBench(SPEC)


def test_a_send_is_confirmed_and_received_in_order(bench: FragmentBench) -> None:
    requests = bench.send(b"a", b"b", b"c")
    assert bench.ports.confirmations == requests
    got = bench.receive(10)
    assert [m.body for m in got] == [b"a", b"b", b"c"]
    assert [m.sequence for m in got] == [1, 2, 3]
    assert [m.delivery_count for m in got] == [0, 0, 0]


def test_no_confirmation_before_the_store_has_it(bench: FragmentBench) -> None:
    from partibus.fragment.commands import Enqueue
    from partibus.fragment.message import NewMessage

    inbox, consumer = bench.receiver()
    bench.demand(consumer, 5)
    bench.broker.submit(bench.machine, Enqueue(bench.ports, [NewMessage(b"a", -1)], [1], 1))
    bench.broker._turn()
    assert bench.ports.confirmations == []
    assert inbox.messages == []
    bench.run()
    assert bench.ports.confirmations == [1]
    assert [m.body for m in inbox.messages] == [b"a"]


def test_a_locked_message_is_hidden_until_it_is_settled(bench: FragmentBench) -> None:
    bench.send(b"a", b"b")
    (first,) = bench.receive(1)
    assert [m.body for m in bench.receive(10)] == [b"b"]
    assert bench.settle([first.token]) == ([], None)
    assert bench.state.main.message_count == 1


def test_abandon_counts_and_puts_the_message_back_in_front(bench: FragmentBench) -> None:
    bench.send(b"a", b"b")
    (first,) = bench.receive(1)
    bench.settle([first.token], Outcome.ABANDON)
    again = bench.receive(2)
    assert [(m.body, m.delivery_count) for m in again] == [(b"a", 1), (b"b", 0)]
    assert again[0].sequence == first.sequence


def test_release_does_not_count(bench: FragmentBench) -> None:
    bench.send(b"a")
    (first,) = bench.receive(1)
    bench.settle([first.token], Outcome.RELEASE)
    (again,) = bench.receive(1)
    assert again.delivery_count == 0


def test_a_lapsed_lock_counts_and_the_old_token_is_lost(bench: FragmentBench) -> None:
    bench.send(b"a")
    (first,) = bench.receive(1)
    bench.scheduler.advance_ms(29_999)
    assert bench.receive(1) == []
    bench.scheduler.advance_ms(100)
    assert bench.settle([first.token])[0] == [first.token]
    (again,) = bench.receive(1)
    assert again.delivery_count == 1
    assert again.token != first.token


def test_a_late_settlement_is_lost_even_before_the_sweep(bench: FragmentBench) -> None:
    bench.send(b"a")
    (first,) = bench.receive(1)
    bench.clock.advance_ms(30_000)
    assert bench.settle([first.token]) == ([first.token], None)


def test_renewal_extends_from_now(bench: FragmentBench) -> None:
    bench.send(b"a")
    (first,) = bench.receive(1)
    bench.scheduler.advance_ms(20_000)
    assert bench.renew([first.token, 99]) == [bench.clock.now_ms() + 30_000, 0]
    bench.scheduler.advance_ms(20_000)
    assert bench.settle([first.token]) == ([], None)


def test_renewed_locks_do_not_hide_the_lapse_of_others(bench: FragmentBench) -> None:
    bench.send(b"a", b"b")
    first, second = bench.receive(2)
    bench.scheduler.advance_ms(20_000)
    bench.renew([first.token])
    bench.scheduler.advance_ms(10_100)
    (again,) = bench.receive(2)
    assert again.sequence == second.sequence


def test_too_many_deliveries_end_in_the_dead_letter_queue(bench: FragmentBench) -> None:
    bench.send(b"a")
    for _ in range(3):
        (message,) = bench.receive(1)
        bench.settle([message.token], Outcome.ABANDON)
    assert bench.receive(1) == []
    (dead,) = bench.receive(1, SubQueueType.DEAD_LETTER)
    assert dead.sequence == 1
    assert dead.delivery_count == 3
    assert dead.overlay is not None
    assert dead.overlay.reason == "MaxDeliveryCountExceeded"


def test_lapses_count_toward_the_limit_too(bench: FragmentBench) -> None:
    bench.send(b"a")
    for _ in range(3):
        assert len(bench.receive(1)) == 1
        bench.scheduler.advance_ms(30_100)
    assert bench.receive(1) == []
    assert bench.state.dead.message_count == 1


def test_dead_letter_with_a_reason_and_properties(bench: FragmentBench) -> None:
    bench.send(b"a")
    (message,) = bench.receive(1)
    bench.settle([message.token], Outcome.DEAD_LETTER, overlay=Overlay(b"p", "why", "because"))
    (dead,) = bench.receive(1, SubQueueType.DEAD_LETTER)
    assert dead.overlay is not None
    assert (dead.overlay.reason, dead.overlay.description) == ("why", "because")
    assert dead.overlay.properties == b"p"
    assert dead.delivery_count == 0


def test_a_dead_letter_cannot_be_dead_lettered_again(bench: FragmentBench) -> None:
    bench.send(b"a")
    (message,) = bench.receive(1)
    bench.settle([message.token], Outcome.DEAD_LETTER)
    (dead,) = bench.receive(1, SubQueueType.DEAD_LETTER)
    _, error = bench.settle([dead.token], Outcome.DEAD_LETTER, SubQueueType.DEAD_LETTER)
    assert isinstance(error, InvalidOperation)
    assert bench.settle([dead.token], Outcome.COMPLETE, SubQueueType.DEAD_LETTER) == ([], None)


def test_dead_letters_never_leave_by_count(bench: FragmentBench) -> None:
    bench.send(b"a")
    (message,) = bench.receive(1)
    bench.settle([message.token], Outcome.DEAD_LETTER)
    for _ in range(5):
        (dead,) = bench.receive(1, SubQueueType.DEAD_LETTER)
        bench.settle([dead.token], Outcome.ABANDON, SubQueueType.DEAD_LETTER)
    assert bench.state.dead.message_count == 1


def test_settling_twice_loses_the_second(bench: FragmentBench) -> None:
    bench.send(b"a")
    (message,) = bench.receive(1)
    assert bench.settle([message.token]) == ([], None)
    assert bench.settle([message.token]) == ([message.token], None)


def test_receive_and_delete_removes_before_it_hands_over(bench: FragmentBench) -> None:
    bench.send(b"a", b"b")
    got = bench.receive(5, deletes=True)
    assert [m.body for m in got] == [b"a", b"b"]
    assert bench.state.main.message_count == 0
    assert bench.state.size_bytes == 0


def test_competing_receivers_share_one_each_in_turn(bench: FragmentBench) -> None:
    one, first = bench.receiver()
    two, second = bench.receiver()
    bench.demand(first, 10)
    bench.demand(second, 10)
    bench.send(*[bytes([n]) for n in range(6)])
    assert [m.body for m in one.messages] == [b"\0", b"\2", b"\4"]
    assert [m.body for m in two.messages] == [b"\1", b"\3", b"\5"]


def test_demand_is_never_exceeded(bench: FragmentBench) -> None:
    inbox, consumer = bench.receiver()
    bench.demand(consumer, 2)
    bench.send(b"a", b"b", b"c")
    assert len(inbox.messages) == 2
    bench.demand(consumer, 1)
    assert len(inbox.messages) == 3


def test_drain_answers_after_what_was_there(bench: FragmentBench) -> None:
    bench.send(b"a")
    inbox, consumer = bench.receiver()
    bench.demand(consumer, 5, drain=True)
    assert len(inbox.messages) == 1
    assert inbox.drained_count == 1
    bench.send(b"b")
    assert len(inbox.messages) == 1


def test_drain_of_receive_and_delete_waits_for_the_removal(bench: FragmentBench) -> None:
    bench.send(b"a")
    inbox, consumer = bench.receiver(deletes=True)
    bench.demand(consumer, 5, drain=True)
    assert [m.body for m in inbox.messages] == [b"a"]
    assert inbox.drained_count == 1


def test_expired_messages_are_dropped(bench: FragmentBench) -> None:
    bench.send(b"a", ttl_ms=1000)
    bench.send(b"b")
    bench.clock.advance_ms(1000)
    assert [m.body for m in bench.receive(5)] == [b"b"]
    assert bench.state.main.message_count == 1


def test_expired_messages_leave_without_receivers(bench: FragmentBench) -> None:
    bench.send(b"a", ttl_ms=1000)
    bench.scheduler.advance_ms(2100)
    assert bench.state.main.message_count == 0
    assert bench.state.size_bytes == 0


def test_expired_messages_are_dead_lettered_where_the_entity_says_so() -> None:
    bench = FragmentBench(
        FragmentSpec(lock_duration_ms=1000, max_delivery_count=3, dead_letter_on_expiry=True)
    )
    bench.send(b"a", ttl_ms=1000)
    bench.scheduler.advance_ms(2100)
    (dead,) = bench.receive(1, SubQueueType.DEAD_LETTER)
    assert dead.overlay is not None
    assert dead.overlay.reason == "TTLExpiredException"


def test_a_locked_message_outlives_its_time_to_live(bench: FragmentBench) -> None:
    bench.send(b"a", ttl_ms=1000)
    (message,) = bench.receive(1)
    bench.scheduler.advance_ms(5000)
    assert bench.settle([message.token]) == ([], None)


def test_the_default_time_to_live_is_a_ceiling() -> None:
    bench = FragmentBench(
        FragmentSpec(lock_duration_ms=1000, max_delivery_count=3, default_ttl_ms=5000)
    )
    bench.send(b"none")
    bench.send(b"long", ttl_ms=60_000)
    bench.send(b"short", ttl_ms=1_000)
    bench.clock.advance_ms(1_000)
    assert [m.body for m in bench.receive(5)] == [b"none", b"long"]
    bench.scheduler.advance_ms(6_000)
    assert bench.state.main.message_count == 0


def test_a_full_queue_refuses_and_says_how_full() -> None:
    bench = FragmentBench(
        FragmentSpec(lock_duration_ms=1000, max_delivery_count=3, size_bytes_max=10, path="q")
    )
    bench.send(b"12345678")
    bench.send(b"123")
    ((_, error),) = bench.ports.refusals
    assert isinstance(error, QuotaExceeded)
    assert "8 of 10 bytes" in error.text
    bench.receive(1, deletes=True)
    bench.send(b"123")
    assert len(bench.ports.confirmations) == 2


def test_a_receiver_that_left_gets_nothing(bench: FragmentBench) -> None:
    from partibus.fragment.commands import Detach

    inbox, consumer = bench.receiver()
    bench.demand(consumer, 5)
    bench.broker.submit(bench.machine, Detach(consumer))
    bench.send(b"a")
    assert inbox.messages == []
    assert len(bench.receive(1)) == 1
