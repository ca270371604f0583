"""Parcels prepared for their destination, and the choice of the fragment for each.

Owns the conversion of a stored message in an outbox to the message that a destination stores, what
the destination refuses, and the choice of its fragment: by the message's key as for any sender
(SEED-56), and without a key by the parcel's own number, so that a parcel that is sent again goes to
the fragment with its mark. Pure; couriers and their legs use it.
"""

from dataclasses import dataclass
from typing import Final

from partibus.amqp.codec.decode import DecodeError
from partibus.domain.address import path_key
from partibus.domain.errors import MalformedMessage
from partibus.domain.sequence import client_sequence
from partibus.forwarding.outcomes import NO_SESSION, TOO_MANY_HOPS, Reason, reason_of
from partibus.fragment.handle import Fragment
from partibus.fragment.message import NewMessage, key_of
from partibus.fragment.outbox.state import Parcel, Purpose
from partibus.gateway.namespace import Entity, too_large
from partibus.gateway.router import fragment_of
from partibus.message.envelope import hops_of
from partibus.message.forwarded import HOPS_MAX, Hop, to_forwarded

ADDED_BYTES_MAX: Final = 128
"""What the bus itself adds to a message that is stored and forwarded: its envelope, and an id. A
sender's largest message must not fail because of it."""


@dataclass(eq=False)
class Item:
    """A parcel prepared for its destination."""

    number: int
    message: NewMessage
    purpose: Purpose
    refusal: Reason | None = None
    """Why the destination refuses it."""

    @property
    def size(self) -> int:
        """About how many bytes of memory it uses."""
        return len(self.message.body)


class ParcelPacker:
    """Packs the parcels of one origin."""

    __slots__ = ("_fragment_id", "_index", "_key", "_path")

    def __init__(self, fragment_id: int, index: int, path: str) -> None:
        self._fragment_id = fragment_id
        self._index = index
        self._path = path
        self._key = path_key(path)

    def make_ready(self, parcel: Parcel, body: bytes, entity: Entity) -> Item:
        """The parcel as the destination will store it, or why it will not."""
        try:
            identified = self._is_identified(parcel, entity)
            message = to_forwarded(body, self._hop(parcel), identified)
            refusal = refusal_of(body, message, entity)
        except DecodeError as cause:
            message = NewMessage(body, -1)
            refusal = reason_of(MalformedMessage(f"It cannot be decoded: {cause}."))
        return Item(parcel.number, message, parcel.purpose, refusal)

    def _is_identified(self, parcel: Parcel, entity: Entity) -> bool:
        """Whether the destination checks the message for duplicates.

        What an entity forwards to itself is not its own duplicate.
        """
        if parcel.purpose is not Purpose.TRANSFER and path_key(entity.record.path) == self._key:
            return False
        return entity.spec.requires_duplicate_detection

    def _hop(self, parcel: Parcel) -> Hop:
        held = parcel.held
        sequence = client_sequence(self._index, held.sequence)
        if parcel.purpose is Purpose.TRANSFER:
            sequence = 0
        source = self._path if parcel.purpose is Purpose.DEAD_LETTER else None
        return Hop(sequence, held.overlay, source)

    def fragment_for(self, item: Item, entity: Entity) -> Fragment:
        """The fragment of the destination, always the same one."""
        key = key_of(item.message)
        if key is None:
            key = f"{self._fragment_id}/{item.number}"
        return fragment_of(entity.fragments, key)


def refusal_of(body: bytes, message: NewMessage, entity: Entity) -> Reason | None:
    """Why a destination refuses a message, as far as the message itself shows."""
    if hops_of(body) >= HOPS_MAX:
        return TOO_MANY_HOPS
    if len(message.body) - ADDED_BYTES_MAX > entity.message_bytes_max:
        return reason_of(too_large(entity))
    if entity.spec.requires_session and message.session_id is None:
        return NO_SESSION
    return None
