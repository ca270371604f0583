"""The sessions of a snapshot: what is written comes back, also under another number."""

import pytest

from partibus.domain.errors import StoreCorrupt
from partibus.fragment.sessions.records import dump_sessions, load_sessions
from partibus.fragment.sessions.state import Sessions
from partibus.fragment.spec import NO_SPEC
from partibus.fragment.state import State
from partibus.fragment.table_snapshot import PAGED_VERSION, TableReader
from partibus.store.interface import NO_PAGES

NEAR, FAR = 7, 100_000
"""Numbers of two sessions: one that is kept, one that two sessions do not justify."""


@pytest.fixture
def data() -> bytes:
    state = State(1, NO_SPEC)
    sessions = state.sessions = Sessions()
    for number, session_id in ((NEAR, "near"), (FAR, "far")):
        session = sessions.restore(number, session_id)
        session.state_length, session.state_position = number, 64 * number
        for sequence in (number, number + 1):
            sessions.numbers.put(sequence, number)
    parts = dump_sessions(state, None)
    assert parts is not None
    return b"".join(bytes(part) for part in parts if isinstance(part, bytes))


def loaded(data: bytes) -> Sessions:
    state = State(2, NO_SPEC)
    load_sessions(state, data, TableReader(PAGED_VERSION, NO_PAGES))
    assert state.sessions is not None
    return state.sessions


def test_a_session_whose_number_is_out_of_proportion_gets_another(data: bytes) -> None:
    sessions = loaded(data)
    assert sessions.of(NEAR).number == NEAR
    far = sessions.by_id["far"]
    assert far.number < NEAR
    assert sessions.of(FAR) is sessions.of(FAR + 1) is far
    for session, number in ((sessions.by_id["near"], NEAR), (far, FAR)):
        assert session.message_count == 2
        assert (session.state_length, session.state_position) == (number, 64 * number)


def test_what_was_loaded_is_written_and_loaded_again(data: bytes) -> None:
    state = State(3, NO_SPEC)
    state.sessions = loaded(data)
    parts = dump_sessions(state, None)
    assert parts is not None
    again = loaded(b"".join(bytes(part) for part in parts if isinstance(part, bytes)))
    assert {i: s.message_count for i, s in again.by_id.items()} == {"near": 2, "far": 2}


def test_a_table_that_is_cut_short_is_reported(data: bytes) -> None:
    with pytest.raises(StoreCorrupt):
        loaded(data[:-1])
