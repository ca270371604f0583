"""One receive over HTTP: at most one message, from whichever fragment has one.

Owns the wait for that message. Every fragment is asked in turn; when none has anything, the request
waits until one reports messages. There is demand at one fragment at a time, so no second message is
ever locked. A closed reception returns what was in flight to it: nothing is lost with a client that
stopped waiting, and its lock blocks nobody.
"""

import asyncio
import random
from collections import deque
from collections.abc import Sequence

from partibus.domain.errors import BusError, StoreUnavailable
from partibus.fragment.commands import Outcome, Settle, SubQueueType
from partibus.fragment.handle import Fragment
from partibus.fragment.message import Held
from partibus.gateway.gateway import Gateway
from partibus.gateway.links.source import Source
from partibus.message.lock_token import TokenPrefix


class Found:
    """A message locked for a request."""

    __slots__ = ("body", "fragment", "held", "sequence", "subqueue", "token_prefix")

    def __init__(
        self, source: Source, fragment: Fragment, subqueue: SubQueueType, held: Held, body: bytes
    ) -> None:
        self.fragment = fragment
        self.subqueue = subqueue
        self.held = held
        self.body = body
        self.sequence = source.sequence_base | held.sequence
        self.token_prefix: TokenPrefix = source.token_prefix

    def release(self) -> None:
        """Unlock without counting: the client has not seen the message (DLV-5)."""
        self.fragment.submit(
            Settle(None, None, self.subqueue, [self.held.token], Outcome.RELEASE, None)
        )


class Reception:
    """The receiving end of one request."""

    def __init__(
        self, gateway: Gateway, fragments: Sequence[Fragment], subqueue: SubQueueType, waits: bool
    ) -> None:
        self._subqueue = subqueue
        self._waits = waits
        # Messages are always locked: receive-and-delete completes before it answers, so that a
        # message in flight to a client that has gone is not lost.
        self._fragments = {Source(self, gateway, f, subqueue, False): f for f in fragments}
        available = [s for s, f in self._fragments.items() if f.is_available]
        # The order of fragments does not matter, but the first must not always win.
        random.shuffle(available)
        self._to_ask: deque[Source] = deque(available)
        self._asked: Source | None = None
        self._is_waiting = False
        self._is_closed = False
        self.found: asyncio.Future[Found | None] = asyncio.get_running_loop().create_future()

    def begin(self) -> None:
        """Start; `found` ends with a message, or with None when there is none to wait for."""
        if not self._to_ask and not self._waits:
            self._fail(StoreUnavailable())
        else:
            self._ask_next()

    def close(self, *, keeps_found: bool = True) -> None:
        """Stop; a message that was found is returned unless it is kept."""
        if self._is_closed:
            return
        self._is_closed = True
        for source in self._fragments:
            source.close()
        if not self.found.done():
            self.found.cancel()
        elif not keeps_found and self.found.exception() is None:
            found = self.found.result()
            if found is not None:
                found.release()

    def _ask_next(self) -> None:
        self._asked = None
        if self.found.done():
            return
        if self._to_ask:
            self._asked = self._to_ask.popleft()
            self._asked.demand(1, True)
        elif self._is_waiting:
            return
        elif self._waits:
            self._is_waiting = True
            for source in self._fragments:
                source.show_interest()
        else:
            self.found.set_result(None)

    def _fail(self, error: BusError) -> None:
        if not self.found.done():
            self.found.set_exception(error)

    # --- from the fragments (the `SourceLink` of the sources) -----------------------------------

    def write(self, source: Source, messages: Sequence[Held], bodies: Sequence[bytes]) -> None:
        """The message has arrived."""
        for held, body in zip(messages, bodies, strict=True):
            found = Found(source, self._fragments[source], self._subqueue, held, body)
            if self.found.done():
                found.release()
            else:
                self.found.set_result(found)

    def ran_dry(self, source: Source, unused: int) -> None:
        """A fragment had nothing, or has delivered what was demanded."""
        if self.found.done():
            return
        if self._is_waiting:
            source.show_interest()
        if source is self._asked:
            self._ask_next()

    def has_messages(self, source: Source) -> None:
        """A fragment has messages."""
        self._to_ask.append(source)
        if self._asked is None:
            self._ask_next()

    def came_back(self, source: Source) -> None:
        """A fragment that was unreachable must be asked again."""
        if source is self._asked:
            source.demand(1, True)
        elif self._is_waiting and source not in self._to_ask:
            source.show_interest()

    def settled(self, request: object, lost: Sequence[int], error: BusError | None) -> None:
        """No settlement goes through a source here."""
