"""What a store says of itself: whose it is, which one, and how far it has followed.

Owns the store's own record and its bytes. They stand in the log and in every checkpoint under
the number of a fragment that no entity has, so that no file beside the log can be lost, mixed up
or restored alone. Written by the broker with the next entry after a change, which costs no sync
of its own; compared with the catalog by the server.
"""

import struct
from typing import Final

from partibus.domain.errors import StoreCorrupt
from partibus.fragment.records import STORE_IDENTIFIED
from partibus.store.record import Record

STORE_FRAGMENT: Final = 0
"""The catalog numbers fragments from 1."""
_VERSION: Final = 1
_LAYOUT: Final = struct.Struct("<B16sIQI")


class StoreMarks:
    """The namespace's id and the store's number in it, once they are known, and the highest that
    the store has seen: of the catalog's generations and of the ids of fragments."""

    __slots__ = ("fragment_max", "generation", "is_due", "namespace", "number")

    def __init__(self) -> None:
        self.namespace = b""
        """Nothing in a store that is new, or that a release before this one has written."""
        self.number = 0
        self.generation = 0
        self.fragment_max = 0
        self.is_due = False
        """Whether the log does not say yet what stands here."""

    @property
    def is_blank(self) -> bool:
        """Whether the log has never said anything."""
        return not self.namespace and not self.fragment_max

    def identify(self, namespace: bytes, number: int) -> None:
        """The store is this one of this namespace from now on."""
        self.namespace = namespace
        self.number = number
        self.is_due = True

    def follow(self, generation: int) -> None:
        """The catalog has come so far, and this is durable there."""
        if self.namespace and generation > self.generation:
            self.generation = generation
            self.is_due = True

    def saw(self, fragment_id: int) -> None:
        """The store holds this fragment."""
        if fragment_id > self.fragment_max:
            self.fragment_max = fragment_id

    def not_written(self) -> None:
        """An entry was refused, which may have had the record in it."""
        self.is_due = bool(self.namespace)

    # --- bytes --------------------------------------------------------------------------

    def record(self) -> Record:
        """The record that says all of it."""
        self.is_due = False
        return Record(STORE_FRAGMENT, STORE_IDENTIFIED, self._pack())

    def add_to(self, states: dict[int, bytes]) -> None:
        """Give a checkpoint what it must have of the store itself."""
        if self.namespace:
            states[STORE_FRAGMENT] = self._pack()

    def read(self, data: bytes) -> None:
        """What the log or a checkpoint says."""
        if len(data) != _LAYOUT.size or data[0] != _VERSION:
            raise StoreCorrupt(
                "the store's record of itself is not known to this release; open the data with "
                "the release that wrote it"
            )
        _, self.namespace, self.number, self.generation, fragment_max = _LAYOUT.unpack(data)
        self.saw(fragment_max)

    def _pack(self) -> bytes:
        return _LAYOUT.pack(
            _VERSION, self.namespace, self.number, self.generation, self.fragment_max
        )
