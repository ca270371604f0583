"""Send, receive and settle by the vendor's REST documentation alone."""

import threading
from collections.abc import Callable
from email.utils import parsedate_to_datetime

import pytest

from conformance.rest.http_bus import HttpBus
from support.server import ServerProcess


@pytest.mark.rule("HTP-1", "HTP-2")
def test_send_and_receive_and_delete(bus: HttpBus, queue: str) -> None:
    sent = bus.send(queue, b"hello", headers={"Content-Type": "text/plain; charset=utf-8"})
    assert (sent.status, sent.body) == (201, b"")
    received = bus.take(queue)
    assert (received.status, received.body) == (200, b"hello")
    assert received.header("Content-Type") == "text/plain; charset=utf-8"
    assert received.broker["DeliveryCount"] == 1
    assert received.broker["State"] == "Active"
    assert received.broker["MessageId"]
    assert "LockToken" not in received.broker
    assert bus.take(queue).status == 204


@pytest.mark.rule("HTP-2", "HTP-3")
def test_lock_and_complete(bus: HttpBus, queue: str) -> None:
    bus.send(queue, b"work", {"MessageId": "one"})
    locked = bus.lock(queue)
    assert (locked.status, locked.body) == (201, b"work")
    token = locked.broker["LockToken"]
    assert locked.header("Location").endswith(f"/{queue}/messages/one/{token}")
    assert parsedate_to_datetime(locked.broker["LockedUntilUtc"]) > parsedate_to_datetime(
        locked.broker["EnqueuedTimeUtc"]
    )
    assert bus.lock(queue).status == 204
    assert bus.complete(locked) == 200
    assert bus.complete(locked) == 404
    assert bus.take(queue).status == 204


@pytest.mark.rule("HTP-3", "SEED-100")
def test_unlock_and_lock_again(bus: HttpBus, queue: str) -> None:
    bus.send(queue, b"work")
    locked = bus.lock(queue)
    assert bus.unlock(locked) == 200
    again = bus.lock(queue)
    assert again.broker["DeliveryCount"] == 2
    assert again.broker["SequenceNumber"] == locked.broker["SequenceNumber"]
    assert again.broker["LockToken"] != locked.broker["LockToken"]
    assert bus.unlock(locked) == 404
    assert bus.complete(again) == 200


@pytest.mark.rule("HTP-3", "LCK-3")
def test_a_lock_is_renewed_and_lost(bus: HttpBus, fresh: Callable[[str], str]) -> None:
    queue = fresh("brief")
    bus.send(queue, b"work")
    locked = bus.lock(queue)
    for _ in range(3):
        assert bus.renew(locked).status == 200
    # Waits for the lock to lapse, which is when the message can be had again.
    again = bus.lock(queue, timeout=30)
    assert (again.status, again.body, again.broker["DeliveryCount"]) == (201, b"work", 2)
    assert bus.renew(locked).status == 404
    assert bus.complete(locked) == 404
    assert bus.complete(again) == 200


def test_the_path_may_name_the_sequence_number(bus: HttpBus, queue: str) -> None:
    bus.send(queue, b"work", {"MessageId": "any/thing at all?"})
    locked = bus.lock(queue)
    sequence, token = locked.broker["SequenceNumber"], locked.broker["LockToken"]
    assert locked.lock_path == f"/{queue}/messages/{sequence}/{token}"
    assert bus.ask("DELETE", f"/{queue.upper()}/Messages/{sequence}/{token}").status == 200


def test_dead_letters_have_a_path(bus: HttpBus, fresh: Callable[[str], str]) -> None:
    queue = fresh("fragile")
    bus.send(queue, b"poison")
    assert bus.unlock(bus.lock(queue)) == 200
    dead = bus.lock(f"{queue}/$DeadLetterQueue", timeout=30)
    assert (dead.status, dead.body) == (201, b"poison")
    assert dead.header("DeadLetterReason") == '"MaxDeliveryCountExceeded"'
    assert dead.lock_path.startswith(f"/{queue}/$DeadLetterQueue/messages/")
    assert bus.complete(dead) == 200
    assert bus.ask("POST", f"/{queue}/$deadletterqueue/messages", b"no").status == 400


def test_a_message_that_comes_while_one_waits(bus: HttpBus, queue: str) -> None:
    answers: list[bytes] = []
    waiter = threading.Thread(target=lambda: answers.append(bus.lock(queue, timeout=60).body))
    waiter.start()
    bus.send(queue, b"awaited")
    waiter.join(60)
    assert answers == [b"awaited"]


