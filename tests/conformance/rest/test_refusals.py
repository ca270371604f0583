"""What is refused over REST: the status that is documented, and words that say what to do."""

import socket
from collections.abc import Callable
from functools import partial

import pytest

from adversity.waiting import wait_until
from conformance.rest.http_bus import BATCH_TYPE, TIMEOUT_SECONDS, HttpBus
from support.sas import sas_token
from support.server import ServerProcess

ANY_LOCK = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
def whole(fresh: Callable[[str], str]) -> str:
    return fresh("whole")


@pytest.mark.rule("HTP-4", "SAS-6")
def test_who_may_do_what(bus: HttpBus, server: ServerProcess, whole: str) -> None:
    port = server.ready.http_port
    sender = HttpBus(port, policy="Sender", key="sender-key")
    listener = HttpBus(port, policy="Listener", key="listener-key")
    assert sender.send(whole, b"x").status == 201
    assert sender.lock(whole).status == 401
    locked = listener.lock(whole)
    assert locked.status == 201
    assert listener.send(whole, b"x").status == 401
    assert (sender.complete(locked), sender.unlock(locked)) == (401, 401)
    assert listener.complete(locked) == 200


@pytest.mark.rule("HTP-4")
def test_tokens_that_do_not_do(bus: HttpBus, whole: str) -> None:
    place = "http://localhost/"
    refused = {
        "none": "",
        "a bearer's": "Bearer abc.def.ghi",
        "wrong key": sas_token(place, key="wrong"),
        "expired": sas_token(place, lifetime_seconds=-60),
        "of another queue": sas_token(f"{place}another"),
        "garbage": "SharedAccessSignature sr=x",
    }
    for what, token in refused.items():
        answer = bus.ask("POST", f"/{whole}/messages", b"x", token=token)
        assert answer.status == 401, what
        assert answer.body.startswith(b"<Error><Code>401</Code><Detail>"), what
        assert b"TrackingId:" in answer.body
    good = sas_token(f"{place}{whole}")
    assert bus.ask("POST", f"/{whole}/messages", b"x", token=good).status == 201


@pytest.mark.rule("HTP-1", "SAS-6")
def test_tokens_signed_for_the_address_of_a_request(
    bus: HttpBus, fresh: Callable[[str], str]
) -> None:
    queue, other = fresh("whole"), fresh("whole")

    def status(method: str, path: str, resource: str) -> int:
        token = sas_token(f"http://localhost/{resource}")
        return bus.ask(method, f"/{path}", b"x", token=token).status

    assert status("POST", f"{queue}/messages", f"{queue}/messages") == 201
    assert status("POST", f"{queue}/messages", f"{queue}/Messages?api-version=2015-01") == 201
    head = f"{queue}/messages/head"
    locked = bus.ask("POST", f"/{head}?timeout=0", token=sas_token(f"http://localhost/{head}"))
    assert locked.status == 201
    assert status("DELETE", locked.lock_path[1:], locked.lock_path[1:]) == 200
    assert status("DELETE", f"{head}?timeout=0", f"{head}?timeout=0") == 200
    for resource in (f"{other}/messages", f"{queue}/message", f"{queue}/messages/a/b/c"):
        assert status("POST", f"{queue}/messages", resource) == 401, resource
    dead = f"{queue}/$deadletterqueue/messages/head"
    assert status("DELETE", f"{dead}?timeout=0", dead) == 204
    assert status("DELETE", f"{head}?timeout=0", dead) == 401, "the queue is not its dead letters"


@pytest.mark.rule("HTP-5")
@pytest.mark.parametrize("path", ["messages", "messages/head", "messages?api-version=2021-05"])
def test_messages_are_not_read_with_get(bus: HttpBus, whole: str, path: str) -> None:
    answer = bus.ask("GET", f"/{whole}/{path}")
    assert answer.status == 405
    assert b"POST to ENTITY/messages/head" in answer.body


@pytest.mark.rule("HTP-4")
@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_a_missing_entity_is_gone(bus: HttpBus, method: str) -> None:
    answer = bus.ask(method, "/no-such-queue/messages/head?timeout=0")
    assert answer.status == 410
    assert b"could not be found" in answer.body
    assert bus.send("no-such-queue", b"x").status == 410
    assert bus.ask("PUT", f"/no-such-queue/messages/1/{ANY_LOCK}").status == 410


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_a_lock_that_never_was(bus: HttpBus, whole: str, method: str) -> None:
    assert bus.ask(method, f"/{whole}/messages/1/{ANY_LOCK}").status == 404
    assert bus.ask(method, f"/{whole}/messages/1/not-a-token").status == 400


