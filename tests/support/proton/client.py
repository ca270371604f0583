"""A generic AMQP 1.0 client on Qpid Proton, close to the protocol.

Gives tests what the vendor's clients hide: settle modes, credit, drain, outcomes and raw
conditions. Everything waits for an event of the connection; nothing sleeps. Import it only
where the group "proton" is present.
"""

from collections.abc import Callable
from functools import cache
from typing import Final, Self

from proton import Delivery, Link, Message, _reactor, symbol
from proton.reactor import AtMostOnce, LinkOption
from proton.utils import BlockingConnection, BlockingReceiver, BlockingSender

from support.namespace import ROOT_KEY, ROOT_POLICY
from support.server import ServerProcess

# A container loads the certificates of the system, twice, which takes longer than most tests. The
# connections here use none of them, so all containers of a process share one set.
_reactor.SSLConfig = cache(_reactor.SSLConfig)

TIMEOUT_SECONDS: Final = 20

SEQUENCE_NUMBER: Final = symbol("x-opt-sequence-number")
ENQUEUED_TIME: Final = symbol("x-opt-enqueued-time")
LOCKED_UNTIL: Final = symbol("x-opt-locked-until")
LOCK_TOKEN: Final = symbol("x-opt-lock-token")


class SettlesSecond(LinkOption):
    """A receiver that settles only after the sender has: the service's peek-lock."""

    def apply(self, link: Link) -> None:
        link.snd_settle_mode = Link.SND_UNSETTLED
        link.rcv_settle_mode = Link.RCV_SECOND


class Client:
    """One connection, closed at the end of a `with` block."""

    def __init__(
        self,
        server: ServerProcess,
        *,
        user: str = ROOT_POLICY,
        password: str = ROOT_KEY,
        mechanism: str = "PLAIN",
        port: int | None = None,
    ) -> None:
        """`port` leads to the server by another way, such as a tunnel."""
        self._links = 0
        credentials = {"user": user, "password": password} if mechanism == "PLAIN" else {}
        self.blocking = BlockingConnection(
            f"amqp://localhost:{port or server.ready.amqp_port}",
            timeout=TIMEOUT_SECONDS,
            allowed_mechs=mechanism,
            allow_insecure_mechs=True,
            **credentials,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.blocking.close()

    def sender(self, address: str, *, pre_settled: bool = False) -> BlockingSender:
        options = AtMostOnce() if pre_settled else None
        return self.blocking.create_sender(address, name=self._link_name(), options=options)

    def send(self, address: str, *bodies: object) -> None:
        """Send one by one, each accepted before the next."""
        sender = self.sender(address)
        for body in bodies:
            sender.send(Message(body=body))
        sender.close()

    def receiver(
        self, address: str, credit: int = 0, option: LinkOption | None = None
    ) -> "Receiver":
        """A receiver, peek-lock unless told otherwise, that gets credit only when told."""
        # Proton tops up the credit that is given here, so none is.
        blocking = self.blocking.create_receiver(
            address, credit=0, name=self._link_name(), options=option or SettlesSecond()
        )
        if credit:
            blocking.link.flow(credit)
        return Receiver(self, blocking)

    def take(self, address: str, count: int) -> list[Message]:
        """Receive and delete exactly this many."""
        receiver = self.receiver(address, credit=count, option=AtMostOnce())
        messages = [message for message, _ in receiver.wait_for(count)]
        receiver.close()
        return messages

    def _link_name(self) -> str:
        """Names of our own: Proton would use one name twice for two links to one address."""
        self._links += 1
        return f"link-{self._links}"

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        self.blocking.wait(condition, timeout=TIMEOUT_SECONDS, msg=what)


class Receiver:
    """A receiving link whose credit, deliveries and outcomes a test holds in its hands."""

    def __init__(self, client: Client, blocking: BlockingReceiver) -> None:
        self._client = client
        self.link = blocking.link
        self._blocking = blocking

    @property
    def arrived(self) -> int:
        """Deliveries that have come and were not yet handed out."""
        return len(self._blocking.fetcher.incoming)

    def wait_for(self, count: int) -> list[tuple[Message, Delivery]]:
        """The next messages with their deliveries, still locked."""
        incoming = self._blocking.fetcher.incoming
        self._client.wait(lambda: len(incoming) >= count, f"receiving {count} messages")
        return [incoming.popleft() for _ in range(count)]

    def settle(self, delivery: Delivery, outcome: int) -> Delivery:
        """Ask for an outcome and wait for the server's answer, which is in `delivery.remote`."""
        delivery.update(outcome)
        self._client.wait(lambda: bool(delivery.settled), "settlement")
        delivery.settle()
        return delivery

    def close(self) -> None:
        self._blocking.close()
