"""The shop: senders of the stock SDK that publish orders until they are asked to stop.

Many send at a time, each at its own even pace over its own connection, so that an order that waits
holds up no other. An order whose store is down is refused at once, with an error that says to try
again: it is set aside for senders that do nothing else, and published later under the same id.
"""

import queue
import threading
import time
from collections import Counter
from dataclasses import dataclass
from itertools import count
from typing import Final

from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from demo.orders import Order

SENDERS: Final = 12
ORDERS_PER_SECOND: Final = 15
"""For each sender: an even stream, so that the plot shows the outage and not the machine."""
OPENING_SECONDS_MAX: Final = 60.0
RETRIERS: Final = 2
RETRY_SECONDS: Final = 0.5
RETRYING_SECONDS_MAX: Final = 60.0


@dataclass(frozen=True, slots=True)
class Sale:
    """An order that the bus has acknowledged: when the shop sent it, and how long it waited."""

    order: Order
    at: float
    seconds: float
    is_first_try: bool


class Shop:
    """What the shop knows: orders acknowledged, and the refusals it has seen."""

    def __init__(self, connection_string: str) -> None:
        self._connection_string = connection_string
        self._lock = threading.Lock()
        self._numbers = count(1)
        self._closing = threading.Event()
        self._aside: queue.SimpleQueue[Order] = queue.SimpleQueue()
        self._sellers = [threading.Thread(target=self._sell, daemon=True) for _ in range(SENDERS)]
        self._retriers = [
            threading.Thread(target=self._retry, daemon=True) for _ in range(RETRIERS)
        ]
        self._is_sold_out = threading.Event()
        self._gives_up_at = 0.0
        self.sales: dict[str, Sale] = {}
        self.refusals: Counter[str] = Counter()
        self.abandoned: list[Order] = []
        """Orders that could not be published in the end."""

    def open(self) -> None:
        for thread in (*self._sellers, *self._retriers):
            thread.start()

    def wait_until_open(self) -> None:
        """Wait until every sender has sold something, so that the story does not begin with a
        queue."""
        until = time.monotonic() + OPENING_SECONDS_MAX
        while len(self.sales) < SENDERS and time.monotonic() < until:
            time.sleep(0.05)

    def close(self) -> None:
        """Take no more orders, and publish those that were set aside."""
        self._closing.set()
        for thread in self._sellers:
            thread.join()
        self._gives_up_at = time.monotonic() + RETRYING_SECONDS_MAX
        self._is_sold_out.set()
        for thread in self._retriers:
            thread.join()

    def _sell(self) -> None:
        client = ServiceBusClient.from_connection_string(self._connection_string, retry_total=0)
        with client, client.get_topic_sender("orders") as sender:
            next_at = time.monotonic()
            while not self._closing.is_set():
                order = self._next()
                if not self._publish(sender, order, is_first_try=True):
                    self._aside.put(order)
                # A sender that falls behind does not catch up: that would be a burst.
                next_at = max(next_at + 1 / ORDERS_PER_SECOND, time.monotonic())
                self._closing.wait(next_at - time.monotonic())

    def _retry(self) -> None:
        """Publish what was set aside, until nothing more can come."""
        client = ServiceBusClient.from_connection_string(self._connection_string, retry_total=0)
        with client, client.get_topic_sender("orders") as sender:
            while not self._is_sold_out.is_set() or not self._aside.empty():
                try:
                    order = self._aside.get(timeout=RETRY_SECONDS)
                except queue.Empty:
                    continue
                if not self._publish(sender, order, is_first_try=False):
                    self._set_aside_again(order)

    def _set_aside_again(self, order: Order) -> None:
        """It is too early for this one, and for the others too."""
        if self._is_sold_out.is_set() and time.monotonic() >= self._gives_up_at:
            self.abandoned.append(order)
        else:
            self._aside.put(order)
            time.sleep(RETRY_SECONDS)

    def _next(self) -> Order:
        with self._lock:
            return Order(next(self._numbers))

    def _publish(self, sender: object, order: Order, *, is_first_try: bool) -> bool:
        message = ServiceBusMessage(
            order.body(),
            message_id=order.order_id,
            partition_key=order.customer,
            subject="order",
            content_type="application/json",
            application_properties={"express": order.is_express, "attempt": 1},
        )
        at, began = time.time(), time.monotonic()
        try:
            sender.send_messages(message)  # type: ignore[attr-defined]
        except ServiceBusError as error:
            with self._lock:
                self.refusals[type(error).__name__] += 1
            return False
        sale = Sale(order, at, time.monotonic() - began, is_first_try)
        with self._lock:
            self.sales[order.order_id] = sale
        return True