@pytest.mark.rule("HTP-5")
def test_sessions_are_not_received(bus: HttpBus, fresh: Callable[[str], str]) -> None:
    queue = fresh("sessions")
    assert bus.send(queue, b"x", {"SessionId": "s"}).status == 201
    assert bus.send(queue, b"x").status == 400
    for answer in (bus.lock(queue), bus.take(queue)):
        assert answer.status == 400
        assert b"sessions" in answer.body
    assert bus.lock(f"{queue}/$deadletterqueue").status == 204


def test_entities_that_are_disabled(bus: HttpBus, fresh: Callable[[str], str]) -> None:
    assert bus.send(fresh("closed"), b"x").status == 403
    assert bus.lock(fresh("disabled")).status == 403


@pytest.mark.rule("HTP-4")
def test_a_message_that_is_too_large(bus: HttpBus, whole: str) -> None:
    assert bus.send(whole, bytes(1_000_000)).status == 201
    answer = bus.send(whole, bytes(1_100_000))
    assert answer.status == 403
    assert b"larger than" in answer.body
    # The body fits, the message with its properties does not.
    assert bus.send(whole, bytes(1_048_500), {"Label": "x" * 500}).status == 403
    batch = [{"Body": "x" * 600_000}, {"Body": "x" * 600_000}]
    assert bus.send_batch(whole, *batch).status == 403


def test_a_request_that_is_too_large(bus: HttpBus, whole: str) -> None:
    headers = {"Content-Type": BATCH_TYPE}
    answer = bus.ask("POST", f"/{whole}/messages", b" " * 3_000_000, headers)
    assert answer.status == 413


@pytest.mark.parametrize(
    "properties",
    [
        "not JSON",
        "[]",
        '"text"',
        '{"TimeToLive": "soon"}',
        '{"TimeToLive": -1}',
        '{"TimeToLive": true}',
        '{"MessageId": {}}',
        '{"MessageId": 5}',
        '{"Label": 1.5}',
        '{"PartitionKey": true}',
        '{"TimeToLiveTimeSpan": 40}',
        '{"ScheduledEnqueueTimeUtc": 1700000000}',
        '{"MessageId": ["x"]}',
        '{"MessageId": "\\ud800"}',
        '{"ScheduledEnqueueTimeUtc": "tomorrow"}',
        '{"ScheduledEnqueueTimeUtc": 5}',
        '{"SessionId": "a", "PartitionKey": "b"}',
        '{"MessageId": "' + "x" * 200 + '"}',
        "[" * 10_000,
    ],
)
def test_broker_properties_that_make_no_sense(bus: HttpBus, whole: str, properties: str) -> None:
    answer = bus.send(whole, b"x", headers={"BrokerProperties": properties})
    assert answer.status == 400, answer.body
    assert answer.body.startswith(b"<Error><Code>400</Code><Detail>")
    assert bus.take(whole).status == 204


