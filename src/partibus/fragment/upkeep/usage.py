"""How long a fragment has been unused.

Owns what counts as use (IDL-2): any command but the broker's own is noted by the broker in the
machine; a waiting receiver, a held session, a scheduled message and one on its way to another
entity are use for as long as they exist, which is checked on each request. Called by the server's
idle watch.
"""

from partibus.fragment.machine import Machine
from partibus.fragment.state import State


def idle_ms(machine: Machine, now_ms: int) -> int:
    """How long ago the fragment was last used; 0 while it is in use."""
    if is_in_use(machine.state):
        machine.used_ms = now_ms
    return max(0, now_ms - machine.used_ms)


def is_in_use(state: State) -> bool:
    """Whether receivers wait for messages, or messages for their time or their courier."""
    if len(state.scheduled) or state.departing or len(state.outbox):
        return True
    if state.stages is not None and (state.stages.by_number or state.stages.published):
        return True
    for subqueue in state.subqueues:
        if subqueue.interested or any(c.sent < c.limit for c in subqueue.waiting):
            return True
    sessions = state.sessions
    return sessions is not None and bool(sessions.acceptors or sessions.lock_of)
