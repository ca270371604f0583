"""Errors of the bus in its own words, and patience with it."""

import pytest

from pyspark_servicebus import errors
from pyspark_servicebus.errors import BulkError, ClaimLost, Patience, flight_error


def test_what_the_bus_said_is_found_in_what_flight_made_of_it() -> None:
    told = '{"condition":"amqp:not-found","text":"No {such} queue.","retryable":false}'
    text = f"{told}. gRPC client debug context: UNKNOWN:Error {{grpc_status:2}}. Client context: OK"
    error = flight_error(RuntimeError(text))
    assert (error.condition, error.text) == ("amqp:not-found", "No {such} queue.")
    assert not error.retryable


def test_a_lost_claim_is_told_apart() -> None:
    told = '{"condition":"partibus:claim-lost","text":"Gone.","retryable":false}'
    assert isinstance(flight_error(RuntimeError(told)), ClaimLost)


@pytest.mark.parametrize("text", ["failed to connect", "{", '{"other": 1}', "[1]", ""])
def test_anything_else_is_a_bus_that_is_away(text: str) -> None:
    error = flight_error(RuntimeError(text))
    assert (error.condition, error.retryable) == ("partibus:unreachable", True)


class Watch:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now_s += seconds


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    made = Watch()
    monkeypatch.setattr(errors, "time", made)
    return made


def test_pauses_grow_until_the_time_is_up(watch: Watch) -> None:
    patience = Patience(10.0)
    busy = BulkError("com.microsoft:server-busy", "Busy.", True)
    with pytest.raises(BulkError, match="Busy"):
        while True:
            patience.bear(busy)
    assert watch.pauses[:6] == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0]
    assert 8 <= watch.now_s <= 10
    patience.renew()
    patience.bear(busy)
    assert watch.pauses[-1] == 0.1


def test_what_is_final_is_not_tried_again(watch: Watch) -> None:
    with pytest.raises(BulkError):
        Patience(10.0).bear(BulkError("amqp:not-found", "No.", False))
    with pytest.raises(BulkError):
        Patience(0.0).bear(BulkError("com.microsoft:server-busy", "Busy.", True))
    assert watch.pauses == []


def test_a_busy_bus_is_left_alone_for_as_long_as_it_asks(watch: Watch) -> None:
    patience = Patience(10.0)
    text = "The entity is being throttled. Error code: 50009. Please wait 3 seconds and try again."
    busy = BulkError("com.microsoft:server-busy", text, True)
    with pytest.raises(BulkError, match="throttled"):
        while True:
            patience.bear(busy)
    assert watch.pauses == [3.0, 3.0, 3.0]


def test_a_claim_that_is_gone_may_come_back_for_a_while(watch: Watch) -> None:
    patience = Patience(60.0)
    lost = ClaimLost(errors.CLAIM_LOST, "Gone.", False)
    watch.now_s = 30.0  # the bus was away
    with pytest.raises(ClaimLost):
        while True:
            patience.bear(lost)
    assert 40 <= watch.now_s <= 42
    patience.renew()
    patience.bear(lost)
    with pytest.raises(ClaimLost):
        Patience(0.0).bear(lost)
