"""Refusing a command that cannot be carried out: its port hears why.

Owns which port hears a failure in which way. It decides nothing: the fragment on its way out and
the two ends of a far one do, and they call it.
"""

from typing import Final

from partibus.domain.errors import BusError
from partibus.fragment.commands import (
    CancelScheduled,
    Command,
    Enqueue,
    FindOldestSession,
    GetSessionState,
    ListSessions,
    Peek,
    Pick,
    Purge,
    Question,
    ReceiveDeferred,
    Renew,
    RenewSession,
    SetSessionState,
    Settle,
)
from partibus.fragment.outbox.commands import Fence, Transfer
from partibus.fragment.transactions.commands import CheckLocks, ReserveNumbers, Transact

WITH_FAILURE: Final = (
    Renew,
    CancelScheduled,
    Pick,
    ReceiveDeferred,
    Peek,
    Purge,
    Question,
    FindOldestSession,
    RenewSession,
    GetSessionState,
    SetSessionState,
    ListSessions,
    Transact,
    CheckLocks,
    ReserveNumbers,
    Fence,
)
"""Commands whose port hears a failure as `failed`."""


def fail(command: Command, error: BusError) -> None:
    """Tell the port of a command that it cannot be carried out."""
    if isinstance(command, Enqueue | Transfer):
        command.port.refused(command.requests, error)
    elif isinstance(command, Settle):
        if command.port is not None:
            command.port.settled(command.request, (), error)
    elif isinstance(command, WITH_FAILURE):
        command.port.failed(error)
