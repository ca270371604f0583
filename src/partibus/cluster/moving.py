"""The handle of a fragment whose lane moves between nodes.

Owns the routing from links, couriers and the HTTP plane to wherever a fragment is served now: a
broker of this process, another node, or none for the moment. The handle itself never changes; when
the lane moves its receivers are interrupted, as after the loss of a worker, and ask again when it
is served. Earlier commands are answered by the earlier place. Nothing is submitted twice: the
outcome of pending commands may be unknown. It must never decide about lanes; the node binds it.
"""

from collections.abc import Sequence

from partibus.domain.errors import BusError
from partibus.fragment.commands import (
    Command,
    Consumer,
    Demand,
    Detach,
    Interest,
    Outcome,
    Receiver,
    Settle,
    SubQueueType,
)
from partibus.fragment.handle import Fragment, LocalFragment
from partibus.fragment.message import Held
from partibus.fragment.sessions.commands import AcceptSession, SessionConsumer, SessionReceiver


class MovingFragment:
    """A fragment, wherever it is served."""

    __slots__ = ("_is_served", "_relays", "_target", "fragment_id", "index")

    def __init__(self, fragment_id: int, index: int, target: Fragment) -> None:
        """`target` refuses everything, until the handle is bound."""
        self.fragment_id = fragment_id
        self.index = index
        self._target = target
        self._is_served = False
        self._relays: dict[Consumer, Relay] = {}

    def bind(self, target: Fragment, is_served: bool) -> None:
        """The lane is served there from now on; or by none, in which case everything is refused."""
        if target is self._target or not (is_served or self._is_served):
            return
        was_served, self._is_served = self._is_served, is_served
        relays = list(self._relays.values())
        for relay in relays:
            relay.leave()
        self._target = target
        for relay in relays:
            self._relays[relay.front] = relay.following(target)
        # A notified receiver may send demand at once, or leave: the new place is already bound.
        for relay in relays:
            if relay.front in self._relays:
                relay.report_move(was_served)
        if is_served:
            for relay in relays:
                if relay.front in self._relays:
                    relay.front.receiver.resumed()

    def submit(self, command: Command) -> None:
        if isinstance(command, Demand):
            self._relays[command.consumer].demand(command)
        elif isinstance(command, Interest):
            self._target.submit(Interest(self._relays[command.consumer].back))
        elif isinstance(command, AcceptSession):
            relay = self._relays[command.consumer]
            assert isinstance(relay, SessionRelay)
            relay.accept(command)
        elif isinstance(command, Detach):
            self._relays.pop(command.consumer).detach()
        else:
            self._target.submit(command)

    def consumer(self, receiver: Receiver, subqueue: SubQueueType, deletes: bool) -> Consumer:
        front = Consumer(self.fragment_id, receiver, subqueue, deletes)
        self._relays[front] = Relay(front, self._target)
        return front

    def session_consumer(self, receiver: SessionReceiver, deletes: bool) -> SessionConsumer:
        front = SessionConsumer(self.fragment_id, receiver, deletes)
        self._relays[front] = SessionRelay(front, self._target)
        return front

    @property
    def local(self) -> LocalFragment | None:
        return self._target.local

    @property
    def is_available(self) -> bool:
        return self._target.is_available

    @property
    def obstacle(self) -> str:
        return self._target.obstacle


class Relay:
    """Connects a receiver to one place where its fragment is served."""

    __slots__ = ("_base", "_is_draining", "_is_gone", "_is_interrupted", "back", "front", "target")

    def __init__(self, front: Consumer, target: Fragment) -> None:
        self.front = front
        self.target = target
        self._base = front.sent
        """Messages that the receiver got from other places; demand is a running total."""
        self._is_draining = False
        self._is_interrupted = False
        self._is_gone = False
        self.back: Consumer = self._new_consumer()

    def _new_consumer(self) -> Consumer:
        return self.target.consumer(self, self.front.subqueue, self.front.deletes)

    def following(self, target: Fragment) -> "Relay":
        """The relay for the next place."""
        return Relay(self.front, target)

    def demand(self, command: Demand) -> None:
        """Ask for messages."""
        self._is_draining = command.drain
        self.target.submit(Demand(self.back, command.limit - self._base, command.drain))

    def detach(self) -> None:
        """The receiver itself leaves; messages still in flight to it are returned."""
        self.target.submit(Detach(self.back))

    def leave(self) -> None:
        """The lane is no longer served here."""
        self._is_gone = True
        self.target.submit(Detach(self.back))

    def report_move(self, was_served: bool) -> None:
        """Notify the receiver once that the lane was served here."""
        if self._is_draining:
            self._is_draining = False
            self.front.receiver.drained()
        if was_served and not self._is_interrupted:
            self.front.receiver.interrupted()

    # --- from the place -----------------------------------------------------------------------

    def deliver(self, messages: Sequence[Held], bodies: Sequence[bytes]) -> None:
        if self._is_gone:
            tokens = [held.token for held in messages if held.token]
            self.target.submit(Settle(None, None, self.front.subqueue, tokens, Outcome.RELEASE))
            return
        self.front.sent += len(messages)
        self.front.receiver.deliver(messages, bodies)

    def drained(self) -> None:
        if not self._is_gone and self._is_draining:
            self._is_draining = False
            self.front.receiver.drained()

    def available(self) -> None:
        if not self._is_gone:
            self.front.receiver.available()

    def interrupted(self) -> None:
        if not self._is_gone:
            self._is_interrupted = True
            self.front.receiver.interrupted()

    def resumed(self) -> None:
        if not self._is_gone:
            self._is_interrupted = False
            self.front.receiver.resumed()


class SessionRelay(Relay):
    """The same for a receiver of one session."""

    __slots__ = ("_session_back", "_session_front")

    def __init__(self, front: SessionConsumer, target: Fragment) -> None:
        self._session_front = front
        self._session_back: SessionConsumer
        super().__init__(front, target)

    def _new_consumer(self) -> Consumer:
        self._session_back = self.target.session_consumer(self, self.front.deletes)
        return self._session_back

    def following(self, target: Fragment) -> Relay:
        return SessionRelay(self._session_front, target)

    def accept(self, command: AcceptSession) -> None:
        """Ask for a session."""
        mode = (command.is_exclusive, command.takes_over)
        asked = AcceptSession(self._session_back, command.session_id, command.waits, *mode)
        self.target.submit(asked)

    def accepted(self, session_id: str, locked_until_ms: int, lock: int) -> None:
        if not self._is_gone:
            self._session_front.session_receiver.accepted(session_id, locked_until_ms, lock)

    def not_accepted(self, error: BusError) -> None:
        if not self._is_gone:
            self._session_front.session_receiver.not_accepted(error)

    def session_lost(self, error: BusError) -> None:
        if not self._is_gone:
            self._session_front.session_receiver.session_lost(error)
