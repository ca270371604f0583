"""The account of what all clients make the process hold."""

import pytest

from partibus.gateway.memory.account import (
    FAIR_BYTES,
    REST_BYTES,
    UNFINISHED_BYTES_MAX,
    WINDOW_MIN,
    MemoryAccount,
    Share,
)

LIMIT = 64 * 1024 * 1024


class Waiter:
    def __init__(self) -> None:
        self.calls = 0

    def has_room(self) -> None:
        self.calls += 1


@pytest.fixture
def account() -> MemoryAccount:
    return MemoryAccount(LIMIT)


def test_shares_add_up_and_go_with_their_connection(account: MemoryAccount) -> None:
    one, two = Share(account), Share(account)
    one.update(10, 20, 30)
    two.update(1, 2, 3)
    assert (account.unstored_bytes, account.unfinished_bytes, account.unsent_bytes) == (11, 22, 33)
    one.update(5, 20, 0)
    assert account.held_bytes == 5 + 20 + 6
    one.update(0, 0, 0)
    two.update(0, 0, 0)
    assert account.held_bytes == 0
    assert account.peak_bytes == 66


def test_who_holds_much_waits_when_it_is_full_and_who_holds_little_does_not(
    account: MemoryAccount,
) -> None:
    large, little = Share(account), Share(account)
    little.update(FAIR_BYTES - 1, 0, 0)
    large.update(LIMIT - FAIR_BYTES, 0, 0)
    assert not account.is_full and not large.must_wait
    large.update(LIMIT, 0, 0)
    assert account.is_full and large.must_wait
    assert not little.must_wait


def test_what_waits_for_clients_leaves_a_quarter_to_sends(account: MemoryAccount) -> None:
    stuck, sender = Share(account), Share(account)
    stuck.update(0, LIMIT, LIMIT)
    sender.update(LIMIT // 4 - 1, 0, 0)
    assert not sender.must_wait
    sender.update(LIMIT // 4, 0, 0)
    assert sender.must_wait


def test_those_who_wait_are_called_once_when_an_eighth_is_free(account: MemoryAccount) -> None:
    share, waiter, gone = Share(account), Waiter(), Waiter()
    share.update(LIMIT, 0, 0)
    account.wait(waiter)
    account.wait(gone)
    account.forget(gone)
    share.update(LIMIT - 1, 0, 0)
    assert waiter.calls == 0
    share.update(LIMIT * 7 // 8, 0, 0)
    share.update(0, 0, 0)
    assert (waiter.calls, gone.calls) == (1, 0)


def test_credit_shrinks_with_the_size_the_senders_and_what_is_held(account: MemoryAccount) -> None:
    share = Share(account)
    account.sender_count = 1
    assert account.credit(1000, 1024) == 1000
    small = account.credit(1000, 60_000)
    assert 500 < small < 1000
    account.sender_count = 100
    shared = account.credit(1000, 60_000)
    assert 1 < shared < small // 50
    share.update(LIMIT * 3 // 4, 0, 0)
    assert 1 <= account.credit(1000, 60_000) < shared
    share.update(2 * LIMIT, 0, 0)
    assert account.credit(1000, 60_000) == 1


def test_windows_shrink_when_half_is_used(account: MemoryAccount) -> None:
    share = Share(account)
    account.sender_count = 10
    share.update(LIMIT // 2, 0, 0)
    assert account.window(5000) == 5000
    share.update(LIMIT // 2 + 1, 0, 0)
    assert WINDOW_MIN < account.window(5000) < 5000
    share.update(2 * LIMIT, 0, 0)
    assert account.window(5000) == WINDOW_MIN


def test_unfinished_messages_have_half_and_a_single_one_always_fits(account: MemoryAccount) -> None:
    one, two = Share(account), Share(account)
    one.update(0, 10, 0)
    assert account.unfinished_max(one) == UNFINISHED_BYTES_MAX
    assert account.unfinished_max(two) == LIMIT // 2 - 10
    two.update(0, LIMIT, 0)
    assert account.unfinished_max(one) == 0
    assert account.unfinished_max(two) == LIMIT // 2 - 10


def test_receivers_are_given_less_at_a_time_when_much_is_unsent(account: MemoryAccount) -> None:
    share = Share(account)
    assert account.pull(4_000_000) == 4_000_000
    share.update(0, 0, LIMIT // 4)
    assert account.pull(4_000_000) == 250_000


def test_sends_whose_link_is_gone_are_held_until_they_are_stored(account: MemoryAccount) -> None:
    account.orphaned(500)
    assert account.unstored_bytes == 500
    account.orphaned(-500)
    assert account.held_bytes == 0


def test_a_peak_is_over_when_three_quarters_are_gone(account: MemoryAccount) -> None:
    share = Share(account)
    share.update(1000, 0, 0)
    assert not account.take_peak(1001)
    share.update(251, 0, 0)
    assert not account.take_peak(1000)
    share.update(250, 0, 0)
    assert account.take_peak(1000)
    # Once more at rest, for what was still on its way.
    assert account.take_peak(1000)
    assert not account.take_peak(1000)


def test_a_peak_is_followed_up_only_at_rest() -> None:
    account = MemoryAccount(1 << 30)
    share = Share(account)
    share.update(40 * REST_BYTES, 0, 0)
    share.update(2 * REST_BYTES, 0, 0)
    assert account.take_peak(32 * REST_BYTES)
    assert not account.take_peak(32 * REST_BYTES)
    share.update(0, 0, 0)
    assert account.take_peak(32 * REST_BYTES)
    assert not account.take_peak(32 * REST_BYTES)
