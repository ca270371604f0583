"""Errors of the bus in its own words, and the pauses between attempts."""

import re

import pytest
from pyspark.errors import PySparkException

from partibus.domain import conditions
from pyspark_servicebus import errors
from pyspark_servicebus.errors import (
    Backoff,
    BulkError,
    CheckpointError,
    ClaimLost,
    DataLoss,
    LossAdvice,
    ServiceBusError,
    UnreadableMessage,
    condition_of,
    flight_error,
)
from pyspark_servicebus.given_options import OptionsError
from support.repository import ROOT


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
    backoff = Backoff(10.0)
    busy = BulkError("com.microsoft:server-busy", "Busy.", True)
    with pytest.raises(BulkError, match="Busy"):
        while True:
            backoff.wait_or_raise(busy)
    assert watch.pauses[:6] == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0]
    assert 8 <= watch.now_s <= 10
    backoff.reset()
    backoff.wait_or_raise(busy)
    assert watch.pauses[-1] == 0.1


def test_what_is_final_is_not_tried_again(watch: Watch) -> None:
    with pytest.raises(BulkError):
        Backoff(10.0).wait_or_raise(BulkError("amqp:not-found", "No.", False))
    with pytest.raises(BulkError):
        Backoff(0.0).wait_or_raise(BulkError("com.microsoft:server-busy", "Busy.", True))
    assert watch.pauses == []


def test_a_busy_bus_is_left_alone_for_as_long_as_it_asks(watch: Watch) -> None:
    backoff = Backoff(10.0)
    text = "The entity is being throttled. Error code: 50009. Please wait 3 seconds and try again."
    busy = BulkError("com.microsoft:server-busy", text, True)
    with pytest.raises(BulkError, match="throttled"):
        while True:
            backoff.wait_or_raise(busy)
    assert watch.pauses == [3.0, 3.0, 3.0]


def test_a_claim_that_is_gone_may_come_back_for_a_while(watch: Watch) -> None:
    backoff = Backoff(60.0)
    lost = ClaimLost(conditions.PARTIBUS_CLAIM_LOST, "Gone.", False)
    watch.now_s = 30.0  # the bus was away
    with pytest.raises(ClaimLost):
        while True:
            backoff.wait_or_raise(lost)
    assert 40 <= watch.now_s <= 42
    backoff.reset()
    backoff.wait_or_raise(lost)
    with pytest.raises(ClaimLost):
        Backoff(0.0).wait_or_raise(lost)


ONE_OF_EACH = [
    BulkError("amqp:not-found", "No queue.", False),
    BulkError("amqp:decode-error", "Odd.", False),
    ClaimLost(conditions.PARTIBUS_CLAIM_LOST, "Gone.", False),
    DataLoss("MESSAGES_GONE", "Two are gone.", "Keep them", LossAdvice(), entity="q", fragment=3),
    CheckpointError("OFFSET_VERSION", "Too new.", version=9),
    UnreadableMessage("q", (3 << 48) + 1, "not UTF-8"),
    OptionsError("the options cannot be used:", ["a: no.", "b: no."]),
]


@pytest.mark.parametrize("error", ONE_OF_EACH, ids=lambda error: error.getCondition())
def test_an_error_has_a_condition_and_parameters_as_sparks_own(error: ServiceBusError) -> None:
    assert isinstance(error, PySparkException)
    condition = error.getCondition()
    assert condition is not None and condition.startswith("SERVICEBUS_")
    assert str(error) == error.getMessage() == f"[{condition}] {error.words}"
    parameters = error.getMessageParameters()
    assert parameters and all(isinstance(value, str) for value in parameters.values())
    assert error.getSqlState() is None and error.getBreakingChangeInfo() is None


@pytest.mark.parametrize("error", ONE_OF_EACH, ids=lambda error: error.getCondition())
def test_the_condition_is_found_in_what_spark_made_of_an_error(error: ServiceBusError) -> None:
    lines = f"[PYTHON_DATA_SOURCE_ERROR] Failed:\n{type(error).__name__}: {error}\n\tat org.apache"
    assert condition_of(PySparkException(lines)) == condition_of(error) == error.getCondition()
    assert condition_of(PySparkException("[TABLE_NOT_FOUND] No.")) is None


def test_fields_of_what_was_lost() -> None:
    lost = ONE_OF_EACH[3]
    assert lost.getMessageParameters() == {"entity": "q", "fragment": "3"}
    assert lost.words == (
        "Two are gone. Keep them, or set failOnDataLoss=false to continue with what is there."
    )


def test_every_condition_is_in_the_guide() -> None:
    guide = (ROOT / "docs" / "guides" / "spark.md").read_text(encoding="utf-8")
    for source in (ROOT / "src" / "pyspark_servicebus").rglob("*.py"):
        for name in re.findall(r'"(SERVICEBUS_[A-Z_]+)"', source.read_text(encoding="utf-8")):
            assert f"`{name}`" in guide
        kinds = r'(?:DataLoss|data_was_lost|CheckpointError)\(\s*"([A-Z_]+)"'
        for kind in re.findall(kinds, source.read_text(encoding="utf-8")):
            assert f".{kind}`" in guide
