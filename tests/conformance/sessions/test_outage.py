"""Sessions while one store of four is down: those in it fail, the others go on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from azure.servicebus.exceptions import ServiceBusServerBusyError

from conformance.partitioning.operator import Operator
from conformance.partitioning.outages import lost_and_kept, outage
from conformance.partitioning.partitions import keys_in
from conformance.sessions.bus import SessionBus
from conformance.settlement.bus import Closing
from conformance.settlement.namespace import write_queues
from support.receiving import collect
from support.server import ServerProcess

pytestmark = pytest.mark.group("proton")

PARTITIONS = 4
QUEUE = "sessions"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    properties = {
        "enable_partitioning": "true",
        "partition_count": str(PARTITIONS),
        "requires_session": "true",
    }
    config = write_queues(tmp_path / "namespace.toml", {QUEUE: properties})
    with ServerProcess(tmp_path, config, "--stores", "4", "--faults") as process:
        yield process


@pytest.fixture
def operator(server: ServerProcess) -> Operator:
    return Operator(server)


@pytest.fixture
def bus(server: ServerProcess) -> Iterator[SessionBus]:
    closing = Closing()
    bus = SessionBus(server.connection_string)
    yield bus
    closing.close(bus.client)
    closing.finish()


@pytest.fixture
def lost_and_kept_session(operator: Operator) -> tuple[str, str]:
    """A session in the store that fails, and one elsewhere."""
    lost, kept = lost_and_kept(operator, QUEUE)
    [lost_id] = keys_in(min(lost), PARTITIONS, 1)
    [kept_id] = keys_in(min(kept), PARTITIONS, 1)
    return lost_id, kept_id


@pytest.mark.rule("PAV-3", "SEED-57", "SEED-58", "SEED-59")
def test_a_session_of_the_store_that_is_down_is_refused_and_others_are_given(
    bus: SessionBus, operator: Operator, lost_and_kept_session: tuple[str, str]
) -> None:
    lost_id, kept_id = lost_and_kept_session
    bus.send(QUEUE, (lost_id, "waits longest"), (kept_id, "waits less"))
    with outage(operator):
        with pytest.raises(ServiceBusServerBusyError):
            bus.accept(QUEUE, lost_id)
        # The next available one is that of a healthy store, though the other has waited longer.
        receiver = bus.accept(QUEUE)
        assert receiver.session.session_id == kept_id
        [message] = collect(receiver, 1)
        receiver.complete_message(message)
        with pytest.raises(ServiceBusServerBusyError):
            bus.send(QUEUE, (lost_id, "cannot be stored"))
    after = bus.accept(QUEUE, lost_id)
    assert [str(message) for message in collect(after, 1)] == ["waits longest"]


@pytest.mark.rule("PAV-3", "PAV-4")
def test_the_state_and_the_lock_of_a_held_session_fail_until_its_store_is_back(
    bus: SessionBus, operator: Operator, lost_and_kept_session: tuple[str, str]
) -> None:
    lost_id, _ = lost_and_kept_session
    bus.send(QUEUE, *((lost_id, str(number)) for number in range(3)))
    receiver = bus.accept(QUEUE, lost_id)
    receiver.session.set_state("before")
    [message] = collect(receiver, 1)
    with outage(operator):
        with pytest.raises(ServiceBusServerBusyError):
            receiver.session.set_state("meanwhile")
        with pytest.raises(ServiceBusServerBusyError):
            receiver.session.get_state()
        with pytest.raises(ServiceBusServerBusyError):
            receiver.session.renew_lock()
        with pytest.raises(ServiceBusServerBusyError):
            receiver.complete_message(message)
    assert receiver.session.get_state() == b"before"
    receiver.session.renew_lock()
    receiver.complete_message(message)
    assert [str(later) for later in collect(receiver, 2)] == ["1", "2"]
