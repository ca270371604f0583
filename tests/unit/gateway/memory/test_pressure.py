"""What clients are held to when memory is short, and what goes on all the same."""

from partibus.amqp.delivery import ACCEPTED, Rejected
from partibus.amqp.events import DetachReceived, DispositionReceived, TransferReceived
from partibus.amqp.settings import UNFINISHED_MS_MAX
from partibus.domain import conditions
from partibus.domain.entity import QueueSpec
from partibus.gateway.gateway import PEAK_BYTES_MIN
from partibus.gateway.links.inbound import CREDIT
from partibus.gateway.memory.account import FAIR_BYTES, WINDOW_MIN, Share
from partibus.gateway.reading_turns import LARGE_READ_BYTES
from partibus.testing.bus import BusBench, ClientBench
from support.gateway.messages import plain
from support.gateway.transaction_bench import TransactionClient

LIMIT = 1_000_000
LARGE = LARGE_READ_BYTES


def bench(limit: int = LIMIT) -> BusBench:
    bus = BusBench()
    bus.gateway.memory.limit_bytes = limit
    bus.queue("q", QueueSpec(max_message_size_in_kilobytes=10_240))
    return bus


def bring(client: ClientBench) -> None:
    """What the client has to say is read; the store has not answered yet."""
    client.connection.data_received(client.engine.data_to_send())


def fill(bus: BusBench, byte_count: int = LIMIT) -> Share:
    """Others hold so much."""
    share = Share(bus.gateway.memory)
    share.update(byte_count, 0, 0)
    return share


# --- reading ------------------------------------------------------------------------------------


def test_a_client_that_brings_much_is_read_again_in_the_next_turn() -> None:
    bus = bench(1 << 30)
    client = bus.client()
    sender = client.attach("q", sends=True)
    sender.send(plain(0, size=LARGE), b"t", False, 0, None)
    bring(client)
    assert not client.is_reading
    client.run()
    assert client.is_reading


def test_a_client_that_brings_little_does_not_wait() -> None:
    bus = bench(1 << 30)
    client = bus.client()
    sender = client.attach("q", sends=True)
    sender.send(plain(0, size=1024), b"t", False, 0, None)
    bring(client)
    assert client.is_reading


def test_who_fills_the_memory_waits_until_there_is_room() -> None:
    bus = bench()
    client, other = bus.client(), bus.client()
    sender = client.attach("q", sends=True)
    receiver = other.attach("q", sends=False)
    others = fill(bus)
    sender.send(plain(7, size=FAIR_BYTES), b"t", False, 0, None)
    bring(client)
    bus.scheduler.run()
    # Its own send is stored by now, so that it holds nothing any more.
    assert client.is_reading
    for _ in range(2):
        sender.send(plain(7, size=FAIR_BYTES), b"t", False, 0, None)
    bring(client)
    bus.gateway.turns._turn()
    assert not client.is_reading
    # Receives and settlements go on meanwhile.
    receiver.set_credit(1)
    other.run()
    (event,) = other.take(TransferReceived)
    assert isinstance(event, TransferReceived)
    event.link.propose(event.delivery_id, ACCEPTED)
    other.run()
    assert other.is_reading
    others.update(0, 0, 0)
    client.run()
    assert client.is_reading
    assert bus.gateway.memory.held_bytes == 0


def test_a_client_that_left_while_it_waited_is_not_called() -> None:
    bus = bench()
    client = bus.client()
    sender = client.attach("q", sends=True)
    others = fill(bus)
    sender.send(plain(7, size=2 * FAIR_BYTES), b"t", False, 0, None)
    bring(client)
    client.connection.connection_lost()
    others.update(0, 0, 0)
    bus.scheduler.run()
    assert not client.is_reading
    assert bus.gateway.memory.held_bytes == 0


# --- credit and windows -------------------------------------------------------------------------


def test_credit_and_window_are_small_when_memory_is_short_and_sends_go_on() -> None:
    bus = bench()
    others = fill(bus)
    client = bus.client()
    sender = client.attach("q", sends=True)
    assert sender.credit == 1
    assert client.session.outgoing.window <= WINDOW_MIN
    for number in range(5):
        client.send(sender, [plain(number)])
        assert sender.credit == 1
    assert len(client.take(DispositionReceived)) == 5
    others.update(0, 0, 0)
    client.send(sender, [plain(6)])
    assert sender.credit > CREDIT // 4


def test_sends_without_an_outcome_are_counted_too() -> None:
    bus = bench()
    client = bus.client()
    sender = client.attach("q", sends=True, settled=True)
    for _ in range(3):
        sender.send(plain(1, size=5_000), b"t", True, 0, None)
    bring(client)
    assert bus.gateway.memory.unstored_bytes > 15_000
    client.run()
    assert bus.gateway.memory.held_bytes == 0
    assert client.take(DispositionReceived) == []


