"""Clients that send more than the server can store at once, or never finish what they send.

The memory of the server stays below what it holds anyway, its limit and some slack; it answers
questions about its health meanwhile, and gives memory back to the system afterwards.
"""

import http.client
import threading
from contextlib import ExitStack

import pytest

from adversity.conftest import QUEUES, NewServer
from adversity.gauge import MEGABYTE, resident_bytes, resident_bytes_peak
from adversity.intruder import DISPOSITION, TRANSFER, Intruder, frame, transfer
from adversity.letters import letter
from adversity.victim import Victim
from adversity.waiting import wait_until
from partibus.amqp.codec.types import UInt
from partibus.domain import conditions
from partibus.gateway.gateway import PEAK_BYTES_MIN
from support.sas import sas_token

TARGET = QUEUES[0]
LIMIT_BYTES = 64 * MEGABYTE
# A read and the frame around it for each of a hundred connections, what was read and is being
# copied into its stored form, and what the allocator keeps: 0.8 MB a connection in all.
SLACK_BYTES = 80 * MEGABYTE
KEPT_BYTES = SLACK_BYTES // 4
"""What may stay: no message of a client, but tables and connections that were closed."""
SENDERS = 100
MESSAGE_BYTES = 60_000
MESSAGES_EACH = 60
HEALTH_SECONDS_MAX = 30
PART = bytes(250_000)
POSTERS = 100
POSTS_EACH = 4
POST_BODY = bytes(1_000_000)


@pytest.fixture
def server(new_server: NewServer) -> Victim:
    victim = new_server(None, "--memory-limit", str(LIMIT_BYTES))
    victim.start()
    assert_healthy(victim)
    victim.weight_bytes = resident_bytes(victim.pid)
    return victim


def assert_healthy(victim: Victim) -> None:
    asked = http.client.HTTPConnection(
        "127.0.0.1", victim.ready.http_port, timeout=HEALTH_SECONDS_MAX
    )
    asked.request("GET", "/livez")
    assert asked.getresponse().status == 200
    asked.close()


def assert_bounded(victim: Victim) -> int:
    """By how much it has grown at most."""
    growth = resident_bytes_peak(victim.pid) - victim.weight_bytes
    print(f"grew by {growth / MEGABYTE:.0f} MB")
    assert growth < LIMIT_BYTES + SLACK_BYTES, f"grew by {growth / MEGABYTE:.0f} MB"
    return growth


def assert_given_back(victim: Victim) -> None:
    wait_until(
        lambda: resident_bytes(victim.pid) - victim.weight_bytes < KEPT_BYTES,
        "memory goes back to the system",
    )


def send_all(victim: Victim, accepted: list[int]) -> None:
    """Send without waiting for credit or an outcome, then count the outcomes."""
    payload = letter("flood", MESSAGE_BYTES)
    with Intruder(victim) as intruder:
        intruder.opened().begun().attached(TARGET, sends=True)
        for number in range(MESSAGES_EACH):
            intruder.send(transfer(number, payload))
        done = 0
        while done < MESSAGES_EACH:
            fields = intruder.await_any(DISPOSITION)
            first, last = int(str(fields[1])), int(str(fields[2] or fields[1]))
            done += last - first + 1
        accepted.append(done)


def test_a_hundred_senders_of_large_messages(server: Victim) -> None:
    accepted: list[int] = []
    threads = [
        threading.Thread(target=send_all, args=(server, accepted), daemon=True)
        for _ in range(SENDERS)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert_healthy(server)
    assert sum(accepted) == SENDERS * MESSAGES_EACH
    # How much waits at once depends on the disk; after a small peak the server returns nothing.
    if assert_bounded(server) >= PEAK_BYTES_MIN + KEPT_BYTES:
        assert_given_back(server)


def post_all(victim: Victim, statuses: list[int]) -> None:
    """Send over HTTP; who is asked to come again does, until all is stored."""
    token = sas_token(f"sb://127.0.0.1:{victim.ready.amqp_port}/")
    posting = http.client.HTTPConnection(
        "127.0.0.1", victim.ready.http_port, timeout=HEALTH_SECONDS_MAX
    )
    stored = 0
    while stored < POSTS_EACH:
        posting.request("POST", f"/{TARGET}/messages", POST_BODY, {"authorization": token})
        answer = posting.getresponse()
        text = answer.read()
        statuses.append(answer.status)
        if answer.status == 503:
            assert answer.headers["retry-after"], text
            posting.close()
        stored += answer.status == 201
    posting.close()


def test_large_sends_over_http(server: Victim) -> None:
    statuses: list[int] = []
    threads = [
        threading.Thread(target=post_all, args=(server, statuses), daemon=True)
        for _ in range(POSTERS)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert_healthy(server)
    assert set(statuses) <= {201, 503}
    assert statuses.count(201) == POSTERS * POSTS_EACH
    assert_bounded(server)
    assert_given_back(server)


def test_messages_that_are_never_finished(server: Victim) -> None:
    """Four clients hold back the end of messages of nearly a megabyte on many links each."""
    links = 60
    with ExitStack() as stack:
        intruders = [stack.enter_context(Intruder(server)) for _ in range(4)]
        for intruder in intruders:
            intruder.opened().begun()
            for handle in range(links):
                intruder.attached(TARGET, sends=True, handle=handle)
            for handle in range(links):
                intruder.send(transfer(handle, PART, more=True, handle=handle))
                for _ in range(2):
                    more = frame(TRANSFER, UInt(handle), None, None, None, None, True, payload=PART)
                    intruder.send(more)
        assert_healthy(server)
        # Those for which there was no room hear of it at their end, and may try again.
        outcomes = []
        for handle in range(links):
            end = frame(TRANSFER, UInt(handle), None, None, None, None, False, payload=b"")
            intruders[-1].send(end)
            outcomes.append(repr(intruders[-1].await_any(DISPOSITION)))
        busy = [text for text in outcomes if conditions.MICROSOFT_SERVER_BUSY in text]
        assert busy, outcomes[0]
    assert_bounded(server)
    assert_given_back(server)
