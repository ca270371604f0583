"""The guarantees given to clients: the model that the bus is checked against.

Owns one line for each message and each place it was sent to, and the rules that every line must
keep. It receives what clients observe, in that order, and raises `Violation` at the first broken
promise. It must never look into the bus.

A message is *accepted* when the bus has confirmed it, *refused* when the bus has said that it was
not stored, and in doubt otherwise. A copy is *done* when the bus has confirmed that it is settled
for good, and in doubt when that was asked for and never answered.
"""

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from partibus.simulation.world import Violation, World

if TYPE_CHECKING:
    from partibus.simulation.net import Connection

LATE_US_MAX = 50_000
"""How long a message may take from the decision to deliver it until it is written."""
_BODY = re.compile(rb"<sim ([0-9]+) ([0-9]+) ([0-9a-f]{8})>")


@dataclass(slots=True, eq=False)
class Copy:
    """A message at one place."""

    place: str
    arrivals: int = 0
    is_asked: bool = False
    """Its end was requested and not answered: it may be gone."""
    doubts: int = 0
    """Settlements outside of transactions that were requested and not answered."""
    done_us: int | None = None
    is_expected: bool = True
    """False where a message may be lost by design (receive and delete)."""


@dataclass(slots=True, eq=False)
class Letter:
    """A message that a client wants to send."""

    number: int
    copies: dict[str, Copy]
    session: str = ""
    size: int = 0
    is_accepted: bool = False
    is_refused: bool = False
    sent_us: int = 0
    accepted_us: int = 0
    due_us: int = 0
    """Must not be visible before this, when it was scheduled."""
    life_us: int = 0
    """How long it may wait to be received; forever when 0."""

    def body(self) -> bytes:
        """The bytes that identify it."""
        filler = (b"%d " % self.number) * (1 + self.size // 8)
        return b"<sim %d %d %08x>" % (self.number, len(filler), zlib.crc32(filler)) + filler


@dataclass(slots=True)
class Holder:
    """Who holds a session."""

    who: str
    since_us: int
    until_us: int
    """When it ended, or will end by itself."""
    connection: "Connection | None" = None
    """The connection that it depends on."""

    def ended_us(self) -> int:
        """The latest time at which another client may have got the session."""
        broken_us = None if self.connection is None else self.connection.broken_us
        return self.until_us if broken_us is None else min(self.until_us, broken_us)


@dataclass(slots=True, eq=False)
class Move:
    """A transaction: one message is completed and another is sent."""

    source: Copy
    letter: Letter
    was_asked: bool
    """Whether the end of the source was in doubt before."""
    outcome: str = "open"


@dataclass(slots=True)
class Totals:
    """What happened in a run, for people."""

    accepted: int = 0
    refused: int = 0
    arrived: int = 0
    completed: int = 0
    lost_locks: int = 0
    sessions: int = 0
    moves: int = 0
    scheduled: int = 0
    deferred: int = 0
    claims: int = 0
    stages: int = 0
    ranges: int = 0


class Ledger:
    """All messages of a run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.letters: list[Letter] = []
        self.totals = Totals()
        self.moves: list[Move] = []
        self.states: dict[str, list[bytes | None]] = {}
        """The possible states of each session: the last confirmed one, and those in doubt since."""
        self.decided_us: Callable[[bytes, int], int] = self._latest
        """When the bus decided to deliver a message, by its bytes and when they were written."""
        self._holders: dict[tuple[str, str], Holder] = {}
        self._sessions: dict[tuple[str, str], list[Letter]] = {}

    # --- sending ------------------------------------------------------------------------------

    def write(self, places: list[str], *, session: str = "", size: int = 0) -> Letter:
        """A new message for these places."""
        copies = {place: Copy(place) for place in places}
        letter = Letter(len(self.letters), copies, session, size)
        letter.sent_us = self._world.now_us
        self.letters.append(letter)
        if session:
            self._sessions.setdefault((places[0], session), []).append(letter)
        return letter

    def accepted(self, letter: Letter) -> None:
        """The bus has accepted it."""
        if letter.is_refused:
            raise Violation(f"message {letter.number} was refused and then accepted")
        letter.is_accepted = True
        letter.accepted_us = self._world.now_us
        self.totals.accepted += 1
        self._world.note("ledger", f"accepted {letter.number}")

    def refused(self, letter: Letter) -> None:
        """The bus has refused it."""
        letter.is_refused = True
        self.totals.refused += 1
        self._world.note("ledger", f"refused {letter.number}")

    # --- receiving ----------------------------------------------------------------------------

    def arrived(self, place: str, payload: bytes, written_us: int) -> tuple[Letter, Copy]:
        """A message arrived, in bytes that the bus wrote at that time."""
        letter = self._read(place, payload)
        copy = letter.copies.get(place)
        if copy is None:
            raise Violation(f"message {letter.number} came from {place}, where nobody sent it")
        if letter.is_refused:
            raise Violation(f"message {letter.number} was refused and came from {place}")
        if copy.done_us is not None and self.decided_us(payload, written_us) > copy.done_us:
            raise Violation(
                f"message {letter.number} was settled at {copy.done_us} us and was handed out "
                f"from {place} at {written_us} us"
            )
        copy.arrivals += 1
        self.totals.arrived += 1
        self._world.note("ledger", f"arrived {letter.number} from {place}")
        return letter, copy

    def _latest(self, payload: bytes, written_us: int) -> int:
        """When the bus decided to deliver a message, as far as is known: when it wrote it."""
        return written_us

    def _read(self, place: str, payload: bytes) -> Letter:
        found = _BODY.search(payload)
        if found is None:
            raise Violation(f"{place} handed out a message that nobody wrote: {payload[:80]!r}")
        number, length, crc = int(found[1]), int(found[2]), int(found[3], 16)
        filler = payload[found.end() : found.end() + length]
        if number >= len(self.letters) or len(filler) != length or zlib.crc32(filler) != crc:
            raise Violation(f"{place} handed out message {number} with different bytes")
        return self.letters[number]

    def in_order(self, letter: Letter, place: str) -> None:
        """A message of a session arrived for the first time: all earlier ones must have arrived."""
        for earlier in self._sessions.get((place, letter.session), ()):
            if earlier is letter:
                return
            copy = earlier.copies[place]
            settled = copy.is_asked or copy.done_us is not None
            was_before = earlier.is_accepted and earlier.accepted_us <= letter.sent_us
            if was_before and not copy.arrivals and not settled:
                raise Violation(
                    f"session {letter.session} of {place}: message {letter.number} came "
                    f"before message {earlier.number}, which was sent before it"
                )

    def not_early(self, letter: Letter, slack_us: int) -> None:
        """A scheduled message was delivered."""
        if self._world.now_us + slack_us < letter.due_us:
            raise Violation(
                f"message {letter.number} is due at {letter.due_us} us and came at "
                f"{self._world.now_us} us"
            )

    def not_late(self, letter: Letter, written_us: int) -> None:
        """A message that expires was delivered, in bytes that the bus wrote at that time."""
        late_us = written_us - letter.accepted_us - letter.life_us
        if letter.is_accepted and late_us > LATE_US_MAX:
            raise Violation(
                f"message {letter.number} was accepted at {letter.accepted_us} us for "
                f"{letter.life_us} us and was handed out at {written_us} us"
            )

    # --- settling -----------------------------------------------------------------------------

    def not_done(self, copy: Copy) -> None:
        """The bus has answered that nothing changed; an earlier request stays in doubt."""
        self.totals.lost_locks += 1

    def done(self, letter: Letter, copy: Copy) -> None:
        """The bus has confirmed that a copy is settled for good."""
        if copy.done_us is not None:
            raise Violation(f"message {letter.number} of {copy.place} was settled twice")
        copy.done_us = self._world.now_us
        self.totals.completed += 1
        self._world.note("ledger", f"done {letter.number} at {copy.place}")

    # --- sessions -----------------------------------------------------------------------------

    def holds(self, place: str, session: str, who: str, written_us: int, until_us: int) -> Holder:
        """The bus gave a session to a client."""
        before = self._holders.get((place, session))
        if before is not None and before.ended_us() > written_us > before.since_us:
            raise Violation(
                f"session {session} of {place} was given to {who} at {written_us} us while "
                f"{before.who} held it from {before.since_us} to {before.until_us} us"
            )
        holder = self._holders[place, session] = Holder(who, written_us, until_us)
        self.totals.sessions += 1
        self._world.note("ledger", f"{who} holds {session} of {place}")
        return holder

    def held_sessions(self, place: str) -> list[str]:
        """The sessions of a place that are or were held, in the order of their first holders."""
        return [session for where, session in self._holders if where == place]

    # --- reading along ------------------------------------------------------------------------

    def read_along(self, place: str, payload: bytes) -> Letter:
        """A message was read by a cursor."""
        letter = self._read(place, payload)
        if place not in letter.copies:
            raise Violation(f"message {letter.number} was read at {place}, where nobody sent it")
        if letter.is_refused:
            raise Violation(f"message {letter.number} was refused and was read at {place}")
        return letter

    # --- at the end ---------------------------------------------------------------------------

    def close(self) -> None:
        """Everything has drained: every accepted message must have reached its end."""
        for letter in self.letters:
            if not letter.is_accepted:
                continue
            for copy in letter.copies.values():
                if copy.is_expected and copy.done_us is None and not copy.is_asked:
                    raise Violation(
                        f"message {letter.number} was accepted by {copy.place} at "
                        f"{letter.accepted_us} us and is lost ({copy.arrivals} arrivals)"
                    )
        by_source: dict[int, list[Move]] = {}
        for move in self.moves:
            self._close_move(move)
            by_source.setdefault(id(move.source), []).append(move)
        for moves in by_source.values():
            self._close_source(moves)

    def _close_move(self, move: Move) -> None:
        """All of a transaction or nothing."""
        number, has_come = move.letter.number, _has_come(move)
        if move.outcome == "committed" and not has_come:
            raise Violation(f"a transaction was committed and its message {number} is lost")
        if move.outcome == "rolled back" and has_come:
            raise Violation(f"a transaction was rolled back and its message {number} came")

    def _close_source(self, moves: list[Move]) -> None:
        """What was moved, perhaps more than once, was replaced once or is still there."""
        source = moves[0].source
        came = [move.letter.number for move in moves if _has_come(move)]
        outcomes = {move.outcome for move in moves}
        was_settled = source.done_us is not None and "committed" not in outcomes
        if len(came) + was_settled > 1:
            raise Violation(
                f"a message was moved as message {came[0]}, and was settled or moved again"
            )
        if came or source.done_us is not None or source.doubts or moves[0].was_asked:
            return
        if outcomes <= {"in doubt", "rolled back"} and "in doubt" in outcomes:
            number = moves[-1].letter.number
            raise Violation(
                f"message {number} of a transaction never came, and the message that it "
                "replaces is gone"
            )


def _has_come(move: Move) -> bool:
    return any(copy.arrivals > 0 for copy in move.letter.copies.values())
