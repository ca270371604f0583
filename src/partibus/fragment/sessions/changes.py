"""What is prepared about sessions, until it is durable.

Owns the change of a session's state. Made and finished by `session_state`, kept by the broker until
then; who holds a session is never durable.
"""

from dataclasses import dataclass

from partibus.fragment.changes import Change
from partibus.fragment.sessions.commands import SetSessionState


@dataclass(eq=False)
class SessionStateChange(Change):
    """The new state of a session (SES-16)."""

    command: SetSessionState
    updated_ms: int
