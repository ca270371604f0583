"""Queues through Qpid JMS."""

import pytest

from conformance.jms.conftest import JavaHost

pytestmark = pytest.mark.group("jms")


def test_a_program_sends_receives_and_acknowledges(java: JavaHost, url: str, queue: str) -> None:
    assert java.run("QueueProgram", url, queue) == [
        "message 1 1",
        "message 2 2",
        "message 3 3",
        "left: null",
    ]
