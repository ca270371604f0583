"""What a topic's fragment asks of itself: scheduled messages whose time has come.

Owns these commands. Filters run when a message becomes active (SCH-10), so its body has to be read
back first; the broker reads it and submits the result. None of them comes from a client or from
another process.
"""

from dataclasses import dataclass

from partibus.fragment.commands import Command
from partibus.fragment.message import Held


@dataclass(eq=False)
class PublishDue(Command):
    """Publish scheduled messages whose bodies were read."""

    messages: list[Held]
    bodies: list[bytes]


@dataclass(eq=False)
class DueUnread(Command):
    """The bodies of scheduled messages could not be read: damaged, or the store is down."""

    messages: list[Held]
    damaged: bool
