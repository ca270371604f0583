"""A detach that the owner of a link answers itself, when what it means is done."""

from partibus.amqp.events import AttachReceived, DetachReceived
from support.amqp.engines import Peers


def test_the_owner_answers_in_its_own_time() -> None:
    peers = Peers()
    peers.client.sasl_anonymous()
    peers.client.open()
    session = peers.client.begin()
    link = session.attach("one", is_sender=True, source=b"\x40", target=b"\x40")
    peers.pump()
    (attached,) = [e for e in peers.server_events if isinstance(e, AttachReceived)]
    attached.link.answers_detach = False
    attached.link.accept()
    peers.take()
    link.detach()
    client_events, server_events = peers.take()
    (detached,) = [e for e in server_events if isinstance(e, DetachReceived)]
    assert detached.closed and attached.link.peer_closed and attached.link.detach_received
    assert not [e for e in client_events if isinstance(e, DetachReceived)]
    attached.link.detach()
    client_events, _ = peers.take()
    assert [e.closed for e in client_events if isinstance(e, DetachReceived)] == [True]
