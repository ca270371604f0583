"""What one turn of the loop handles, counted in reads, bytes and messages."""

import logging

import pytest

from partibus.amqp.events import DispositionReceived, TransferReceived
from partibus.amqp.terminus import encode_source, encode_target
from partibus.gateway.reading_turns import (
    GREETING_COST,
    LARGE_READ_BYTES,
    PIECE_EVENTS,
    READ_COST,
    RESUMES_PER_TURN,
    TURN_WORK,
)
from partibus.testing.bus import BusBench, ClientBench
from support.gateway.messages import plain

READ_BYTES = 256 * 1024
"""The most that the loop takes from a socket at once."""


@pytest.fixture
def bus() -> BusBench:
    made = BusBench()
    made.queue("q")
    return made


def senders(bus: BusBench, count: int, size: int, each: int = 1) -> list[ClientBench]:
    """Clients that have something to say which nobody has read yet."""
    clients = [bus.client() for _ in range(count)]
    for client in clients:
        link = client.attach("q", sends=True)
        for _ in range(each):
            link.send(plain(0, size=size), b"t", False, 0, None)
    bus.scheduler.run()
    return clients


def bring_all(clients: list[ClientBench]) -> int:
    """All are readable at once, one poll of the loop; how many bytes they bring."""
    total = 0
    for client in clients:
        data = client.engine.data_to_send()
        total += len(data)
        for at in range(0, len(data), READ_BYTES):
            client.connection.data_received(data[at : at + READ_BYTES])
    return total


def waiting(clients: list[ClientBench]) -> list[int]:
    """What each has brought that is not handled yet."""
    return [client.connection._intake.waiting_bytes for client in clients]


def test_many_small_reads_are_spread_over_turns(bus: BusBench) -> None:
    most = TURN_WORK // READ_COST
    clients = senders(bus, 3 * most, 100)
    bring_all(clients)
    handled = [waiting(clients).count(0)]
    for _ in range(2):
        bus.gateway.turns._turn()
        handled.append(waiting(clients).count(0) - sum(handled))
    assert all(0 < count <= most for count in handled)
    bus.scheduler.run()
    assert not any(waiting(clients))
    for client in clients:
        client.run()
        assert client.take(DispositionReceived)
        assert client.is_reading


def test_clients_that_connect_all_at_once_are_let_in_a_few_at_a_time(bus: BusBench) -> None:
    most = TURN_WORK // GREETING_COST
    clients = [bus.client() for _ in range(3 * most)]
    bus.scheduler.run()
    for client in clients:
        source, target = encode_source("q"), encode_target("client")
        client.session.attach("x", is_sender=False, source=source, target=target)
    bring_all(clients)
    first = waiting(clients).count(0)
    bus.gateway.turns._turn()
    second = waiting(clients).count(0) - first
    assert 0 < first <= most
    assert 0 < second <= most


def test_bytes_handled_in_a_turn_are_bounded(bus: BusBench) -> None:
    clients = senders(bus, 20, 60_000, each=4)
    left = bring_all(clients)
    for _ in range(len(clients)):
        handled = left - sum(waiting(clients))
        assert handled <= TURN_WORK + READ_BYTES
        left -= handled
        bus.gateway.turns._turn()
    assert left == 0


def test_few_sockets_are_read_again_in_a_turn(bus: BusBench) -> None:
    clients = senders(bus, RESUMES_PER_TURN + 3, LARGE_READ_BYTES)
    bring_all(clients)
    bus.gateway.turns._turn()
    assert [client.is_reading for client in clients] == [True] * RESUMES_PER_TURN + [False] * 3
    bus.scheduler.run()
    assert all(client.is_reading for client in clients)


def test_what_waits_is_in_the_account_and_its_socket_is_not_read(bus: BusBench) -> None:
    clients = senders(bus, 20, 60_000, each=4)
    brought = bring_all(clients)
    last = clients[-1]
    assert waiting([last]) == [brought // 20]
    assert not last.is_reading
    assert bus.gateway.memory.held_bytes >= 20 * 4 * 60_000
    bus.scheduler.run()
    assert last.is_reading
    assert bus.gateway.memory.held_bytes == 0


def test_small_messages_of_one_read_are_handled_in_pieces(bus: BusBench) -> None:
    count = 400
    [client] = senders(bus, 1, 20, each=count)
    bring_all([client])  # It is not known yet that its messages are small.
    client.run()
    [link] = [link for link in client.session.links.values() if link.is_sender]
    for _ in range(count):
        link.send(plain(0, size=20), b"t", False, 0, None)
    brought = left = bring_all([client])
    assert waiting([client]) == [brought]
    pieces = []
    while left:
        bus.gateway.turns._turn()
        pieces.append((left - waiting([client])[0]) * count // brought)
        left = waiting([client])[0]
    assert len(pieces) > 1
    assert all(0 < messages <= PIECE_EVENTS + 1 for messages in pieces)
    client.run()
    settled = 0
    for event in client.take(DispositionReceived):
        assert isinstance(event, DispositionReceived)
        settled += len(event.deliveries)
    assert settled == 2 * count


def test_what_a_client_sent_before_it_left_is_stored(bus: BusBench) -> None:
    clients = senders(bus, 2 * TURN_WORK // READ_COST, 100)
    bring_all(clients)
    assert any(waiting(clients))
    for client in clients:
        client.connection.connection_lost()
    bus.scheduler.run()
    assert bus.gateway.connection_count == 0
    assert bus.gateway.memory.held_bytes == 0
    reader = bus.client()
    reader.attach("q", sends=False).set_credit(len(clients) + 1)
    reader.run()
    assert len(reader.take(TransferReceived)) == len(clients)


def test_a_client_whose_bytes_cannot_be_handled_is_cut_off_and_the_others_go_on(
    bus: BusBench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clients = senders(bus, 20, 60_000, each=4)
    broken = clients[-1]
    broken.session.attach(
        "x", is_sender=False, source=encode_source("q"), target=encode_target("client")
    )
    bring_all(clients)
    assert waiting([broken]) != [0]
    monkeypatch.setattr(broken, "write", lambda data: 1 // 0)
    with caplog.at_level(logging.ERROR):
        bus.gateway.turns._turn()
        while any(waiting(clients)):
            bus.gateway.turns._turn()
    assert "could not be processed" in caplog.text
    assert broken.is_cut
    monkeypatch.undo()
    bus.scheduler.run()
    assert all(client.is_reading for client in clients[:-1])


def test_bytes_that_come_after_the_end_of_a_connection_are_not_held(bus: BusBench) -> None:
    """A loop that stood still brings them when the idle time-out has struck already."""
    client = senders(bus, 1, 100)[0]
    client.run()
    data = client.engine.data_to_send() or b"anything"
    client.connection._finish()
    bus.gateway.turns.spend(TURN_WORK)
    client.connection.data_received(data)
    assert waiting([client]) == [0]
    assert bus.gateway.memory.held_bytes == 0
