"""When a log is checkpointed, and when its dead space is given back."""

from typing import Any, cast

import pytest

from partibus.domain.errors import BusError, StoreUnavailable
from partibus.fragment.upkeep.log import CHECKPOINT_BYTES_MIN, DEAD_BYTES_MIN, Upkeep
from partibus.store.interface import Done, Store

MIB = 1024 * 1024


class Account:
    """A store of which only the numbers are there."""

    def __init__(self) -> None:
        self.bytes_since_checkpoint = 0
        self.live_bytes = 0
        self.dead_bytes = 0
        self.shortage: str | None = None
        self.steps = 0
        self.done: list[Done] = []
        self.calls: list[str] = []

    def checkpoint(self, states: dict[int, bytes], done: Done) -> None:
        self.calls.append("checkpoint")
        self.done.append(done)

    def compact(self, done: Done) -> bool:
        self.calls.append("compact")
        if not self.steps:
            return False
        self.steps -= 1
        self.done.append(done)
        return True

    def tell(self, error: BusError | None = None) -> None:
        self.done.pop(0)(error)


@pytest.fixture
def account() -> Account:
    return Account()


def upkeep_of(account: Account, state: bytes = b"state") -> Upkeep:
    return Upkeep(cast(Store, cast(Any, account)), lambda: {1: state})


def test_a_checkpoint_is_due_by_the_length_of_the_log(account: Account) -> None:
    upkeep = upkeep_of(account)
    account.bytes_since_checkpoint = CHECKPOINT_BYTES_MIN
    upkeep.look()
    assert account.calls == []
    account.bytes_since_checkpoint += 1
    upkeep.look()
    upkeep.look()  # it is under way
    assert account.calls == ["checkpoint"]


def test_a_deep_backlog_of_small_messages_is_checkpointed_in_time(account: Account) -> None:
    upkeep = upkeep_of(account, bytes(100 * MIB))
    account.live_bytes = 600 * MIB  # four times the state would be 400 MiB
    upkeep.checkpoint()
    account.tell()
    account.bytes_since_checkpoint = 151 * MIB
    upkeep.look()
    assert account.calls == ["checkpoint", "compact", "checkpoint"]


def test_compaction_goes_on_until_nothing_is_left_to_do(account: Account) -> None:
    account.steps = 3
    upkeep = upkeep_of(account)
    upkeep.checkpoint()
    account.tell()
    while account.done:
        account.tell()
    assert account.calls == ["checkpoint", *["compact"] * 4]


def test_dead_space_is_given_back_without_a_checkpoint(account: Account) -> None:
    upkeep = upkeep_of(account)
    account.dead_bytes = DEAD_BYTES_MIN + 1
    upkeep.look()
    upkeep.look()  # nothing could be done: not before as much again is dead
    assert account.calls == ["compact"]
    account.dead_bytes += DEAD_BYTES_MIN + 1
    upkeep.look()
    assert account.calls == ["compact"] * 2


def test_what_failed_is_tried_again_later(account: Account) -> None:
    account.steps = 5
    upkeep = upkeep_of(account)
    upkeep.checkpoint()
    account.tell(StoreUnavailable())
    assert account.calls == ["checkpoint"]
    account.dead_bytes = DEAD_BYTES_MIN + 1
    upkeep.look()
    account.tell(StoreUnavailable())
    upkeep.look()
    assert account.calls == ["checkpoint", "compact"]
    account.dead_bytes += DEAD_BYTES_MIN + 1
    upkeep.look()
    assert account.calls == ["checkpoint", "compact", "compact"]


def test_a_disk_that_is_almost_full_is_reason_to_hurry(account: Account) -> None:
    upkeep = upkeep_of(account)
    account.bytes_since_checkpoint = 2 * MIB
    account.dead_bytes = 1
    upkeep.look()
    assert account.calls == []
    account.shortage = "almost full"
    upkeep.hurry()
    account.bytes_since_checkpoint = 0
    account.tell()
    assert account.calls == ["checkpoint", "compact"]
    account.dead_bytes += 2 * MIB
    upkeep.look()
    assert account.calls == ["checkpoint", "compact", "compact"]