@pytest.mark.parametrize(
    "batch",
    [
        b"",
        b"{}",
        b"[]",
        b"not JSON",
        b"[1]",
        b'[{"Body": 1}]',
        b'[{"Body": "\\ud800"}]',
        b'[{"Body": "!", "IsBodyBase64Encoded": true}]',
        b'[{"Body": "x", "UserProperties": []}]',
        b'[{"Body": "x", "UserProperties": {"a": [1]}}]',
        b'[{"Body": "x", "UserProperties": {"a": 99999999999999999999999}}]',
        b'[{"Body": "x", "BrokerProperties": 1}]',
        b'[{"Body": "\\ud800"}]',
        b'[{"Body": "x", "BrokerProperties": {"Label": "\\ud800"}}]',
        b'[{"Body": "x", "UserProperties": {"p": "\\ud800"}}]',
        b'[{"Body": "x", "UserProperties": {"\\ud800": 1}}]',
        b'[{"Body": "x", "UserProperties": {"\\ud800": []}}]',
        b'[{"Body": "\xc3\xa4", "IsBodyBase64Encoded": true}]',
        b"[" + b"{}," * 5000 + b"{}]",
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_batches_that_make_no_sense(bus: HttpBus, whole: str, batch: bytes) -> None:
    answer = bus.ask("POST", f"/{whole}/messages", batch, {"Content-Type": BATCH_TYPE})
    assert answer.status == 400, answer.body
    assert bus.take(whole).status == 204


def test_a_batch_type_with_parameters(bus: HttpBus, whole: str) -> None:
    headers = {"Content-Type": f"{BATCH_TYPE}; charset=utf-8"}
    answer = bus.ask("POST", f"/{whole}/messages", b"[]", headers)
    assert answer.status == 400
    assert b"without parameters" in answer.body


@pytest.mark.parametrize("timeout", ["soon", "-1", "1e3", "", "9" * 50])
def test_timeouts_that_make_no_sense(bus: HttpBus, whole: str, timeout: str) -> None:
    assert bus.lock(whole, timeout).status == 400


def test_paths_that_are_not_ours(bus: HttpBus, whole: str) -> None:
    assert bus.ask("GET", f"/{whole}/messages").status in (404, 405)
    assert bus.ask("POST", f"/{whole}/letters").status == 404
    assert bus.ask("POST", "/messages", b"x").status == 404
    assert bus.ask("POST", f"/{whole}/$management/messages", b"x").status == 410
    assert bus.ask("POST", "/$cbs/messages", b"x").status == 410


@pytest.mark.rule("THR-1")
def test_a_throttled_sender_is_told_when_to_come_back(bus: HttpBus, whole: str) -> None:
    fault = b'{"kind": "throttle", "entity": "%s", "rate_per_s": 1}' % whole.encode()
    assert bus.ask("POST", "/$partibus/faults", fault).status == 200
    try:
        answers = [bus.send(whole, b"x") for _ in range(5)]
    finally:
        bus.ask("DELETE", "/$partibus/faults")
    refused = [answer for answer in answers if answer.status == 429]
    assert refused
    assert refused[0].header("retry-after") == "2"
    assert sum(answer.status == 201 for answer in answers) == len(list(bus.drain(whole)))


def takes(bus: HttpBus, queue: str) -> bool:
    return bus.send(queue, b"x").status == 201


def test_clients_read_the_number_of_a_store_and_not_its_place(
    bus: HttpBus, server: ServerProcess, fresh: Callable[[str], str]
) -> None:
    down = b'{"kind": "store", "store": 0, "mode": "down"}'
    assert bus.ask("POST", "/$partibus/faults", down).status == 200
    queues = [fresh("whole") for _ in range(8)]
    try:
        answers = [bus.send(queue, b"x") for queue in queues]
    finally:
        bus.ask("DELETE", "/$partibus/faults")
        for queue in queues:
            wait_until(partial(takes, bus, queue), "the store is up")
    refused = [answer.body.decode() for answer in answers if answer.status == 503]
    assert refused
    assert all("Store 0 is down" in text for text in refused), refused
    assert not any(str(server.data) in text for text in refused)
    assert str(server.data) in server.log_text(), "the log names the place"


@pytest.mark.rule("PAV-1", "PAV-2")
def test_a_store_that_is_down(bus: HttpBus, fresh: Callable[[str], str]) -> None:
    """Messages without a key go round it; those with a key of it are refused, to come again."""
    queue = fresh("parts")
    down = b'{"kind": "store", "store": 0, "mode": "down"}'
    assert bus.ask("POST", "/$partibus/faults", down).status == 200
    try:
        assert {bus.send(queue, b"round it").status for _ in range(8)} == {201}
        keyed = [bus.send(queue, b"keyed", {"PartitionKey": f"key-{n}"}) for n in range(16)]
        assert {answer.status for answer in keyed} == {201, 503}
        refused = next(answer for answer in keyed if answer.status == 503)
        assert refused.header("retry-after") == "2"
        stored = 8 + sum(answer.status == 201 for answer in keyed)
        assert [bus.take(queue).status for _ in range(stored + 1)] == [200] * stored + [204]
    finally:
        bus.ask("DELETE", "/$partibus/faults")
        wait_until(lambda: b"down" not in bus.ask("GET", "/$partibus/stores").body, "it is up")


@pytest.mark.parametrize(
    "request_text",
    [
        b"POST /q/messages HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /q/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"POST /q/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /q/messages HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 60_000 + b"\r\n\r\n",
        b"POST /\xff\xfe/messages HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_broken_http_ends_its_own_connection_only(
    server: ServerProcess, bus: HttpBus, whole: str, request_text: bytes
) -> None:
    address = ("localhost", server.ready.http_port)
    with socket.create_connection(address, timeout=TIMEOUT_SECONDS) as stranger:
        stranger.sendall(request_text)
        assert b" 40" in stranger.recv(4096)
    assert bus.send(whole, b"unharmed").status == 201


def test_a_body_that_stops_half_way_is_not_stored(
    server: ServerProcess, bus: HttpBus, whole: str
) -> None:
    address = ("localhost", server.ready.http_port)
    head = f"POST /{whole}/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"
    head += f"Authorization: {bus.access()['Authorization']}\r\n\r\n"
    with socket.create_connection(address, timeout=TIMEOUT_SECONDS) as stranger:
        stranger.sendall(head.encode() + b"half a")
    assert bus.send(whole, b"whole").status == 201
    assert [answer.body for answer in bus.drain(whole)] == [b"whole"]
