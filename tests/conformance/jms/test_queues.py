"""Queues through Qpid JMS: the programs of a tutorial, and what they print."""

import pytest

from conformance.jms.conftest import JavaHost
from support.namespace import Queues
from support.server import ServerProcess

pytestmark = pytest.mark.group("jms")


def test_a_program_sends_receives_and_acknowledges(java: JavaHost, url: str, queue: str) -> None:
    assert java.run("QueueProgram", url, queue) == [
        "message 1 1",
        "message 2 2",
        "message 3 3",
        "left: null",
    ]


def test_every_type_of_message(java: JavaHost, url: str, queue: str) -> None:
    assert java.run("MessageTypes", url, queue) == [
        "3",
        "1 zwei",
        "true 2.5",
        "[a, b]",
        f"text greeting c-1 true group {1 << 40} 7",
        "true 2",
        "left: null",
    ]


@pytest.mark.rule("JMS-7")
@pytest.mark.parametrize("count", [4, 250])
def test_a_browser_takes_nothing(java: JavaHost, url: str, queue: str, count: int) -> None:
    assert java.run("BrowserProgram", url, queue, str(count)) == [
        "empty: 0",
        f"all: {count}",
        f"even more: {count - 3}",
        f"received: {count}",
        "after: 0",
    ]


@pytest.mark.rule("JMS-9", "TXN-2", "TXN-5")
def test_a_transacted_session(java: JavaHost, url: str, queues: Queues) -> None:
    orders, invoices = queues.fresh(), queues.fresh()
    assert java.run("TransactionProgram", url, orders, invoices) == [
        "received two",
        "again two true",
        "invoice of two",
        "left: null",
        "three",
        "left: null",
    ]


@pytest.mark.rule("JMS-6")
def test_a_request_and_its_reply(java: JavaHost, url: str, queue: str) -> None:
    assert java.run("RequestReply", url, queue) == ["re: how are you? true", "hello", "gone"]


@pytest.mark.rule("JMS-8", "TTL-1")
def test_delay_and_time_to_live(java: JavaHost, url: str, queue: str) -> None:
    assert java.run("TimeProgram", url, queue) == ["at once", "delayed", "due: true", "left: null"]


@pytest.mark.rule("JMS-5")
def test_a_consumer_with_a_selector(java: JavaHost, url: str, queue: str) -> None:
    assert java.run("QueueSelector", url, queue) == [
        "even m0",
        "even m2",
        "again m0 true",
        "even m4",
        "late m8",
        "rest m1 m3 m5 m7",
        "left: null",
    ]


@pytest.mark.rule("JMS-10")
@pytest.mark.parametrize("closed", ["consumer", "session", "connection"])
def test_what_was_fetched_ahead_goes_to_the_next_consumer(
    java: JavaHost, url: str, queue: str, closed: str
) -> None:
    rest = [f"m{number} false" for number in range(1, 5)]
    assert java.run("Prefetched", url, queue, closed) == ["m0", *rest]


@pytest.mark.rule("JMS-11")
def test_a_provider_makes_what_is_missing(java: JavaHost, url: str, server: ServerProcess) -> None:
    assert java.run("ProviderProgram", url, "made") == ["missing", "hello", "news"]
    assert java.run("QueueProgram", url, "made-queue")[-1] == "left: null"
