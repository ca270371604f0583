"""What a store records about itself: its namespace, its number, and how far it has followed.

Owns the store's own record and its bytes. It is in the log and in every checkpoint under a fragment
number that no entity has, so that there is no separate file to be lost, mixed up or restored alone.
Written by the broker with the next entry after a change, which costs no sync of its own; compared
with the catalog by the server.
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
    """The namespace's id and the store's number in it, once they are known, and the highest catalog
    generation and fragment id that the store has seen."""

    __slots__ = ("fragment_max", "generation", "is_due", "namespace", "number")

    def __init__(self) -> None:
        self.namespace = b""
        """Empty in a new store, or in one written by an earlier release."""
        self.number = 0
        self.generation = 0
        self.fragment_max = 0
        self.is_due = False
        """Whether these values are not in the log yet."""

    @property
    def is_blank(self) -> bool:
        """Whether the log contains no marks."""
        return not self.namespace and not self.fragment_max

    def identify(self, namespace: bytes, number: int) -> None:
        """The store belongs to this namespace, under this number, from now on."""
        self.namespace = namespace
        self.number = number
        self.is_due = True

    def follow(self, generation: int) -> None:
        """The catalog has come this far, durably."""
        if self.namespace and generation > self.generation:
            self.generation = generation
            self.is_due = True

    def saw(self, fragment_id: int) -> None:
        """The store has this fragment."""
        if fragment_id > self.fragment_max:
            self.fragment_max = fragment_id

    def not_written(self) -> None:
        """An entry was refused that may have contained the record."""
        self.is_due = bool(self.namespace)

    # --- bytes --------------------------------------------------------------------------

    def record(self) -> Record:
        """The record of all marks."""
        self.is_due = False
        return Record(STORE_FRAGMENT, STORE_IDENTIFIED, self._pack())

    def add_to(self, states: dict[int, bytes]) -> None:
        """Add the store's own section to a checkpoint."""
        if self.namespace:
            states[STORE_FRAGMENT] = self._pack()

    def read(self, data: bytes) -> None:
        """Read the marks of the log or of a checkpoint."""
        if len(data) != _LAYOUT.size or data[0] != _VERSION:
            raise StoreCorrupt(
                "the store's marks have a format that is not known to this release; open the "
                "data with the release that wrote it"
            )
        _, self.namespace, self.number, self.generation, fragment_max = _LAYOUT.unpack(data)
        self.saw(fragment_max)

    def _pack(self) -> bytes:
        return _LAYOUT.pack(
            _VERSION, self.namespace, self.number, self.generation, self.fragment_max
        )
