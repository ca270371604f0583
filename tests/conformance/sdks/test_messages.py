"""Messages of a queue, sent, received and settled by the clients of other languages."""

import pytest

from conformance.sdks.conftest import Fresh
from conformance.sdks.drivers import Sdk
from conformance.sdks.operations import operation

DEFERRED = 1
SCHEDULED = 2
# What the clients call a lost lock.
LOST = ("locklost", "MESSAGE_LOCK_LOST", "410")


@operation("send", "Go", "Java", "Java async", "Rust")
@pytest.mark.rule("MSG-1", "MSG-2", "SEED-82")
def test_a_message_comes_back_with_its_properties(sdk: Sdk, queue: str) -> None:
    assert sdk.run("send", queue=queue) == {
        "body": "first",
        "messageId": "the-id",
        "contentType": "text/plain",
        "correlationId": "the-correlation",
        "subject": "the-subject",
        "to": "the-destination",
        "replyTo": "the-reply",
        "timeToLiveSeconds": 3600,
        "properties": {"text": "grüße", "number": -7, "fraction": 1.5, "yes": True},
    }


@operation("batch", "Go", "Java", "Java async", "Rust")
@pytest.mark.rule("SEED-82", "TXN-15")
def test_a_batch(sdk: Sdk, queue: str) -> None:
    assert sdk.run("batch", queue=queue, count=20) == [str(number) for number in range(20)]


@operation("large message", "Go", "Java", "Java async", "Rust")
@pytest.mark.rule("MSG-3")
def test_a_message_over_several_frames(sdk: Sdk, queue: str) -> None:
    assert sdk.run("large", queue=queue, size=1_000_000) == {"length": 1_000_000, "same": True}


@operation("receive and complete", "Go", "Java", "Java async", "Java processor", "Rust")
@pytest.mark.rule("SEED-94", "SEED-99")
def test_complete(sdk: Sdk, queue: str) -> None:
    assert sdk.run("complete", queue=queue) == {"bodies": ["one", "two"], "left": 0}


@operation("receive and delete", "Go", "Java", "Java async", "Java processor", "Rust")
@pytest.mark.rule("SEED-93")
def test_receive_and_delete(sdk: Sdk, queue: str) -> None:
    assert sdk.run("receiveAndDelete", queue=queue) == {"bodies": ["one", "two"], "left": 0}


@operation("abandon", "Go", "Java", "Java async", "Java processor", "Rust")
@pytest.mark.rule("SEED-100", "DLV-1", "LCK-10")
def test_abandon(sdk: Sdk, queue: str) -> None:
    assert sdk.run("abandon", queue=queue) == {
        "deliveryCounts": [0, 1],
        "same": True,
        "properties": {"tries": 1},
    }


@operation("dead-letter, read dead letters", "Go", "Java", "Java async", "Java processor", "Rust")
@pytest.mark.rule("SEED-101", "DLQ-5")
def test_dead_letter(sdk: Sdk, queue: str) -> None:
    assert sdk.run("deadLetter", queue=queue) == {
        "body": "bad",
        "reason": "Unreadable",
        "description": "not JSON",
        "tenant": "a",
    }


@operation(
    "defer, receive by sequence number", "Go", "Java", "Java async", "Java processor", "Rust"
)
@pytest.mark.rule("DEF-1", "DEF-2")
def test_deferral(sdk: Sdk, queue: str) -> None:
    result = sdk.run("deferral", queue=queue)
    assert result == {"bodies": ["later"], "state": DEFERRED, "left": 0}


@operation("renew a lock", "Go", "Java", "Java async", "Rust")
@pytest.mark.rule("SEED-95", "LCK-3")
def test_a_lock_is_renewed(sdk: Sdk, queue: str) -> None:
    assert sdk.run("renewLock", queue=queue) == {"later": True}


@operation("lost lock reported", "Go", "Java", "Java async", "Rust")
@pytest.mark.rule("SEED-103", "LCK-5", "ERR-4")
def test_a_lost_lock_is_reported_as_such(sdk: Sdk, fresh: Fresh) -> None:
    assert sdk.failure("lockLost", queue=fresh(lock_duration="PT1S")) in LOST


@operation("peek", "Go", "Java", "Java async", "Rust")
@pytest.mark.rule("PEK-1")
def test_peek(sdk: Sdk, queue: str) -> None:
    assert sdk.run("peek", queue=queue) == [["one", "two"], ["two", "three"]]


@operation("schedule, cancel", "Go", "Java", "Java async", "Rust")
@pytest.mark.rule("SCH-1", "SCH-2")
def test_schedule_and_cancel(sdk: Sdk, queue: str) -> None:
    assert sdk.run("schedule", queue=queue) == {
        "waiting": ["much later"],
        "state": SCHEDULED,
        "due": ["soon"],
        "numbered": True,
    }
