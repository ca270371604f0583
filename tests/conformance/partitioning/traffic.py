"""Senders and receivers of the stock client that never stop for an outage, and their books.

Owns the running and the counting: what was acknowledged, refused, left open, settled. A test
breaks something while traffic runs and looks at the books afterwards.
"""

import asyncio
import gc
import itertools
import warnings
from collections import Counter
from collections.abc import Coroutine
from typing import Any, Final

from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver, ServiceBusSender
from azure.servicebus.exceptions import (
    MessageLockLostError,
    ServiceBusError,
    ServiceBusServerBusyError,
)

from conformance.partitioning.partitions import partition_of_key

PARTITIONS: Final = 4
KEYLESS: Final = "keyless"
# Anything may cut a connection while it is in use.
Trouble = (ServiceBusError, OSError)


def run_to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Run a story in which connections are cut: the stock client does not close those."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        asyncio.run(work)
        gc.collect()


class Traffic:
    """Traffic on one queue of four partitions; every text is sent once."""

    def __init__(self, client: ServiceBusClient, queue: str) -> None:
        self._client = client
        self._queue = queue
        self._names = itertools.count()
        self._moved = asyncio.Event()
        self.stop = asyncio.Event()
        self.acknowledged: list[str] = []
        self.refused: set[int] = set()
        """Partitions whose keyed sends were refused as to be tried again."""
        self.open: set[str] = set()
        """Sends of which nobody knows whether they were stored."""
        self.settled: Counter[str] = Counter()
        self.open_settlements: set[str] = set()
        """Settlements of which nobody knows whether they were made."""
        self.revenants: list[str] = []
        """Messages that came again after their settlement was confirmed."""
        self.numbered: dict[str, dict[int, int]] = {}
        """By key, the sequence number of each message."""

    # --- sending --------------------------------------------------------------------------

    async def send_keyless(self) -> None:
        sender_name = f"{KEYLESS}-{next(self._names)}"
        async with self._client.get_queue_sender(self._queue) as sender:
            for number in itertools.count():
                if self.stop.is_set():
                    return
                await self._send(sender, ServiceBusMessage(f"{sender_name} {number}"))

    async def send_keyed(self, key: str) -> None:
        """In order; what is refused is sent again until it is accepted."""
        partition = partition_of_key(key, PARTITIONS)
        async with self._client.get_queue_sender(self._queue) as sender:
            for number in itertools.count():
                if self.stop.is_set():
                    return
                message = ServiceBusMessage(f"{key} {number}", partition_key=key)
                while await self._send(sender, message) is ServiceBusServerBusyError:
                    self.refused.add(partition)

    async def _send(
        self, sender: ServiceBusSender, message: ServiceBusMessage
    ) -> type[BaseException] | None:
        try:
            await sender.send_messages(message)
        except ServiceBusServerBusyError:
            return ServiceBusServerBusyError
        except Trouble as error:
            self.open.add(str(message))
            return type(error)
        self.acknowledged.append(str(message))
        self._moved.set()
        return None

    async def progress(self, count: int) -> None:
        """Return when so many more sends were acknowledged."""
        goal = len(self.acknowledged) + count
        while len(self.acknowledged) < goal:
            self._moved.clear()
            await self._moved.wait()

    # --- receiving ------------------------------------------------------------------------

    async def receive(self) -> None:
        """Settle what comes, until all that was acknowledged has gone."""
        while not self.is_done:
            async with self._client.get_queue_receiver(self._queue, prefetch_count=20) as receiver:
                await self._receive(receiver)

    @property
    def is_done(self) -> bool:
        gone = self.settled.keys() | self.open_settlements
        return self.stop.is_set() and gone >= set(self.acknowledged)

    async def _receive(self, receiver: ServiceBusReceiver) -> None:
        while not self.is_done:
            try:
                messages = await receiver.receive_messages(20, max_wait_time=0.2)
            except Trouble:
                return
            for message in messages:
                if not await self._settle(receiver, message):
                    return

    async def _settle(
        self, receiver: ServiceBusReceiver, message: ServiceBusReceivedMessage
    ) -> bool:
        """Complete a message; False when the connection is gone."""
        text = str(message)
        key, number = text.rsplit(" ", 1)
        self.numbered.setdefault(key, {})[int(number)] = message.sequence_number or 0
        if text in self.settled:
            self.revenants.append(text)
        try:
            await receiver.complete_message(message)
        except (ServiceBusServerBusyError, MessageLockLostError):
            return True  # it comes again
        except Trouble:
            self.open_settlements.add(text)
            return False
        self.settled[text] += 1
        return True

    # --- the books ------------------------------------------------------------------------

    def check(self) -> None:
        """Nothing that was acknowledged is lost, nothing is settled twice, keys keep order."""
        assert set(self.acknowledged) <= self.settled.keys() | self.open_settlements
        assert self.settled.keys() <= set(self.acknowledged) | self.open
        assert set(self.settled.values()) == {1}
        assert self.revenants == []
        for key, numbered in self.numbered.items():
            if not key.startswith(KEYLESS):
                numbers = [numbered[number] for number in sorted(numbered)]
                assert numbers == sorted(set(numbers)), f"{key} is not in the order of its sends"
