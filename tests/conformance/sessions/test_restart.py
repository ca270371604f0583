"""Sessions over the end of a server: messages, order and state stay, locks do not."""

from pathlib import Path

import pytest

from conformance.sessions.bus import SessionBus
from conformance.settlement.namespace import write_queues
from support.receiving import bodies, collect
from support.server import ServerProcess

QUEUES = {
    "whole": {"requires_session": "true"},
    "parted": {"requires_session": "true", "enable_partitioning": "true"},
}


@pytest.mark.rule("SES-17", "SEED-31", "SEED-107")
@pytest.mark.parametrize("is_killed", [True, False])
@pytest.mark.parametrize("queue", QUEUES)
def test_messages_order_and_state_stay(tmp_path: Path, queue: str, is_killed: bool) -> None:
    with ServerProcess(tmp_path, write_queues(tmp_path / "queues.toml", QUEUES)) as server:
        bus = SessionBus(server.connection_string)
        bus.send(queue, *[("ab"[n % 2], str(n)) for n in range(8)])
        receiver = bus.accept(queue, "a")
        receiver.session.set_state(b"two done")
        for message in collect(receiver, 3)[:2]:
            receiver.complete_message(message)
        if is_killed:
            server.sigkill()
        else:
            server.stop()
        server.start()
        again = SessionBus(server.connection_string)
        receiver = again.accept(queue, "a")
        assert receiver.session.get_state() == b"two done"
        messages = collect(receiver, 2)
        assert bodies(messages) == ["4", "6"]
        assert [message.delivery_count for message in messages] == [0, 0]
        assert bodies(collect(again.accept(queue), 4)) == ["1", "3", "5", "7"]
        assert sorted(again.client.list_queue_sessions(queue)) == ["a", "b"]
        again.client.close()
        bus.client.close()


@pytest.mark.rule("SES-17", "SEED-31")
@pytest.mark.parametrize("queue", QUEUES)
def test_the_session_without_a_name_stays(tmp_path: Path, queue: str) -> None:
    with ServerProcess(tmp_path, write_queues(tmp_path / "queues.toml", QUEUES)) as server:
        bus = SessionBus(server.connection_string)
        bus.send(queue, ("", "1"), ("named", "x"), ("", "2"), ("", "3"))
        receiver = bus.accept(queue, "")
        receiver.session.set_state(b"one done")
        receiver.complete_message(collect(receiver, 1)[0])
        server.sigkill()
        server.start()
        again = SessionBus(server.connection_string)
        assert sorted(again.client.list_queue_sessions(queue)) == ["", "named"]
        receiver = again.accept(queue, "")
        assert receiver.session.get_state() == b"one done"
        assert bodies(collect(receiver, 2)) == ["2", "3"]
        assert bodies(collect(again.accept(queue, "named"), 1)) == ["x"]
        again.client.close()
        bus.client.close()