def test_sends_count_until_they_are_stored_though_their_link_is_gone() -> None:
    bus = bench()
    client = bus.client()
    sender = client.attach("q", sends=True)
    sender.send(plain(1, size=5_000), b"t", False, 0, None)
    bring(client)
    assert bus.gateway.memory.sender_count == 1
    client.connection.connection_lost()
    assert bus.gateway.memory.sender_count == 0
    assert bus.gateway.memory.unstored_bytes > 5_000
    bus.scheduler.run()
    assert bus.gateway.memory.held_bytes == 0


# --- what waits for the client ------------------------------------------------------------------


def half_sent(bus: BusBench, client: ClientBench, size: int) -> None:
    """The first bytes of a message, in frames of which the last does not come."""
    sender = client.attach("q", sends=True)
    sender.send(plain(1, size=size), b"t", False, 0, None)
    data = client.engine.data_to_send()
    client.connection.data_received(data[: len(data) * 3 // 4])
    bus.scheduler.run()


def test_a_message_that_does_not_go_on_ends_its_link() -> None:
    bus = bench(1 << 30)
    client = bus.client()
    half_sent(bus, client, 3_000_000)
    assert bus.gateway.memory.unfinished_bytes > 2_000_000
    # A frame of which the rest does not come stays in the buffer, a frame at most.
    bus.scheduler.advance_ms(UNFINISHED_MS_MAX + 2_000)
    assert bus.gateway.memory.unfinished_bytes < 1_100_000
    for part in client._incoming:
        client.events += client.engine.receive_data(part, bus.clock.now_ms())
    (detached,) = client.take(DetachReceived)
    assert isinstance(detached, DetachReceived) and detached.error is not None
    assert detached.error.condition == conditions.MICROSOFT_TIMEOUT


def test_a_message_for_which_there_is_no_memory_is_refused_as_busy() -> None:
    bus = bench(4_000_000)
    first, second = bus.client(), bus.client()
    half_sent(bus, first, 3_000_000)
    sender = second.attach("q", sends=True)
    second.send(sender, [plain(2, size=3_000_000)])
    (event,) = second.take(DispositionReceived)
    assert isinstance(event, DispositionReceived) and isinstance(event.state, Rejected)
    assert event.state.error is not None
    assert event.state.error.condition == conditions.MICROSOFT_SERVER_BUSY
    # The first may go on, and the link of the second takes what fits.
    second.send(sender, [plain(2, size=3_000)])
    assert len(second.take(DispositionReceived)) == 1


def test_messages_that_wait_for_a_commit_are_counted_and_refused_when_there_is_no_memory() -> None:
    bus = bench()
    memory = bus.gateway.memory
    client = TransactionClient(bus)
    sender = client.link("q", sends=True)
    txn_id = client.declare()
    client.send(sender, plain(1, size=50_000), txn_id)
    assert memory.unfinished_bytes > 50_000
    others = Share(memory)
    others.update(0, LIMIT, 0)
    refused = client.send(sender, plain(2, size=50_000), txn_id)
    assert isinstance(refused, Rejected) and refused.error is not None
    assert refused.error.condition == conditions.MICROSOFT_SERVER_BUSY
    client.discharge(txn_id, fail=True)
    others.update(0, 0, 0)
    assert memory.held_bytes == 0


def test_a_single_message_fits_however_small_the_limit() -> None:
    bus = bench(1_000_000)
    client = bus.client()
    sender = client.attach("q", sends=True)
    client.send(sender, [plain(2, size=5_000_000)])
    (event,) = client.take(DispositionReceived)
    assert isinstance(event, DispositionReceived) and not isinstance(event.state, Rejected)


def test_what_a_client_does_not_read_is_counted_until_it_does() -> None:
    bus = bench()
    sending, client = bus.client(), bus.client()
    sending.send(sending.attach("q", sends=True), [plain(1, size=50_000)])
    receiver = client.attach("q", sends=False)
    receiver.set_credit(10)
    client.run()
    client.connection.pause_writing()
    assert bus.gateway.memory.unsent_bytes > 0
    client.connection.resume_writing()
    assert bus.gateway.memory.unsent_bytes == 0


def test_memory_is_given_back_after_a_peak() -> None:
    bus = bench()
    calls: list[int] = []
    bus.gateway._give_back = lambda: calls.append(1)
    share = fill(bus, PEAK_BYTES_MIN)
    bus.scheduler.advance_ms(2_000)
    assert not calls
    share.update(0, 0, 0)
    bus.scheduler.advance_ms(5_000)
    assert calls == [1, 1]
