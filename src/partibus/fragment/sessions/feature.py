"""Sessions, as a feature: who holds one, and its state.

Owns its declaration, in the shape that `fragment.feature` explains; only `machine` reads it.
"""

from typing import Final

from partibus.fragment.commands import DropLocks
from partibus.fragment.feature import SESSIONS_SECTION, Feature, SnapshotSection
from partibus.fragment.records import IN_SESSIONS, SESSION_STATE
from partibus.fragment.sessions import changes, commands, locks, records, session_state
from partibus.fragment.state import State


def shift(state: State, delta_ms: int) -> None:
    """Locks are intervals."""
    if state.sessions is not None:
        state.sessions.shift_ms(delta_ms)


SESSIONS: Final = Feature(
    {
        commands.AcceptSession: locks.accept,
        commands.FindOldestSession: locks.find_oldest,
        commands.RenewSession: locks.renew_session,
        DropLocks: locks.drop_locks,
        commands.GetSessionState: session_state.get_state,
        commands.SetSessionState: session_state.set_state,
        commands.ListSessions: session_state.list_sessions,
    },
    {changes.SessionStateChange: (session_state.state_was_set, session_state.abort_state)},
    on_tick=locks.lapse_sessions,
    shift=shift,
    replays={IN_SESSIONS: records.replay_in_sessions, SESSION_STATE: records.replay_state},
    sections=(SnapshotSection(SESSIONS_SECTION, records.load_sessions, records.dump_sessions),),
    bodies=records.state_bodies,
)
