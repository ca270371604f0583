"""The other workers of this server: connections to them and from them.

Owns one connection to each other worker, on which this one asks, and those from them, on which
they ask for the fragments here; each end greets the other with the version and the run before
anything else. A worker that is lost is tried again for ever with a short back-off, and one that
says nothing for SILENCE_S is taken for lost: it can hold up nobody else. Made by the node; the
rows and their meaning are `cluster.remote`'s and `cluster.hosting`'s.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from partibus.cluster.channel import PeerChannel
from partibus.cluster.control_hub import ControlHub, Payload
from partibus.cluster.hosting import Host
from partibus.cluster.membership import Membership
from partibus.cluster.remote import FarBroker, RemoteFragment
from partibus.cluster.rows import PING, QUIET, ROW_BYTES, STORES_DOWN, Row, StoreFacts
from partibus.cluster.store_facts import LIVE_BYTES, facts_of
from partibus.control.record import Placement
from partibus.domain.errors import BusError, OperationTimeout
from partibus.fragment.broker import Broker, Scheduler
from partibus.fragment.commands import Question
from partibus.fragment.handle import Fragment
from partibus.store.interface import StoreState

VERSION: Final = 1
"""Of the rows; workers of one server are of one release, so others are simply refused."""
HELLO: Final = 0
RETRY_S_MIN: Final = 0.02
RETRY_S_MAX: Final = 0.5
GREETING_S: Final = 5.0
PING_S: Final = 1.0
SILENCE_S: Final = 5.0
"""Well under the 15 seconds within which a send must go elsewhere (SEED-40)."""
GATHERING_S: Final = 15.0
"""How long a starting worker waits for the others before it serves without them."""
ANSWER_S: Final = 5.0
"""How long an administrative question may take."""

log = logging.getLogger(__name__)


class Peers:
    """All other workers, in both directions."""

    def __init__(
        self,
        membership: Membership,
        loop: asyncio.AbstractEventLoop,
        scheduler: Scheduler,
        find: Callable[[int], Fragment | None],
        control: ControlHub,
    ) -> None:
        self.membership = membership
        self.loop = loop
        self._find = find
        self._control = control
        self._far = {worker: FarBroker(worker, scheduler) for worker in membership.others}
        self._connectors: list[asyncio.Task[None]] = []
        self._answering: set[asyncio.Task[bytes]] = set()
        """Answers that wait for a store; the loop itself keeps only weak references."""
        self._all_connected = asyncio.Event()
        self._heard_from = {worker: asyncio.Event() for worker in membership.others}
        """Set by the greeting of a worker, which can be reached at that moment."""
        self._server: asyncio.AbstractServer | None = None
        self._guests: dict[Guest, None] = {}
        self._callers: dict[Caller, None] = {}
        self._brokers: Mapping[int, Broker] = {}
        self.is_serving = True
        control.reach(self)

    def watch(self, brokers: Mapping[int, Broker]) -> None:
        """Tell the others how these stores answer."""
        self._brokers = brokers
        for broker in brokers.values():
            broker.on_state = self._store_changed

    def fragment(self, placement: Placement, index: int) -> RemoteFragment:
        """The handle of a fragment that another worker runs."""
        far = self._far[self.membership.owner_of(placement.store)]
        return RemoteFragment(far, placement.fragment_id, index, placement.store)

    def is_available(self, store: int) -> bool:
        """Whether a store of another worker answers, as far as is known here."""
        return self._far[self.membership.owner_of(store)].is_available(store)

    def is_down(self, store: int) -> bool:
        """Whether another worker has said that a store of its own does not answer."""
        return self._far[self.membership.owner_of(store)].is_down(store)

    def live_bytes(self, store: int) -> int:
        """What a store of another worker holds, as of its last answer."""
        return self.facts(store)[LIVE_BYTES]

    def facts(self, store: int) -> StoreFacts:
        """How a store of another worker is, as of its last answer."""
        known = self._far[self.membership.owner_of(store)].store_facts
        return known.get(store, (store, 0, 0, 0))

    # --- life -----------------------------------------------------------------------------

    async def start(self) -> None:
        """Let the others in, and wait until all of them can be asked and can ask, but not for
        ever. A worker that nobody can ask would serve clients and miss changes of the catalog."""
        path = self.membership.socket_path(self.membership.worker)
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        self._server = await self.loop.create_unix_server(lambda: Guest(self).channel, str(path))
        for far in self._far.values():
            self._connectors.append(self.loop.create_task(self._keep_connected(far)))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._all_connected.wait(), GATHERING_S)

    @property
    def is_at_rest(self) -> bool:
        """Whether the others have answered everything that was asked of them."""
        return all(far.is_at_rest for far in self._far.values())

    def say_quiet(self) -> None:
        """Let the others know that nothing more is asked of them."""
        for caller in self._callers:
            caller.channel.post((QUIET, 0), ROW_BYTES)

    def others_are_quiet(self) -> bool:
        """Whether all that are connected have said so; only then may this one stop to serve."""
        return all(guest.is_quiet for guest in self._guests)

    def stop_serving(self) -> None:
        """Take no more requests; those that were taken are still answered."""
        self.is_serving = False
        for guest in self._guests:
            guest.channel.pause_reading()

    async def close(self) -> None:
        """Send the last answers and leave."""
        for connector in self._connectors:
            connector.cancel()
        await asyncio.gather(*self._connectors, return_exceptions=True)
        if self._server is not None:
            self._server.close()
        for guest in list(self._guests):
            guest.channel.close()

    def lost_workers(self) -> list[int]:
        """Workers that do not answer now."""
        return [worker for worker, far in self._far.items() if not far.is_connected]

    # --- to the others ----------------------------------------------------------------------

    async def _keep_connected(self, far: FarBroker) -> None:
        """Connect, stay until it is lost, and again."""
        delay_s = RETRY_S_MIN
        heard = self._heard_from[far.worker]
        while True:
            heard.clear()
            caller = Caller(self, far)
            try:
                if await caller.connect():
                    delay_s = RETRY_S_MIN
                    self._callers[caller] = None
                    await caller.until_lost()
                    log.warning("worker %d is lost; connecting to it again", far.worker)
            finally:
                self._callers.pop(caller, None)
                caller.channel.abort()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await heard.wait()
            delay_s = min(2 * delay_s, RETRY_S_MAX)

    def count_connected(self) -> None:
        """One more is there, in one direction."""
        asking = {guest.worker for guest in self._guests}
        if not self.lost_workers() and asking.issuperset(self.membership.others):
            self._all_connected.set()

    # --- from the others --------------------------------------------------------------------

    def make_host(self, guest: "Guest") -> Host:
        """Serve a worker that has greeted."""
        host = Host(guest.channel, self._find, self._answer, self._store_facts)
        self._guests[guest] = None
        self._heard_from[guest.worker].set()
        self.count_connected()
        guest.channel.post(self._stores_row(), ROW_BYTES)
        if not self.is_serving:
            guest.channel.pause_reading()
        return host

    def forget(self, guest: "Guest") -> None:
        """A worker that asked is gone."""
        self._guests.pop(guest, None)

    def _stores_row(self) -> Row:
        brokers = self._brokers.items()
        return (STORES_DOWN, 0, [n for n, b in brokers if b.store.state is StoreState.DOWN])

    def _store_facts(self) -> list[StoreFacts]:
        return [facts_of(number, broker) for number, broker in self._brokers.items()]

    def _store_changed(self, _state: StoreState) -> None:
        for guest in self._guests:
            guest.channel.post(self._stores_row(), ROW_BYTES)

    # --- questions (the `FarWorkers` of the control hub) ------------------------------------

    @property
    def numbers(self) -> list[int]:
        return self.membership.others

    async def ask(self, worker: int, name: str, payload: Payload) -> Payload:
        """Put a question to another worker; a BusError when it does not answer in time."""
        answer = _Answer(self.loop)
        self._far[worker].submit(0, Question(answer, name, msgspec.json.encode(payload)))
        try:
            line = await asyncio.wait_for(answer.future, ANSWER_S)
        except TimeoutError:
            raise OperationTimeout(f"Worker {worker} did not answer '{name}' in time.") from None
        return msgspec.json.decode(line, type=Payload)

    def _answer(self, name: str, payload: bytes) -> bytes | asyncio.Future[bytes]:
        with _failures_of(name):
            answer = self._control.answer(name, msgspec.json.decode(payload, type=Payload))
            if isinstance(answer, dict):
                return msgspec.json.encode(answer)
        task = self.loop.create_task(_encoded_later(name, answer))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)
        return task


async def _encoded_later(name: str, answer: Awaitable[Payload]) -> bytes:
    with _failures_of(name):
        return msgspec.json.encode(await answer)


@contextlib.contextmanager
def _failures_of(name: str) -> Iterator[None]:
    """A failing handler is logged here and reported to the worker that asked."""
    try:
        yield
    except BusError:
        raise
    except Exception as cause:
        log.exception("the question '%s' of another worker failed", name)
        raise BusError(f"The question '{name}' failed; see the log.") from cause


def greeting(membership: Membership) -> Row:
    """What both ends say first."""
    return (HELLO, VERSION, membership.run, membership.worker)


def is_greeting(rows: Sequence[Row], membership: Membership) -> bool:
    """Whether the peer is a worker of the same run and release."""
    greeting_row = rows[0]
    is_ours = list(greeting_row[:3]) == [HELLO, VERSION, membership.run]
    return is_ours and len(greeting_row) == 4 and greeting_row[3] in membership.others


class Caller:
    """One attempt to reach another worker, and the connection it led to."""

    def __init__(self, peers: Peers, far: FarBroker) -> None:
        self._peers = peers
        self._far = far
        self._is_connected = False
        self._greeted: asyncio.Future[bool] = peers.loop.create_future()
        self._over: asyncio.Future[None] = peers.loop.create_future()
        self.channel = PeerChannel(peers.loop, self._hear_greeting, self._end)

    async def connect(self) -> bool:
        """Whether it answers."""
        loop, membership = self._peers.loop, self._peers.membership
        path = str(membership.socket_path(self._far.worker))
        try:
            await loop.create_unix_connection(lambda: self.channel, path)
        except OSError:
            return False
        self.channel.post(greeting(membership), ROW_BYTES)
        try:
            return await asyncio.wait_for(self._greeted, GREETING_S)
        except TimeoutError:
            return False

    async def until_lost(self) -> None:
        """Return when the connection has ended, or has been silent for too long."""
        loop, channel = self._peers.loop, self.channel
        quiet_s = 0.0
        while not self._over.done():
            asked_at = loop.time()
            channel.post((PING, 0), ROW_BYTES)
            await asyncio.wait([self._over], timeout=PING_S)
            # Counted in pings, so that a pause of this process is not taken for one of the other.
            quiet_s = 0.0 if channel.last_heard >= asked_at else quiet_s + PING_S
            if quiet_s >= SILENCE_S:
                log.error("worker %d does not answer and is considered lost", self._far.worker)
                return

    def _hear_greeting(self, rows: Sequence[Row]) -> None:
        if not is_greeting(rows, self._peers.membership):
            log.error("worker %d is of another run or release", self._far.worker)
            self.channel.abort()
        elif not self._greeted.done():
            self._greeted.set_result(True)
            self._is_connected = True
            self.channel.receive = self._far.receive
            self.channel.on_unsendable = self._far.unsendable
            self._far.connected(self.channel)
            self._peers.count_connected()

    def _end(self) -> None:
        if self._is_connected:
            self._is_connected = False
            self._far.disconnected(self.channel.unsent())
        if not self._greeted.done():
            self._greeted.set_result(False)
        if not self._over.done():
            self._over.set_result(None)


class Guest:
    """A connection on which another worker asks."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._host: Host | None = None
        self.worker = -1
        """The number of the worker that asks, as its greeting says."""
        self.channel = PeerChannel(peers.loop, self._hear_greeting, self._end)
        self.channel.after_flush = self._read_on
        self.channel.on_blocked = self._blocked

    def _hear_greeting(self, rows: Sequence[Row]) -> None:
        if not is_greeting(rows, self._peers.membership):
            log.error("an unknown process connected to the socket of the workers")
            self.channel.abort()
            return
        self.worker = rows[0][3]
        self.channel.post(greeting(self._peers.membership), ROW_BYTES)
        self.channel.flush()
        self._host = self._peers.make_host(self)
        self.channel.receive = partial(self._serve, self._host)
        self.channel.on_unsendable = self._host.unsendable

    @property
    def is_quiet(self) -> bool:
        """Whether it asks for nothing more."""
        return self._host is not None and self._host.is_quiet

    def _serve(self, host: Host, rows: Sequence[Row]) -> None:
        host.receive(rows)
        if host.is_behind:
            self.channel.pause_reading()

    def _read_on(self) -> None:
        """Answers went out: read again if that was the reason not to."""
        host = self._host
        if host is not None and self._peers.is_serving and not host.is_behind:
            self.channel.resume_reading()

    def _blocked(self, is_blocked: bool) -> None:
        """A worker that does not take its answers is asked for no more questions."""
        if is_blocked:
            self.channel.pause_reading()
        else:
            self._read_on()

    def _end(self) -> None:
        self._peers.forget(self)
        if self._host is not None:
            self._host.close()


class _Answer:
    """The port of a question, as a future."""

    __slots__ = ("future",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.future: asyncio.Future[bytes] = loop.create_future()

    def answered(self, payload: bytes) -> None:
        if not self.future.done():
            self.future.set_result(payload)

    def failed(self, error: BusError) -> None:
        if not self.future.done():
            self.future.set_exception(error)
