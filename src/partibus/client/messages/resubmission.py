"""Resubmission of dead letters: received, sent, confirmed, and only then completed.

Owns the order that makes it safe: whatever fails, a message is in the dead-letter queue, in its
entity, or for a moment in both, but never lost. Only what was there at the start is taken, so that
a message that fails again is not taken twice. Called by `dlq resubmit` and by the console.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from partibus.client.bus import Bus
from partibus.client.links import ReceivedMessage, Receiver, Sender
from partibus.client.message import IncomingMessage
from partibus.client.messages.pacing import Pacer
from partibus.client.messages.peeking import Walk
from partibus.client.messages.receiving import Reception, open_receiver, rounds, view
from partibus.domain.annotations import DEAD_LETTER_REASON

WAIT_SECONDS: Final = 2.0

Advance = Callable[[int], None]
"""Called with how many are done so far."""


@dataclass(slots=True, kw_only=True)
class Resubmission:
    """What to send again, and the progress."""

    dead_letters: str
    destination: str
    reason: str | None = None
    most: int | None = None
    new_id: bool = False
    numbers: frozenset[int] | None = None
    """Only these; None: all."""
    edited: Callable[[IncomingMessage], bytes] | None = None
    """What is sent instead of each; None: the message as it was."""
    is_discarded: bool = False
    """Nothing is sent: the chosen messages are deleted."""
    wanted: set[int] = field(default_factory=set)
    done: int = 0

    def takes(self, message: IncomingMessage) -> bool:
        """Whether a dead letter is one of those requested."""
        if self.numbers is not None and message.sequence_number not in self.numbers:
            return False
        if self.reason is None:
            return True
        found = message.application_properties.get(DEAD_LETTER_REASON)
        return str(found or "").lower() == self.reason.lower()

    async def choose(self, bus: Bus) -> int:
        """Search the dead letters and remember which to take; returns how many."""
        management = await bus.management(self.dead_letters)
        walk = Walk(management)
        while found := await walk.step():
            for message in found:
                if self.most is not None and len(self.wanted) >= self.most:
                    break
                if self.takes(message):
                    self.wanted.add(message.sequence_number)
        await management.close()
        return len(self.wanted)

    async def run(self, bus: Bus, pacer: Pacer, advance: Advance) -> int:
        """Send the chosen ones again; returns how many."""
        sender = None if self.is_discarded else await bus.sender(self.destination)
        passed: list[ReceivedMessage] = []
        async with open_receiver(bus, Reception(path=self.dead_letters)) as receiver:
            assert receiver is not None  # only sessions can be missing
            try:
                async for messages in rounds(receiver, None, WAIT_SECONDS):
                    passed += await self._round(receiver, sender, messages, pacer)
                    advance(self.done)
                    if not self.wanted:
                        break
            finally:
                receiver.release(passed)
        return self.done

    async def _round(
        self,
        receiver: Receiver,
        sender: Sender | None,
        messages: list[ReceivedMessage],
        pacer: Pacer,
    ) -> list[ReceivedMessage]:
        """Send a round's messages and complete them; returns those that are skipped."""
        passed: list[ReceivedMessage] = []
        taken: list[ReceivedMessage] = []
        for message in messages:
            seen = view(message)
            if seen.sequence_number in self.wanted:
                self.wanted.discard(seen.sequence_number)
                taken.append(message)
                await pacer.next()
                if sender is not None:
                    await sender.post(self._again(seen))
            else:
                passed.append(message)
        if sender is not None:
            await sender.confirmed()
        await receiver.settle(taken)
        self.done += len(taken)
        return passed

    def _again(self, message: IncomingMessage) -> bytes:
        if self.edited is not None:
            return self.edited(message)
        return message.resent(str(uuid.uuid4()) if self.new_id else None)
