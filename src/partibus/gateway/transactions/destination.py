"""Where a transaction's messages go (TXN-4).

Owns the one decision how a transaction reaches an entity other than its own. Messages for the
transaction's store are stored there by the same entry. Messages for another store go, by the same
entry, into the outbox of the transaction's own fragment, whose courier carries them on after the
commit (TXN-17). Called by the scope of a transaction when messages are sent, and again by the
commit, since the first settlement may have moved the transaction; nothing else knows stores.
"""

from partibus.domain.partition_key import fragment_index
from partibus.fragment.commands import Command, Enqueue
from partibus.fragment.handle import Fragment
from partibus.fragment.message import NewMessage
from partibus.fragment.outbox.commands import Transfer
from partibus.fragment.transactions.commands import SILENT
from partibus.gateway.namespace import Entity


class Part:
    """Messages of one send for one fragment of an entity."""

    __slots__ = ("byte_count", "fragment", "messages", "path", "store")

    def __init__(self, entity: Entity, fragment: Fragment, messages: list[NewMessage]) -> None:
        self.path = entity.record.path
        self.fragment = fragment
        self.store = store_of(entity, fragment)
        self.messages = messages
        self.byte_count = sum([len(message.body) for message in messages])


def transfer_destination(store: int, entity: Entity, key: str | None, start: int) -> Fragment:
    """The fragment of another entity that a message is for.

    Without a key it is one in the transaction's store, if there is any; the search begins at
    `start`. One in another store only means that a courier has to carry the message there.
    """
    fragments = entity.fragments
    if key is not None:
        return fragments[fragment_index(key, len(fragments))]
    near = [f for f in fragments if store_of(entity, f) == store] or fragments
    return near[start % len(near)]


def work_of(part: Part, store: int, home: Fragment) -> tuple[int, Command]:
    """The command for messages at the commit, and its fragment: `home` is the transaction's own, in
    this store."""
    if part.store == store:
        command = Enqueue(SILENT, part.messages, [0], part.byte_count)
        return part.fragment.fragment_id, command
    transfer = Transfer(SILENT, part.messages, [0], part.byte_count, part.path)
    return home.fragment_id, transfer


def store_of(entity: Entity, fragment: Fragment) -> int:
    """The number of the store that a fragment of an entity is in."""
    return entity.record.fragments[fragment.index].store
