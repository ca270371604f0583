"""The shop: senders of the stock SDK that publish orders until they are told to stop.

An order whose store is down is refused at once, with an error that says to try again. The shop sets
it aside, goes on with other customers, and publishes it later under the same id.
"""

import threading
import time
from collections import Counter, deque
from itertools import count
from typing import Final

from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from demo.orders import Order

SENDERS: Final = 3
ORDERS_PER_SECOND: Final = 150
"""Of each sender: an even stream, so that the plot shows the outage and not the machine."""
RETRY_SECONDS: Final = 0.5
RETRYING_SECONDS_MAX: Final = 60.0


class Shop:
    """What the shop knows: orders acknowledged, and the refusals it has seen."""

    def __init__(self, connection_string: str) -> None:
        self._connection_string = connection_string
        self._lock = threading.Lock()
        self._numbers = count(1)
        self._closing = threading.Event()
        self._threads = [threading.Thread(target=self._sell, daemon=True) for _ in range(SENDERS)]
        self.acknowledged: dict[str, Order] = {}
        self.refusals: Counter[str] = Counter()
        self.abandoned: list[Order] = []
        """Orders that could not be published in the end."""

    def open(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Take no more orders, and publish those that were set aside."""
        self._closing.set()
        for thread in self._threads:
            thread.join()

    def _sell(self) -> None:
        client = ServiceBusClient.from_connection_string(self._connection_string, retry_total=0)
        aside: deque[Order] = deque()
        with client, client.get_topic_sender("orders") as sender:
            retry_at = began = time.monotonic()
            for sold in count(1):
                if self._closing.is_set():
                    break
                order = self._next()
                if not self._publish(sender, order):
                    aside.append(order)
                if aside and time.monotonic() >= retry_at:
                    retry_at = time.monotonic() + RETRY_SECONDS
                    self._again(sender, aside)
                time.sleep(max(0.0, began + sold / ORDERS_PER_SECOND - time.monotonic()))
            until = time.monotonic() + RETRYING_SECONDS_MAX
            while aside and time.monotonic() < until:
                self._again(sender, aside)
                time.sleep(RETRY_SECONDS)
        self.abandoned.extend(aside)

    def _next(self) -> Order:
        with self._lock:
            return Order(next(self._numbers))

    def _again(self, sender: object, aside: deque[Order]) -> None:
        """One round over what was set aside; the first refusal ends it."""
        while aside and self._publish(sender, aside[0]):
            aside.popleft()

    def _publish(self, sender: object, order: Order) -> bool:
        message = ServiceBusMessage(
            order.body(),
            message_id=order.order_id,
            partition_key=order.customer,
            subject="order",
            content_type="application/json",
            application_properties={"express": order.is_express, "attempt": 1},
        )
        try:
            sender.send_messages(message)  # type: ignore[attr-defined]
        except ServiceBusError as error:
            with self._lock:
                self.refusals[type(error).__name__] += 1
            return False
        with self._lock:
            self.acknowledged[order.order_id] = order
        return True
