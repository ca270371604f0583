"""Refusing a command that cannot be carried out: its port gets the error.

Owns how each kind of port reports a failure. It must never decide whether to refuse; called by the
removal of fragments and by both ends of a remote one.
"""

from typing import Final

from partibus.domain.errors import BusError
from partibus.fragment import commands
from partibus.fragment.outbox.commands import Fence, Transfer
from partibus.fragment.transactions.commands import CheckLocks, ReserveNumbers, Transact

WITH_FAILURE: Final = (
    commands.Renew,
    commands.CancelScheduled,
    commands.Pick,
    commands.ReceiveDeferred,
    commands.Peek,
    commands.Purge,
    commands.Question,
    commands.FindOldestSession,
    commands.RenewSession,
    commands.GetSessionState,
    commands.SetSessionState,
    commands.ListSessions,
    Transact,
    CheckLocks,
    ReserveNumbers,
    Fence,
)
"""Commands whose port is notified of a failure with `failed`."""


def fail(command: commands.Command, error: BusError) -> None:
    """Report to the port of a command that it cannot be carried out."""
    if isinstance(command, commands.Enqueue | Transfer):
        command.port.refused(command.requests, error)
    elif isinstance(command, commands.Settle):
        if command.port is not None:
            command.port.settled(command.request, (), error)
    elif isinstance(command, WITH_FAILURE):
        command.port.failed(error)
