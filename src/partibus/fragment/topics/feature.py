"""Topics, as a feature: what is sent to one goes on to its subscriptions (ENT-4).

Owns its declaration, in the shape that `fragment.feature` explains; only `machine` reads it.
"""

from typing import Final

from partibus.fragment.commands import Enqueue, Tick
from partibus.fragment.feature import Feature
from partibus.fragment.state import State
from partibus.fragment.topics import copies, due, publishing
from partibus.fragment.topics.changes import Copies, Publication
from partibus.fragment.topics.commands import DueUnread, PublishDue


def shift(state: State, delta_ms: int) -> None:
    """The topic's own intervals."""
    if state.topic is not None:
        state.topic.shift_ms(delta_ms)


TOPICS: Final = Feature(
    {},
    {
        Publication: (due.publication_durable, due.publication_failed),
        Copies: (copies.copies_arrived, copies.abort_copies),
    },
    topic_handlers={
        Enqueue: publishing.publish,
        Tick: due.topic_tick,
        PublishDue: due.publish_due,
        DueUnread: due.due_unread,
    },
    shift=shift,
)
