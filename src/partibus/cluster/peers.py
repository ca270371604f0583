"""The other workers of this server: connections to them and from them.

Owns one connection to each other worker, for requests of this one, and those from them, for their
requests to the fragments here; each end greets the other with the version and the group before
anything else. A lost worker is retried forever with a short back-off, and one that is silent for
SILENCE_S counts as lost, so that it cannot hold up the others. Made by the node; `cluster.remote`
and `cluster.hosting` own the rows and their meaning.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from partibus.cluster import codes
from partibus.cluster.channel import PeerChannel
from partibus.cluster.control_hub import ControlHub, Payload
from partibus.cluster.hosting import Host
from partibus.cluster.lane_table import LaneTable
from partibus.cluster.membership import PeerGroup
from partibus.cluster.remote import FarBroker, RemoteFragment
from partibus.cluster.rows import ROW_BYTES, VERSION, VERSION_MIN, Row, StoreFacts
from partibus.cluster.transport import PeerListener
from partibus.control.catalog.record import Placement
from partibus.domain.errors import BusError, OperationTimeout
from partibus.domain.scheduler import Scheduler
from partibus.fragment.broker import Broker
from partibus.fragment.commands import Question
from partibus.fragment.handle import Fragment
from partibus.store.interface import StoreState

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


@dataclass(eq=False)
class Peers:
    """All other workers, in both directions."""

    membership: PeerGroup
    loop: asyncio.AbstractEventLoop
    scheduler: Scheduler
    find: Callable[[int], Fragment | None]
    control: ControlHub

    def __post_init__(self) -> None:
        self._far: dict[int, FarBroker] = {}
        self._connectors: dict[int, asyncio.Task[None]] = {}
        self._answering: set[asyncio.Task[bytes]] = set()
        """Answers that wait for a store; the loop itself keeps only weak references."""
        self._all_connected = asyncio.Event()
        self._heard_from: dict[int, asyncio.Event] = {}
        """Set by the greeting of a worker, which is reachable at that moment."""
        self.transport = self.membership.transport
        self._listener: PeerListener | None = None
        self._inbound: dict[InboundPeer, None] = {}
        self._callers: dict[Caller, None] = {}
        self._brokers: Mapping[int, Broker] = {}
        self._on_store: Callable[[], None] | None = None
        self.is_serving = True
        self._is_closing = False
        self.lanes: LaneTable | None = None
        """Where lanes are served, when that changes; None where each store has its worker."""
        self._own_lanes: Mapping[int, int] = {}
        for number in self.membership.others:
            self._know(number)
        self.control.reach(self)

    def _know(self, number: int) -> FarBroker:
        far = self._far[number] = FarBroker(number, self.scheduler, self.membership.kind)
        self._heard_from[number] = asyncio.Event()
        return far

    def watch(
        self, brokers: Mapping[int, Broker], changed: Callable[[], None] | None = None
    ) -> None:
        """Report the states of these stores to the others, and to another listener."""
        self._brokers = brokers
        self._on_store = changed
        for broker in brokers.values():
            broker.on_state = self._store_changed

    def fragment(self, placement: Placement, index: int) -> RemoteFragment:
        """The handle of a fragment that another worker runs."""
        far = self._owner(placement.store)
        assert far is not None, "each store has its worker"
        return RemoteFragment(far, placement.fragment_id, index, placement.store)

    def far(self, number: int) -> FarBroker | None:
        """The fragments of one of the others; None when it no longer exists."""
        return self._far.get(number)

    def _owner(self, store: int) -> FarBroker | None:
        number = self.membership.owner_of(store)
        return None if number is None else self._far.get(number)

    def is_available(self, store: int) -> bool:
        """Whether a store of another worker answers, as far as is known here."""
        far = self._owner(store)
        return far is not None and far.is_available(store)

    def live_bytes(self, store: int) -> int:
        """The live bytes of another worker's store, as of its last answer."""
        far = self._owner(store)
        return 0 if far is None else far.live_bytes.get(store, 0)

    # --- start and end ------------------------------------------------------------------

    async def start(self) -> None:
        """Admit the others, and wait until requests work in both directions, but not forever. A
        worker that others cannot reach would serve clients and miss changes of the catalog."""
        self._listener = await self.transport.listen(self.loop, lambda: InboundPeer(self).channel)
        self.membership.watch(self._follow)
        for far in self._far.values():
            self._reach(far)
        self._follow()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._all_connected.wait(), GATHERING_S)

    def _reach(self, far: FarBroker) -> None:
        if self.lanes is not None:
            far.on_lanes = self.lanes.reported
        task = self.loop.create_task(self._keep_connected(far))
        self._connectors[far.worker] = task

    def _follow(self) -> None:
        """Connect to those that came, and disconnect from those that left."""
        others = self.membership.others
        for number in [number for number in self._far if number not in others]:
            del self._far[number], self._heard_from[number]
            self._connectors.pop(number).cancel()
            self._see_off(number)
        for number in others:
            if number not in self._far:
                self._reach(self._know(number))
        self.count_connected()  # those that left are not waited for
        for inbound in list(self._inbound):  # admitted before this node had read who has its number
            if not self.membership.is_member(inbound.worker, inbound.channel.certificate):
                inbound.channel.abort()

    def _see_off(self, number: int) -> None:
        """One that left, or hangs: nothing more is delivered to its receivers."""
        for inbound in [inbound for inbound in self._inbound if inbound.worker == number]:
            inbound.channel.abort()

    def serve_lanes(self, lanes: Mapping[int, int]) -> None:
        """Report to the others which lanes are served here, by their epochs, and the states of
        their stores: one that was down may have been opened again."""
        self._own_lanes = dict(lanes)
        for inbound in self._inbound:
            inbound.channel.post(self._stores_row(), ROW_BYTES)
            inbound.channel.post(self._lanes_row(), ROW_BYTES)

    def let_go(self, fragment_ids: Collection[int]) -> None:
        """These fragments are no longer served here: nothing of them is sent to the others."""
        for inbound in self._inbound:
            inbound.let_go(fragment_ids)

    def _lanes_row(self) -> Row:
        return (codes.LANES, 0, list(self._own_lanes.items()))

    @property
    def is_at_rest(self) -> bool:
        """Whether the others have answered all requests."""
        return all(far.is_at_rest for far in self._far.values())

    def say_quiet(self) -> None:
        """Announce to the others that no more requests will come."""
        for caller in self._callers:
            caller.channel.post((codes.QUIET, 0), ROW_BYTES)

    def others_are_quiet(self) -> bool:
        """Whether all connected ones have announced that; only then may this one stop serving."""
        return all(inbound.is_quiet for inbound in self._inbound)

    def stop_serving(self) -> None:
        """Accept no more requests; earlier ones are still answered."""
        self.is_serving = False
        for inbound in self._inbound:
            inbound.channel.pause_reading()

    async def close(self) -> None:
        """Send the last answers and disconnect."""
        self._is_closing = True  # a connector that is just connecting may miss its cancellation
        connectors = list(self._connectors.values())
        for connector in connectors:
            connector.cancel()
        await asyncio.gather(*connectors, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()
        for inbound in list(self._inbound):
            inbound.channel.close()

    def lost_workers(self) -> list[int]:
        """Workers that do not answer now."""
        return [worker for worker, far in self._far.items() if not far.is_connected]

    # --- to the others ----------------------------------------------------------------------

    async def _keep_connected(self, far: FarBroker) -> None:
        """Connect, stay until the connection is lost, and repeat."""
        delay_s = RETRY_S_MIN
        heard = self._heard_from[far.worker]
        while not self._is_closing:
            heard.clear()
            caller = Caller(self, far)
            try:
                if await caller.connect() and not self._is_closing:
                    delay_s = RETRY_S_MIN
                    self._callers[caller] = None
                    await caller.until_lost()
                    log.warning("%s is lost; connecting to it again", far.name)
            finally:
                self._callers.pop(caller, None)
                caller.leave()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await heard.wait()
            delay_s = min(2 * delay_s, RETRY_S_MAX)

    def count_connected(self) -> None:
        """One more is connected, in one direction."""
        asking = {inbound.worker for inbound in self._inbound}
        if not self.lost_workers() and asking.issuperset(self.membership.others):
            self._all_connected.set()

    # --- from the others --------------------------------------------------------------------

    def make_host(self, inbound: "InboundPeer") -> Host:
        """Serve a worker that has greeted."""
        host = Host(inbound.channel, self.find, self._answer, self._store_facts, inbound.version)
        self._inbound[inbound] = None
        if inbound.worker in self._heard_from:
            self._heard_from[inbound.worker].set()
        self.count_connected()
        inbound.channel.post(self._stores_row(), ROW_BYTES)
        if self.lanes is not None:
            inbound.channel.post(self._lanes_row(), ROW_BYTES)
        if not self.is_serving:
            inbound.channel.pause_reading()
        return host

    def forget(self, inbound: "InboundPeer") -> None:
        """A worker that sent requests is gone."""
        self._inbound.pop(inbound, None)

    def _stores_row(self) -> Row:
        brokers = self._brokers.items()
        return (codes.STORES_DOWN, 0, [n for n, b in brokers if b.store.state is StoreState.DOWN])

    def _store_facts(self) -> list[StoreFacts]:
        return [(number, broker.store.live_bytes) for number, broker in self._brokers.items()]

    def _store_changed(self, _state: StoreState) -> None:
        for inbound in self._inbound:
            inbound.channel.post(self._stores_row(), ROW_BYTES)
        if self._on_store is not None:
            self._on_store()

    # --- questions (the `FarWorkers` of the control hub) ------------------------------------

    @property
    def numbers(self) -> list[int]:
        return list(self._far)

    async def ask(self, worker: int, name: str, payload: Payload) -> Payload:
        """Ask another worker; a BusError when it does not answer in time."""
        answer = _Answer(self.loop)
        self._far[worker].submit(0, Question(answer, name, msgspec.json.encode(payload)))
        kind = self.membership.kind.capitalize()
        try:
            line = await asyncio.wait_for(answer.future, ANSWER_S)
        except TimeoutError:
            raise OperationTimeout(f"{kind} {worker} did not answer '{name}' in time.") from None
        return msgspec.json.decode(line, type=Payload)

    def _answer(self, name: str, payload: bytes) -> bytes | asyncio.Future[bytes]:
        with _failures_of(name):
            answer = self.control.answer(name, msgspec.json.decode(payload, type=Payload))
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
        log.exception("the request '%s' from another worker failed", name)
        raise BusError(f"The request '{name}' to another process failed; see the log.") from cause


def greeting(membership: PeerGroup) -> Row:
    """The first row of both ends: the newest and the oldest rows they support, the id of their
    group, and their number."""
    return (HELLO, VERSION, membership.group_id, membership.worker, VERSION_MIN)


def objection(channel: PeerChannel, rows: Sequence[Row], membership: PeerGroup) -> str | None:
    """Why the other end is refused; None when it is one of the others."""
    row = rows[0]
    if len(row) < 4 or row[0] != HELLO or not isinstance(row[1], int):
        return "it does not begin with the greeting of a process of this bus"
    oldest = row[4] if len(row) > 4 else row[1]
    if row[1] < VERSION_MIN or not isinstance(oldest, int) or oldest > VERSION:
        return (
            f"it speaks version {row[1]} of the protocol, not {VERSION_MIN} to {VERSION}. "
            "Upgrade one release at a time"
        )
    if row[2] != membership.group_id:
        return "it belongs to another server or cluster"
    if not membership.is_member(row[3], channel.certificate):
        return f"its certificate does not belong to number {row[3]}"
    return None


class Caller:
    """One attempt to reach another worker, and its connection."""

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
        try:
            await self._peers.transport.connect(loop, self._far.worker, self.channel)
        except OSError:
            return False
        self.channel.post(greeting(membership), ROW_BYTES)
        try:
            async with asyncio.timeout(GREETING_S):
                return await self._greeted
        except TimeoutError:
            return False

    async def until_lost(self) -> None:
        """Return when the connection has ended, or has been silent for too long."""
        loop, channel = self._peers.loop, self.channel
        quiet_s = 0.0
        while not self._over.done():
            asked_at = loop.time()
            channel.post((codes.PING, 0), ROW_BYTES)
            await asyncio.wait([self._over], timeout=PING_S)
            # Counted in pings, so that a pause of this process is not mistaken for one of the
            # other.
            quiet_s = 0.0 if channel.last_heard >= asked_at else quiet_s + PING_S
            if quiet_s >= SILENCE_S:
                log.error("%s does not answer and is considered lost", self._far.name)
                return

    def _hear_greeting(self, rows: Sequence[Row]) -> None:
        why = objection(self.channel, rows, self._peers.membership)
        if why is None and rows[0][3] != self._far.worker:
            why = f"it is number {rows[0][3]}"
        if why is not None:
            log.error("the process that answers as %s is refused: %s", self._far.name, why)
            self.channel.abort()
        elif not self._greeted.done():
            self._greeted.set_result(True)
            self._is_connected = True
            self.channel.receive = self._far.receive
            self.channel.on_unsendable = self._far.unsendable
            self._far.connected(self.channel)
            self._peers.count_connected()

    def leave(self) -> None:
        """End the connection now: its socket may report that only when the next one is made."""
        self.channel.abort()
        self._end()

    def _end(self) -> None:
        if self._is_connected:
            self._is_connected = False
            self._far.disconnected(self.channel.unsent())
        if not self._greeted.done():
            self._greeted.set_result(False)
        if not self._over.done():
            self._over.set_result(None)


class InboundPeer:
    """A connection on which another worker sends requests."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._host: Host | None = None
        self.worker = -1
        """The number of that worker, from its greeting."""
        self.version = VERSION
        """The newest version of the rows that it reads."""
        self.channel = PeerChannel(peers.loop, self._hear_greeting, self._end)
        self.channel.after_flush = self._read_on
        self.channel.on_blocked = self._blocked

    def _hear_greeting(self, rows: Sequence[Row]) -> None:
        why = objection(self.channel, rows, self._peers.membership)
        if why is not None:
            log.error("an unknown process connected and is refused: %s", why)
            self.channel.abort()
            return
        self.version, self.worker = rows[0][1], rows[0][3]
        self.channel.post(greeting(self._peers.membership), ROW_BYTES)
        self.channel.flush()
        self._host = self._peers.make_host(self)
        self.channel.receive = partial(self._serve, self._host)
        self.channel.on_unsendable = self._host.unsendable

    @property
    def is_quiet(self) -> bool:
        """Whether it sends no more requests."""
        return self._host is not None and self._host.is_quiet

    def let_go(self, fragment_ids: Collection[int]) -> None:
        """End its receivers on these fragments."""
        if self._host is not None:
            self._host.let_go(fragment_ids)

    def _serve(self, host: Host, rows: Sequence[Row]) -> None:
        host.receive(rows)
        if host.is_behind:
            self.channel.pause_reading()

    def _read_on(self) -> None:
        """Answers were sent: read again if reading was paused for that."""
        host = self._host
        if host is not None and self._peers.is_serving and not host.is_behind:
            self.channel.resume_reading()

    def _blocked(self, is_blocked: bool) -> None:
        """Pause reading from a worker that does not read its answers."""
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
