"""Transactions through Qpid Proton's own API, waited for one step at a time.

Owns the handler that hears how a declare and a discharge ended, and links that Proton's
blocking client does not make: in another AMQP session, or with link properties. Import it only
where the group "proton" is present.
"""

from collections.abc import Callable
from typing import Any, Final

from proton import Delivery, Described, Link, Message, symbol, ulong
from proton.handlers import TransactionHandler
from proton.reactor import LinkOption
from proton.utils import BlockingSender

from support.proton.client import Client

TRANSACTIONAL: Final = 0x34
TRANSFER_DESTINATION: Final = "com.microsoft:transfer-destination-address"


class Transaction(TransactionHandler):
    """One transaction of a client: declared when made, ended by `commit` or `roll_back`."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client
        self.heard: list[str] = []
        self.condition: Any = None
        container, connection = client.blocking.container, client.blocking.conn
        self.proton = container.declare_transaction(connection, handler=self)
        client.wait(lambda: bool(self.heard), "the declaration")

    def on_transaction_declared(self, event: Any) -> None:
        self.heard.append("declared")

    def on_transaction_declare_failed(self, event: Any) -> None:
        self._note("not declared", event)

    def on_transaction_committed(self, event: Any) -> None:
        self.heard.append("committed")

    def on_transaction_aborted(self, event: Any) -> None:
        self.heard.append("aborted")

    def on_transaction_commit_failed(self, event: Any) -> None:
        self._note("not committed", event)

    def _note(self, what: str, event: Any) -> None:
        self.heard.append(what)
        self.condition = event.delivery.remote.condition

    # --- work -------------------------------------------------------------------------------

    def post(self, sender: BlockingSender, message: Message) -> Delivery:
        """Send a message in the transaction without waiting for the answer."""
        self._client.wait(lambda: sender.link.credit > 0, "credit to send")
        return self.proton.send(sender.link, message)

    def send(self, sender: BlockingSender, message: Message | str) -> Delivery:
        """Send a message in the transaction; the answer is in `delivery.remote`."""
        if isinstance(message, str):
            message = Message(body=message)
        delivery = self.post(sender, message)
        self._client.wait(lambda: bool(delivery.settled), "the answer to a send")
        return delivery

    def settle(self, delivery: Delivery, outcome: int, fields: list[Any] | None = None) -> Delivery:
        """Settle a received message in the transaction and wait for the answer."""
        delivery.local.data = [self.proton.id, Described(ulong(outcome), fields or [])]
        delivery.update(TRANSACTIONAL)
        self._client.wait(lambda: bool(delivery.settled), "the answer to a settlement")
        delivery.settle()
        return delivery

    # --- its end ----------------------------------------------------------------------------

    def commit(self) -> str:
        """Discharge; answers what was heard."""
        return self._end(self.proton.commit)

    def roll_back(self) -> str:
        """Discharge with the fail flag; answers what was heard."""
        return self._end(self.proton.abort)

    def _end(self, end: Callable[[], None]) -> str:
        count = len(self.heard)
        end()
        self._client.wait(lambda: len(self.heard) > count, "the discharge")
        return self.heard[-1]

    @property
    def refusal(self) -> tuple[str, str]:
        """Why it could not be declared or committed: condition and text."""
        return self.condition.name, self.condition.description


class Via(LinkOption):
    """A link to a transfer entity whose messages are for another (TXN-6)."""

    def __init__(self, destination: str) -> None:
        self._destination = destination

    def apply(self, link: Link) -> None:
        link.properties = {symbol(TRANSFER_DESTINATION): self._destination}


def sender_via(client: Client, path: str, destination: str) -> BlockingSender:
    """A sender to `destination` by way of `path`."""
    name = f"via-{path}-{destination}"
    return client.blocking.create_sender(path, name=name, options=Via(destination))


def sender_in_new_session(client: Client, address: str) -> BlockingSender:
    """A sender whose link is in an AMQP session of its own."""
    session = client.blocking.conn.session()
    session.open()
    link = client.blocking.container.create_sender(session, address, name=f"apart-{address}")
    return BlockingSender(client.blocking, link)


def taken(delivery: Delivery) -> bool:
    """Whether a send or settlement was taken into its transaction."""
    return bool(delivery.remote_state == TRANSACTIONAL)


def refusal(delivery: Delivery) -> tuple[str, str]:
    """The condition and the text of a refused send or settlement."""
    assert delivery.remote_state == Delivery.REJECTED, delivery.remote_state
    condition = delivery.remote.condition
    return condition.name, condition.description
