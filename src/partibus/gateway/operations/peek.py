"""Peek: copies of messages from a sequence number on, over all fragments of an entity.

Owns `peek-message` and the positions that let repeated peeks walk a partitioned entity: what the
fragments show is merged by enqueued time (PEK-9), and each receiver's next peek goes on where its
last one ended in every fragment. A sequence number other than that of the last peek starts again in
the fragment it names and goes on to those with higher indexes. With the vendor's behaviour
configured, a peek shows only messages of the first fragment that answers with any (SEED-13, CON-6).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from partibus.amqp.codec.sections import parse_sections
from partibus.domain.errors import ArgumentError, BusError
from partibus.domain.limits import KILOBYTE
from partibus.domain.partition_key import fragment_index
from partibus.domain.sequence import client_sequence, split_sequence
from partibus.fragment.commands import Peek
from partibus.fragment.handle import Fragment
from partibus.fragment.message import Held
from partibus.gateway.namespace import require_receivable
from partibus.gateway.operations.fanout import FanOut, Messages, MessagesPart
from partibus.message.damaged import damaged_message
from partibus.message.envelope import to_peeked

if TYPE_CHECKING:
    from partibus.gateway.management import ManagementRequest

PEEK_BYTES_MAX: Final = 256 * KILOBYTE
"""Size of one answer (PEK-7); a single larger message is still shown."""
POSITIONS_MAX: Final = 256
"""Positions a connection keeps; the oldest is forgotten, and its walk starts again."""


@dataclass(eq=False, slots=True)
class PeekPosition:
    """The position of one receiver's walk over several fragments."""

    next_numbers: dict[int, int]
    """By fragment index, the number to continue from; absent fragments are skipped."""
    is_merged: bool
    last: int = -1
    """The sequence number that the last answer ended with."""


Found = tuple[Fragment, Held, bytes]
_NOTHING: Final[Messages] = ((), ())


class FirstAnswer(FanOut[Messages]):
    """The first fragment that returns messages answers for all; the others are not waited for."""

    def put(self, part: int, result: Messages) -> None:
        """Take the answer of one fragment, unless another was first."""
        if self.is_over:
            return
        if not result[0]:
            super().put(part, result)
            return
        shown: list[Messages | None] = [_NOTHING] * self.count
        shown[part] = result
        self.end(shown)

    def put_error(self, part: int, error: BusError) -> None:
        """A failure counts only when no fragment has any messages."""
        if not self.is_over:
            super().put_error(part, error)


def peek_message(request: "ManagementRequest") -> None:
    """Return messages; 204 when there are none."""
    require_receivable(request.entity)
    most = request.node.connection.gateway.profile.peek_messages_max
    count = min(request.number("message-count", 1), most)
    if count < 1:
        raise ArgumentError("'message-count' must be at least 1.")
    from_sequence = max(0, request.number("from-sequence-number", 0))
    session_id = request.session_id() if request.is_in_sessions else None
    omits_body = request.fields.get("omit-message-body") is True  # PEK-11
    position = _position(request, from_sequence, session_id)
    asked = [
        fragment
        for fragment in request.entity.fragments
        if fragment.index in position.next_numbers and fragment.is_available
    ]
    if not asked:
        request.succeed_empty()
        return

    def finish(results: list[Messages | None]) -> None:
        shown = _choose(position, _ordered(position, asked, results), count, omits_body)
        if shown:
            request.succeed({"messages": shown})
        else:
            request.succeed_empty()

    fan_out: FanOut[Messages]
    if request.node.connection.gateway.merges_peeks:
        fan_out = FanOut(len(asked), finish, request.fail_fan_out)
    else:
        fan_out = FirstAnswer(len(asked), finish, request.fail_fan_out)
    for part, fragment in enumerate(asked):
        number = position.next_numbers[fragment.index]
        port = MessagesPart(fan_out, part)
        fragment.submit(Peek(port, request.subqueue, number, count, PEEK_BYTES_MAX, session_id))


def _position(
    request: "ManagementRequest", from_sequence: int, session_id: str | None
) -> PeekPosition:
    """The walk that a peek continues, or a new one."""
    positions = request.node.connection.peek_positions
    key = (request.entity.record.path, request.subqueue, session_id, request.link_name)
    position = positions.get(key)
    if position is not None and from_sequence == position.last + 1 and position.last >= 0:
        return position
    index, number = split_sequence(from_sequence)
    indexes = [fragment.index for fragment in request.entity.fragments]
    if session_id is not None:
        # All of a session is in the fragment of its id (SEED-31).
        indexes = [fragment_index(session_id, len(indexes))]
    if from_sequence <= 1:
        position = PeekPosition(dict.fromkeys(indexes, 0), True)
    else:
        later = {i: number if i == index else 0 for i in indexes if i >= index}
        position = PeekPosition(later, False)
    positions.pop(key, None)
    if len(positions) >= POSITIONS_MAX:
        del positions[next(iter(positions))]
    positions[key] = position
    return position


def _ordered(
    position: PeekPosition, asked: Sequence[Fragment], results: Sequence[Messages | None]
) -> Iterator[Found]:
    """The messages of all fragments, in the order of the walk."""
    found: list[Found] = []
    for fragment, result in zip(asked, results, strict=True):
        assert result is not None
        found += [(fragment, held, body) for held, body in zip(*result, strict=True)]
    if position.is_merged and len(asked) > 1:
        found.sort(key=lambda item: (item[1].enqueued_ms, item[0].index, item[1].sequence))
    return iter(found)


def _choose(
    position: PeekPosition, found: Iterator[Found], count: int, omits_body: bool
) -> list[object]:
    """As many as were asked for and fit, with the position moved behind them."""
    shown: list[object] = []
    byte_count = 0
    for fragment, held, body in found:
        byte_count += held.length
        if len(shown) >= count or (shown and byte_count > PEEK_BYTES_MAX):
            break
        sequence = client_sequence(fragment.index, held.sequence)
        stored = body if body else damaged_message(sequence)
        peeked = to_peeked(stored, held, sequence)
        shown.append({"message": without_body(peeked) if omits_body else peeked})
        position.next_numbers[fragment.index] = held.sequence + 1
        position.last = sequence
    return shown


def without_body(payload: bytes) -> bytes:
    """A message without its body and its footer, which describes the body."""
    body_at = parse_sections(payload).body_offset
    return payload if body_at < 0 else payload[:body_at]
