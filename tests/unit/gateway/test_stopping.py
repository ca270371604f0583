"""What clients see of a server that stops."""

from partibus.amqp.delivery import Accepted
from partibus.amqp.events import CloseReceived, DispositionReceived, TransferReceived
from partibus.testing.bus import BusBench, ClientBench
from support.gateway.messages import plain


def accepted(client: ClientBench) -> int:
    """How many sends were accepted."""
    count = 0
    for event in client.take(DispositionReceived):
        assert isinstance(event, DispositionReceived) and isinstance(event.state, Accepted)
        count += len(event.deliveries)
    return count


def test_a_stopping_server_answers_what_it_has_taken_and_takes_nothing_more() -> None:
    bus = BusBench()
    bus.queue("q")
    client = bus.client()
    sending = client.attach("q", sends=True)
    receiving = client.attach("q", sends=False)
    receiving.set_credit(10)
    client.run()
    for number in range(3):
        sending.send(plain(number), b"t", False, 0, None)
    client.connection.data_received(client.engine.data_to_send())
    bus.gateway.quiesce()
    sending.send(plain(9), b"t", False, 0, None)
    client.run()
    bus.gateway.close()
    client.run()
    assert accepted(client) == 3
    assert client.take(TransferReceived) == [], "nothing is handed out any more"
    (closed,) = client.take(CloseReceived)
    assert isinstance(closed, CloseReceived) and closed.error is not None
    assert closed.error.condition == "amqp:connection:forced"
    assert client.is_cut
    again = bus.client()
    receiver = again.attach("q", sends=False)
    receiver.set_credit(10)
    again.run()
    assert len(again.take(TransferReceived)) == 3
