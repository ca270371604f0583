"""What one turn of the loop handles, counted in reads, bytes and messages."""

import logging

import pytest

from partibus.amqp.events import DispositionReceived
from partibus.amqp.terminus import encode_source, encode_target
from partibus.gateway.connection import ClientConnection
from partibus.gateway.reading_turns import (
    GREETING_COST,
    LARGE_READ_BYTES,
    PIECE_EVENTS,
    READ_COST,
    RESUMES_PER_TURN,
    TURN_WORK,
)
from partibus.testing.bus import BusBench, ClientBench
from support.gateway_messages import plain

Handled = list[tuple[ClientConnection, int]]

READ_BYTES = 256 * 1024
"""The most that the loop takes from a socket at once."""


@pytest.fixture
def bus() -> BusBench:
    made = BusBench()
    made.queue("q")
    return made


@pytest.fixture
def handled(monkeypatch: pytest.MonkeyPatch) -> Handled:
    """What was handled since the last look: the connection, and how many bytes."""
    seen: Handled = []
    handle = ClientConnection.handle

    def note(connection: ClientConnection, data: bytes) -> None:
        seen.append((connection, len(data)))
        handle(connection, data)

    monkeypatch.setattr(ClientConnection, "handle", note)
    return seen


def senders(bus: BusBench, count: int, size: int, each: int = 1) -> list[ClientBench]:
    """Clients that have something to say which nobody has read yet."""
    clients = [bus.client() for _ in range(count)]
    for client in clients:
        link = client.attach("q", sends=True)
        for _ in range(each):
            link.send(plain(0, size=size), b"t", False, 0, None)
    bus.scheduler.run()
    return clients


def bring_all(clients: list[ClientBench], handled: Handled) -> None:
    """All are readable at once: one poll of the loop."""
    handled.clear()
    for client in clients:
        data = client.engine.data_to_send()
        for at in range(0, len(data), READ_BYTES):
            client.connection.data_received(data[at : at + READ_BYTES])


def taken(handled: Handled) -> Handled:
    now = list(handled)
    handled.clear()
    return now


def test_many_small_reads_are_spread_over_turns(bus: BusBench, handled: Handled) -> None:
    most = TURN_WORK // READ_COST
    clients = senders(bus, 2 * most, 100)
    bring_all(clients, handled)
    assert 0 < len(taken(handled)) <= most
    bus.gateway.turns._turn()
    assert 0 < len(taken(handled)) <= most
    bus.scheduler.run()
    for client in clients:
        client.run()
        assert client.take(DispositionReceived)
        assert client.is_reading


def test_clients_that_connect_all_at_once_are_let_in_a_few_at_a_time(
    bus: BusBench, handled: Handled
) -> None:
    clients = [bus.client() for _ in range(50)]
    for client in clients:
        source, target = encode_source("q"), encode_target("client")
        client.session.attach("x", is_sender=False, source=source, target=target)
    bus.scheduler.run()
    bring_all(clients, handled)
    assert 0 < len(taken(handled)) <= TURN_WORK // GREETING_COST
    bus.gateway.turns._turn()
    assert 0 < len(taken(handled)) <= TURN_WORK // GREETING_COST


def test_bytes_handled_in_a_turn_are_bounded(bus: BusBench, handled: Handled) -> None:
    clients = senders(bus, 20, 60_000, each=4)
    total = 0
    bring_all(clients, handled)
    for _ in range(len(clients)):
        size = sum(byte_count for _, byte_count in taken(handled))
        assert size <= TURN_WORK + READ_BYTES
        total += size
        bus.gateway.turns._turn()
    assert total > 20 * 4 * 60_000


def test_few_sockets_are_read_again_in_a_turn(bus: BusBench, handled: Handled) -> None:
    clients = senders(bus, RESUMES_PER_TURN + 3, LARGE_READ_BYTES)
    bring_all(clients, handled)
    bus.gateway.turns._turn()
    assert [client.is_reading for client in clients] == [True] * RESUMES_PER_TURN + [False] * 3
    bus.scheduler.run()
    assert all(client.is_reading for client in clients)


def test_what_waits_is_in_the_account_and_its_socket_is_not_read(
    bus: BusBench, handled: Handled
) -> None:
    clients = senders(bus, 20, 60_000, each=4)
    bring_all(clients, handled)
    last = clients[-1]
    assert all(connection is not last.connection for connection, _ in handled)
    assert not last.is_reading
    assert bus.gateway.memory.held_bytes >= 20 * 4 * 60_000
    bus.scheduler.run()
    assert last.is_reading
    assert bus.gateway.memory.held_bytes == 0


def test_small_messages_of_one_read_are_handled_in_pieces(bus: BusBench, handled: Handled) -> None:
    [client] = senders(bus, 1, 20, each=800)
    bring_all([client], handled)  # It is not known yet that its messages are small.
    client.run()
    [link] = [link for link in client.session.links.values() if link.is_sender]
    for _ in range(800):
        link.send(plain(0, size=20), b"t", False, 0, None)
    data = client.engine.data_to_send()
    handled.clear()
    client.connection.data_received(data)
    assert not handled
    bus.scheduler.run()
    messages = [size * 800 // len(data) for _, size in taken(handled)]
    assert len(messages) > 2
    assert max(messages) <= PIECE_EVENTS + 1
    client.run()
    count = sum(len(event.deliveries) for event in client.take(DispositionReceived))  # type: ignore[attr-defined]
    assert count == 1600


def test_what_a_client_sent_before_it_left_is_stored(bus: BusBench, handled: Handled) -> None:
    clients = senders(bus, 2 * TURN_WORK // READ_COST, 100)
    bring_all(clients, handled)
    count = len(clients)
    for client in clients:
        client.connection.connection_lost()
    assert len({id(connection) for connection, _ in handled}) == count
    bus.scheduler.run()
    assert bus.gateway.connection_count == 0
    assert bus.gateway.memory.held_bytes == 0


def test_a_client_whose_bytes_cannot_be_handled_is_cut_off_and_the_others_go_on(
    bus: BusBench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clients = senders(bus, 20, 60_000, each=4)
    broken = clients[-1]
    bring_all(clients, [])
    monkeypatch.setattr(broken.connection, "handle", lambda data: 1 // 0)
    with caplog.at_level(logging.ERROR):
        bus.scheduler.run()
    assert "could not be handled" in caplog.text
    assert broken.is_cut
    assert all(client.is_reading for client in clients[:-1])
