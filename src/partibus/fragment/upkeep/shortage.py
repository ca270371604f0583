"""What is refused while the disk of a store is almost full: everything that adds messages.

Owns that list. Receiving, settling, purging and session state go on, since they free space. Called
by the broker for each command while there is a shortage.
"""

from typing import Final

from partibus.fragment.commands import Command, Enqueue
from partibus.fragment.outbox.commands import Transfer
from partibus.fragment.stages.commands import StageMessages
from partibus.fragment.transactions.commands import EnqueueNumbered, Transact

SENDS: Final = (Enqueue, EnqueueNumbered, Transfer, StageMessages)


def adds_messages(command: Command) -> bool:
    """Whether a command, or a part of a transaction, brings messages that need space."""
    if isinstance(command, Transact):
        return any(isinstance(part, SENDS) for _, part in command.work)
    return isinstance(command, SENDS)
