"""What is stored for a session besides its messages, and the list of sessions.

Owns the state of sessions: opaque bytes, durable, kept in the store and not in memory, counted
against the entity's size and kept until they are cleared (SES-15 to SES-17). Owns their enumeration
too (SES-18).
"""

from partibus.domain.errors import BusError, SessionLockLost
from partibus.fragment.changes import Change
from partibus.fragment.commands import Command
from partibus.fragment.effects import Answered, Done, Effects, Failed
from partibus.fragment.message import Held
from partibus.fragment.queue.arrivals import full
from partibus.fragment.sessions.changes import SessionStateChange
from partibus.fragment.sessions.commands import GetSessionState, ListSessions, SetSessionState
from partibus.fragment.sessions.effects import SessionsListed, StateFound
from partibus.fragment.sessions.locks import held_lock, without_sessions
from partibus.fragment.sessions.records import session_state
from partibus.fragment.sessions.state import NO_STATE, Session
from partibus.fragment.state import State


def set_state(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Prepare a session's new state; only its holder may set it (SES-16)."""
    assert isinstance(command, SetSessionState)
    if held_lock(state, command.session_id, command.lock, now_ms) is None:
        out.outward.append(Failed(command.port, SessionLockLost()))
        return
    length = len(command.state or b"")
    most = state.spec.size_bytes_max
    if most and length and state.size_bytes + length > most:
        out.outward.append(Failed(command.port, full(state)))
        return
    state.size_bytes += length
    record = session_state(state.fragment_id, command.session_id, now_ms, command.state)
    out.changes.append(SessionStateChange([record], command, now_ms))


def state_was_set(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """The new state is durable; the old one is no longer needed."""
    assert isinstance(change, SessionStateChange)
    assert state.sessions is not None
    command = change.command
    session = state.sessions.get(command.session_id)
    if session.state_length > 0:
        state.size_bytes -= session.state_length
        out.released.append(_stored(session))
    session.state_length = NO_STATE if command.state is None else len(command.state)
    session.state_position = change.records[0].position
    session.state_updated_ms = change.updated_ms
    state.sessions.drop_if_empty(session)
    out.outward.append(Done(command.port, 1))


def abort_state(state: State, change: Change, error: BusError, out: Effects) -> None:
    """The store failed: the old state stays."""
    assert isinstance(change, SessionStateChange)
    state.size_bytes -= len(change.command.state or b"")
    out.outward.append(Failed(change.command.port, error))


def get_state(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """A session's state, for its holder alone (SES-16)."""
    assert isinstance(command, GetSessionState)
    lock = held_lock(state, command.session_id, command.lock, now_ms)
    if lock is None:
        out.outward.append(Failed(command.port, SessionLockLost()))
    elif lock.session.state_length > 0:
        out.outward.append(StateFound(command.port, _stored(lock.session)))
    else:
        empty = None if lock.session.state_length == NO_STATE else b""
        out.outward.append(Answered(command.port.state_found, empty))


def _stored(session: Session) -> Held:
    """Where the state is in the store, in the form in which bodies are read."""
    return Held(0, session.state_position, session.state_length, 0, 0, 0, None)


def list_sessions(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """The ids of sessions, in the order in which they were created."""
    assert isinstance(command, ListSessions)
    if state.sessions is None:
        out.outward.append(Failed(command.port, without_sessions(state)))
        return
    passed_over = 0
    session_ids: list[str] = []
    for session in state.sessions:
        if len(session_ids) >= command.count_max:
            break
        if not _is_meant(session, command.updated_after_ms):
            continue
        if passed_over < command.skip:
            passed_over += 1
        else:
            session_ids.append(session.session_id)
    out.outward.append(SessionsListed(command.port, session_ids, passed_over))


def _is_meant(session: Session, updated_after_ms: int | None) -> bool:
    has_state = session.state_length != NO_STATE
    if updated_after_ms is None:
        return has_state or session.is_active
    return has_state and session.state_updated_ms > updated_after_ms
