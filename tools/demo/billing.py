"""Billing: receivers of the stock SDK that book orders, and fail on the wrong ones as real ones do.

It dead-letters what it cannot read, with the reason, and abandons what the bookkeeping does not
take, until the bus dead-letters that. Orders may come twice after an outage: it books each once.
"""

import json
import threading
from collections import Counter
from typing import Any, Final

from azure.servicebus import ServiceBusClient
from azure.servicebus.exceptions import ServiceBusError

from demo.orders import Order

RECEIVERS: Final = 2
BATCH: Final = 40
WAIT_SECONDS: Final = 1.0


class Billing:
    """What billing has done so far."""

    def __init__(self, connection_string: str) -> None:
        self._connection_string = connection_string
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._threads: list[threading.Thread] = []
        self.is_bookkeeping_up = False
        self.booked: set[str] = set()
        self.rejected: set[str] = set()
        """Dead-lettered by billing itself."""
        self.stuck: set[str] = set()
        """Abandoned; the bus dead-letters them after the third time."""
        self.seen_again = 0
        self.errors: Counter[str] = Counter()

    def open(self) -> None:
        self._closing.clear()
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(RECEIVERS)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._closing.set()
        for thread in self._threads:
            thread.join()

    def dealt_with(self) -> set[str]:
        """Every order that it has booked, rejected or abandoned."""
        with self._lock:
            return self.booked | self.rejected | self.stuck

    def _work(self) -> None:
        client = ServiceBusClient.from_connection_string(self._connection_string)
        with client, client.get_subscription_receiver("orders", "billing") as receiver:
            while not self._closing.is_set():
                try:
                    messages = receiver.receive_messages(BATCH, WAIT_SECONDS)
                except ServiceBusError as error:
                    self._note(error)
                    continue
                for message in messages:
                    self._handle(receiver, message)

    def _handle(self, receiver: Any, message: Any) -> None:
        order = json.loads(str(message))
        name = str(order["order"])
        try:
            if order["currency"] != "EUR":
                text = f"{name}: the currency '{order['currency']}' is not known"
                receiver.dead_letter_message(message, "UnknownCurrency", text)
                self._add(self.rejected, name)
            elif order["amount"] < 0:
                text = f"{name}: the amount {order['amount']:.2f} is negative"
                receiver.dead_letter_message(message, "InvalidAmount", text)
                self._add(self.rejected, name)
            elif Order(int(name.rsplit("-", 1)[1])).is_stuck and not self.is_bookkeeping_up:
                self._add(self.stuck, name)
                receiver.abandon_message(message)
            else:
                receiver.complete_message(message)
                self._add(self.booked, name)
        except ServiceBusError as error:
            # Its store is down, or its lock has lapsed: the order comes again.
            self._note(error)

    def _add(self, names: set[str], name: str) -> None:
        with self._lock:
            self.seen_again += name in names and names is self.booked
            names.add(name)

    def _note(self, error: ServiceBusError) -> None:
        with self._lock:
            self.errors[type(error).__name__] += 1
