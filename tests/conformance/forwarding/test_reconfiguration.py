"""Forwarding is switched on, off and elsewhere: every message ends in one place."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusMessage

from conformance.partitioning.operator import Operator
from conformance.settlement.bus import RECEIVE_AND_DELETE, Bus
from conformance.settlement.namespace import write_queues
from conformance.settlement.steps import until
from support.receiving import bodies, collect
from support.server import ServerProcess

_PARTED = {"enable_partitioning": "true", "partition_count": "4"}


class Changing:
    """A server whose file is changed while it does not run."""

    def __init__(self, directory: Path) -> None:
        self._config = directory / "namespace.toml"
        self.declare("")
        self.server = ServerProcess(directory, self._config, "--stores", "4", "--faults")
        self.operator = Operator(self.server)

    def declare(self, target: str) -> None:
        forwarding = {"forward_to": f'"{target}"'} if target else {}
        queues = {"one": _PARTED, "two": {}, "source": forwarding}
        write_queues(self._config, queues)

    def restart(self, target: str) -> None:
        self.declare(target)
        self.server.restart()

    def bus(self) -> Bus:
        return Bus(self.server.connection_string)


@pytest.fixture
def changing(tmp_path: Path) -> Iterator[Changing]:
    changing = Changing(tmp_path)
    with changing.server:
        yield changing


def send(changing: Changing, count: int) -> None:
    with changing.bus().client as client, client.get_queue_sender("source") as sender:
        for number in range(count):
            sender.send_messages(ServiceBusMessage(f"m{number}", partition_key=f"k{number}"))


def received(changing: Changing, queue: str, count: int) -> list[str]:
    """All that a queue has, which must be so many."""
    bus = changing.bus()
    with bus.client, bus.receiver(queue, receive_mode=RECEIVE_AND_DELETE) as receiver:
        got = bodies(collect(receiver, count))
        assert receiver.receive_messages(max_wait_time=1) == []
    return got


@pytest.mark.rule("FWD-1")
def test_what_waits_is_forwarded_when_forwarding_is_switched_on(changing: Changing) -> None:
    send(changing, 10)
    changing.restart("two")
    assert received(changing, "two", 10) == [f"m{n}" for n in range(10)]


@pytest.mark.rule("FWD-1", "TXN-17")
@pytest.mark.parametrize("target", ["", "two"])
def test_what_is_not_delivered_yet_follows_the_change(changing: Changing, target: str) -> None:
    changing.restart("one")
    operator = changing.operator
    home = operator.placement("source")[0]
    down = next(store for store in operator.placement("one") if store != home)
    operator.break_store(down)
    send(changing, 24)
    left = until("those of other stores to have gone", lambda: _stuck(operator, 24))
    changing.restart(target)
    rest = received(changing, target or "source", left)
    arrived = received(changing, "one", 24 - left)
    assert sorted(rest + arrived) == sorted(f"m{n}" for n in range(24))
    assert operator.entity("source")["totals"]["transfer"] == 0


def _stuck(operator: Operator, count: int) -> int:
    """How many are on their way, once all others have arrived."""
    left: int = operator.entity("source")["totals"]["transfer"]
    arrived: int = operator.entity("one")["totals"]["active"]
    return left if arrived and left + arrived == count else 0