def test_a_wait_ends_with_nothing(bus: HttpBus, queue: str) -> None:
    assert bus.lock(queue, timeout=1).status == 204
    assert bus.take(queue, timeout="0.5").status == 204


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_a_client_that_stops_waiting_loses_nothing(
    bus: HttpBus, queue: str, method: str, server: ServerProcess
) -> None:
    connections = [bus.connection() for _ in range(5)]
    for connection in connections:
        connection.request(method, f"/{queue}/messages/head?timeout=60", headers=bus.access())
    for connection in connections:
        connection.close()
    bus.send(queue, b"still there")
    # Whatever was on its way to one of them is back at once, long before a lock would lapse.
    received = bus.take(queue, timeout=20)
    assert (received.status, received.body) == (200, b"still there")


def test_many_wait_and_each_gets_one(bus: HttpBus, queue: str) -> None:
    bodies: list[bytes] = []
    waiters = [
        threading.Thread(target=lambda: bodies.append(bus.take(queue, timeout=60).body))
        for _ in range(8)
    ]
    for waiter in waiters:
        waiter.start()
    bus.send_batch(queue, *({"Body": str(n)} for n in range(8)))
    for waiter in waiters:
        waiter.join(60)
    assert sorted(bodies) == sorted(str(n).encode() for n in range(8))


@pytest.mark.rule("HTP-1")
def test_a_batch_as_documented(bus: HttpBus, fresh: Callable[[str], str]) -> None:
    queue = fresh("whole")
    sent = bus.send_batch(
        queue,
        {"Body": "first", "BrokerProperties": {"Label": "M1", "TimeToLiveTimeSpan": "0.00:00:40"}},
        {"Body": "second", "UserProperties": {"Priority": "Low"}},
        {"Body": "third", "UserProperties": {"Priority": "Medium", "Customer": "12345,ABC"}},
        {"Body": "AP8=", "IsBodyBase64Encoded": True},
    )
    assert (sent.status, sent.body) == (201, b"")
    first, second, third, fourth = bus.drain(queue)
    assert (first.body, first.broker["Label"], first.broker["TimeToLive"]) == (b"first", "M1", 40)
    assert (second.body, second.header("Priority")) == (b"second", '"Low"')
    assert (third.body, third.header("Customer")) == (b"third", '"12345,ABC"')
    assert fourth.body == b"\x00\xff"


def test_a_batch_is_stored_whole_or_not_at_all(bus: HttpBus, fresh: Callable[[str], str]) -> None:
    queue = fresh("sessions")
    good = {"Body": "good", "BrokerProperties": {"SessionId": "s"}}
    refused = bus.send_batch(queue, good, {"Body": "without a session"})
    assert refused.status == 400
    assert b"SessionId" in refused.body
    assert bus.send_batch(queue, good).status == 201


@pytest.mark.rule("SCH-1")
def test_a_message_for_later(bus: HttpBus, fresh: Callable[[str], str]) -> None:
    queue = fresh("whole")
    bus.send(queue, b"later", {"ScheduledEnqueueTimeUtc": "Fri, 01 Jan 2100 00:00:00 GMT"})
    bus.send(queue, b"past", {"ScheduledEnqueueTimeUtc": "Sun, 06 Nov 1994 08:49:37 GMT"})
    assert [answer.body for answer in bus.drain(queue)] == [b"past"]


def test_duplicates_are_dropped(bus: HttpBus, fresh: Callable[[str], str]) -> None:
    queue = fresh("once")
    for body in (b"first", b"again"):
        assert bus.send(queue, body, {"MessageId": "same"}).status == 201
    assert [answer.body for answer in bus.drain(queue)] == [b"first"]


@pytest.mark.rule("SEED-69")
def test_keep_alive_carries_many_requests(bus: HttpBus, queue: str) -> None:
    connection = bus.connection()
    for number in range(5):
        connection.request("POST", f"/{queue}/messages", str(number), bus.access())
        response = connection.getresponse()
        response.read()
        assert response.status == 201
    connection.close()
    assert len(list(bus.drain(queue))) == 5


def test_a_stop_does_not_wait_for_those_who_wait(tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("stop")
    config = directory / "namespace.toml"
    config.write_text('[[queue]]\nname = "q"\n')
    with ServerProcess(directory, config) as server:
        bus = HttpBus(server.ready.http_port)
        waiting = bus.connection()
        waiting.request("POST", "/q/messages/head?timeout=60", headers=bus.access())
        # What came to the server before is read before: now the first request waits.
        assert bus.lock("q").status == 204
        assert server.stop() == 0
        assert waiting.getresponse().status == 503
        waiting.close()
