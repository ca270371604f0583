"""Which subscriptions get a message: the question that a topic's fragment asks.

Owns the interface of that question and its answer. The rules, and the reading of a message's
properties, live above the fragment layer: the node gives a topic its `Selector`, and replaces its
rules when they change. A selector is pure: asking twice changes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from partibus.fragment.message import NewMessage, Overlay


@dataclass(eq=False)
class Failure:
    """A filter or an action that could not be evaluated for a message (FLT-9)."""

    key: int
    overlay: Overlay
    """The reason, as the dead letter states it."""


class Selection:
    """Who gets a message; subscriptions are named by their keys."""

    __slots__ = ("failed", "failure_count", "rewritten", "shared")

    def __init__(
        self,
        shared: Sequence[int],
        rewritten: Sequence[tuple[int, NewMessage]] = (),
        failed: Sequence[Failure] = (),
        failure_count: int = 0,
    ) -> None:
        self.shared = shared
        """Those that get the message unchanged, once each (FLT-3)."""
        self.rewritten = rewritten
        """Copies that a rule's action has changed, one for each such rule (FLT-4)."""
        self.failed = failed
        """Those that get the message as a dead letter."""
        self.failure_count = failure_count
        """Everything that could not be evaluated, dead-lettered or not."""


NOBODY = Selection(())
"""The result for a message that no subscription selects."""


class Selector(Protocol):
    """The rules of a topic's subscriptions, as of now."""

    def select(self, body: bytes, index: int, sequence: int, enqueued_ms: int) -> Selection:
        """The subscriptions for a stored message with this number in the topic's fragment
        `index`."""
        ...

    def session_of(self, body: bytes) -> str | None:
        """The session that a stored message names."""
        ...
