"""The durable facts of sessions, as bytes: records of the log and the section of a snapshot.

Owns their encodings and their replay. Messages are put into sessions by a record of their own
in the same entry as the messages, a run for each change of session; state is the body of its
record and is read from the store when it is asked for. Locks are volatile and not written.
"""

import struct
from collections.abc import Sequence
from typing import Final

from partibus.domain.errors import StoreCorrupt
from partibus.fragment.message import NewMessage
from partibus.fragment.paging import NewPages
from partibus.fragment.queue.history import Part
from partibus.fragment.records import IN_SESSIONS, SESSION_STATE
from partibus.fragment.sessions.state import NO_STATE, Session, Sessions
from partibus.fragment.state import State
from partibus.fragment.table_snapshot import TableReader
from partibus.store.record import Record

_RUN: Final = struct.Struct("<QIH")
_STATE: Final = struct.Struct("<QB")
_HEAD: Final = struct.Struct("<I")
_SESSION: Final = struct.Struct("<IqQQH")
_GAPS_MAX: Final = 16
_NUMBERS_MIN: Final = 65_536
"""A table of numbers may have this many entries, and `_GAPS_MAX` for each session; a session with a
number beyond that gets another, since a few bytes must not make a table of any size."""


def encode_id(session_id: str) -> bytes:
    """A session id as bytes, whatever characters a sender put into it."""
    return session_id.encode("utf-8", "surrogatepass")


def decode_id(encoded: bytes) -> str:
    """The session id from its bytes."""
    return encoded.decode("utf-8", "surrogatepass")


# --- messages ------------------------------------------------------------------------------------


def in_sessions(fragment_id: int, first_sequence: int, messages: Sequence[NewMessage]) -> Record:
    """The record that new messages belong to their sessions."""
    parts: list[bytes] = []
    start = 0
    for at in range(1, len(messages) + 1):
        session_id = messages[start].session_id or ""
        if at < len(messages) and (messages[at].session_id or "") == session_id:
            continue
        encoded = encode_id(session_id)
        parts.append(_RUN.pack(first_sequence + start, at - start, len(encoded)))
        parts.append(encoded)
        start = at
    return Record(fragment_id, IN_SESSIONS, b"".join(parts))


def copies_in_sessions(fragment_id: int, members: Sequence[tuple[int, str]]) -> Record:
    """The record that copies of a topic's messages, by number, belong to their sessions."""
    parts: list[bytes] = []
    for sequence, session_id in members:
        encoded = encode_id(session_id)
        parts.append(_RUN.pack(sequence, 1, len(encoded)))
        parts.append(encoded)
    return Record(fragment_id, IN_SESSIONS, b"".join(parts))


def replay_in_sessions(state: State, kind: int, meta: bytes, position: int, length: int) -> None:
    """Messages of the same entry belong to sessions."""
    sessions = rebuilt_sessions(state)
    offset = 0
    while offset < len(meta):
        first, count, size = _RUN.unpack_from(meta, offset)
        offset += _RUN.size
        session_id = decode_id(meta[offset : offset + size])
        offset += size
        if count > len(state.main.ready) + len(state.scheduled) and count > 1:
            raise StoreCorrupt(f"{count} messages of a session do not exist")
        for sequence in range(first, first + count):
            sessions.enter(sequence, session_id)


def rebuilt_sessions(state: State) -> Sessions:
    """The sessions of a state that is being rebuilt."""
    if state.sessions is None:
        state.sessions = Sessions()
    return state.sessions


# --- state ---------------------------------------------------------------------------------------


def session_state(fragment_id: int, session_id: str, updated_ms: int, body: bytes | None) -> Record:
    """The record that a session's state was set; None clears it."""
    meta = _STATE.pack(updated_ms, body is not None) + encode_id(session_id)
    return Record(fragment_id, SESSION_STATE, meta, body or b"")


def replay_state(state: State, kind: int, meta: bytes, position: int, length: int) -> None:
    """A session's state was set."""
    updated_ms, is_there = _STATE.unpack_from(meta, 0)
    sessions = rebuilt_sessions(state)
    session = sessions.get(decode_id(meta[_STATE.size :]))
    session.state_updated_ms = updated_ms
    session.state_length = length if is_there else NO_STATE
    session.state_position = position
    sessions.drop_if_empty(session)


def state_bodies(state: State) -> list[tuple[int, int]]:
    """(position, length) of every session state in the store."""
    sessions = state.sessions
    if sessions is None:
        return []
    return [(s.state_position, s.state_length) for s in sessions if s.state_length > 0]


# --- snapshots -----------------------------------------------------------------------------------


def dump_sessions(state: State, pages: NewPages | None) -> list[Part] | None:
    """Every session, then the session number of every message."""
    sessions = state.sessions
    if sessions is None:
        return None
    if pages is not None:
        pages.spent += len(sessions.by_id)
    parts = [_HEAD.pack(len(sessions.by_id))]
    for session in sessions:
        encoded = encode_id(session.session_id)
        parts.append(
            _SESSION.pack(
                session.number,
                session.state_length,
                session.state_position,
                session.state_updated_ms,
                len(encoded),
            )
        )
        parts.append(encoded)
    parts.append(sessions.numbers.dump())
    return [b"".join(parts)]


def load_sessions(state: State, data: bytes, tables: TableReader) -> None:
    """The sessions that `dump_sessions` wrote."""
    sessions = state.sessions = Sessions()
    (count,) = _HEAD.unpack_from(data, 0)
    offset = _HEAD.size
    highest = _NUMBERS_MIN + _GAPS_MAX * min(count, len(data) // _SESSION.size)
    far: list[tuple[int, str, int, int, int]] = []
    for _ in range(count):
        number, length, position, updated_ms, size = _SESSION.unpack_from(data, offset)
        offset += _SESSION.size
        session_id = _text(data, offset, size)
        offset += size
        if number > highest:
            far.append((number, session_id, length, position, updated_ms))
        else:
            _set_state(sessions.restore(number, session_id), length, position, updated_ms)
    sessions.restored()
    moved: dict[int, int] = {}
    for number, session_id, length, position, updated_ms in far:
        session = sessions.get(session_id)
        moved[number] = session.number
        _set_state(session, length, position, updated_ms)
    sessions.numbers.load(data, offset, "table of sessions")
    if moved:
        sessions.numbers.replace(moved)
    for number in sessions.numbers.words():
        sessions.numbered(number).message_count += 1
    # Some were only held when the snapshot was taken.
    for session in list(sessions):
        sessions.drop_if_empty(session)


def _set_state(session: Session, length: int, position: int, updated_ms: int) -> None:
    session.state_length = length
    session.state_position = position
    session.state_updated_ms = updated_ms


def _text(data: bytes, offset: int, size: int) -> str:
    if offset + size > len(data):
        raise StoreCorrupt("a snapshot's table of sessions is truncated")
    return decode_id(data[offset : offset + size])
