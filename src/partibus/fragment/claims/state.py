"""The claims of a fragment: who holds which messages, and until when.

Owns the data and its form in snapshots. Plain structures with no idea of durability or of
receivers: `behaviour` decides what may change and when. A claim that has lapsed keeps the numbers
of its messages, which wait in the queue again, so that its owner can take it back as long as nobody
else has touched them.
"""

import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from partibus.domain.errors import StoreCorrupt
from partibus.fragment.claims.commands import ClaimSummary
from partibus.fragment.queue.table import MessageTable

OWNERS_MAX: Final = 1000
"""How many owners a fragment remembers; each costs little, but nobody needs more."""
_HEAD: Final = struct.Struct("<HHQQBQ")
_LAPSED: Final = 1


@dataclass(eq=False)
class Claim:
    """What one owner holds, or held most recently."""

    owner: str
    epoch: int = 0
    start: str = ""
    expires_ms: int = 0
    table: MessageTable = field(default_factory=MessageTable)
    byte_count: int = 0
    is_lapsed: bool = False
    runs: "array[int]" = field(default_factory=lambda: array("Q"))
    """Of a claim that has lapsed: first number and length of each run of its messages."""
    busy: bool = False
    """A change of this claim is being made durable; no other may begin."""
    stepped_ms: int = 0
    """By how much the clock was set in the meantime."""

    @property
    def is_live(self) -> bool:
        """Whether it holds messages now."""
        return len(self.table) > 0

    def begin_change(self) -> None:
        """A change of the claim is being made durable."""
        self.busy = True
        self.stepped_ms = 0

    def hold_until(self, epoch: int, expires_ms: int) -> None:
        """A change that extends the claim until then is durable."""
        self.epoch, self.expires_ms, self.busy = epoch, expires_ms + self.stepped_ms, False

    def clear(self) -> None:
        """The claim holds nothing any more."""
        self.start = ""
        self.table = MessageTable()
        self.byte_count = 0
        self.is_lapsed = False
        self.runs = array("Q")

    def sequences(self) -> Iterator[int]:
        """The numbers of the messages of a lapsed claim."""
        for index in range(0, len(self.runs), 2):
            yield from range(self.runs[index], self.runs[index] + self.runs[index + 1])

    def summary(self) -> ClaimSummary:
        """What the owner sees."""
        return ClaimSummary(
            self.owner,
            self.epoch,
            self.start,
            len(self.table),
            self.byte_count,
            self.table.first_sequence,
            self.table.last_sequence if self.is_live else 0,
            self.expires_ms,
            self.is_lapsed,
        )


class Claims:
    """Every claim of a fragment, by owner."""

    __slots__ = ("by_owner",)

    def __init__(self) -> None:
        self.by_owner: dict[str, Claim] = {}

    def of(self, owner: str) -> Claim:
        """The claim of an owner; created when there is none."""
        claim = self.by_owner.get(owner)
        if claim is None:
            claim = self.by_owner[owner] = Claim(owner)
        return claim

    @property
    def message_count(self) -> int:
        """The messages of all claims."""
        return sum([len(claim.table) for claim in self.by_owner.values()])

    def next_lapse_ms(self) -> int | None:
        """When the first claim lapses; None when nothing is claimed."""
        times = [claim.expires_ms for claim in self.by_owner.values() if claim.is_live]
        return min(times, default=None)

    def lapsed(self, now_ms: int) -> list[Claim]:
        """Claims whose time is up and that are not being changed at the moment."""
        return [
            claim
            for claim in self.by_owner.values()
            if claim.is_live and not claim.busy and claim.expires_ms <= now_ms
        ]

    def shift_ms(self, delta_ms: int) -> None:
        """The clock was set: the remaining time of claims stays the same."""
        for claim in self.by_owner.values():
            claim.stepped_ms += delta_ms
            if claim.is_live:
                claim.expires_ms += delta_ms

    def bodies(self) -> Iterator[tuple[int, int]]:
        """(position, length) of every claimed message."""
        for claim in self.by_owner.values():
            yield from claim.table.bodies()


def runs_of(sequences: list[int]) -> "array[int]":
    """Numbers in order, as first number and length of each run without a gap."""
    runs = array("Q")
    for sequence in sequences:
        if runs and runs[-2] + runs[-1] == sequence:
            runs[-1] += 1
        else:
            runs.extend((sequence, 1))
    return runs


def dump_head(claim: Claim) -> bytes:
    """Everything of a claim but its messages."""
    owner, start = claim.owner.encode(), claim.start.encode()
    flags = _LAPSED if claim.is_lapsed else 0
    runs = claim.runs.tobytes()
    sizes = _HEAD.pack(len(owner), len(start), claim.epoch, claim.expires_ms, flags, len(runs))
    return sizes + owner + start + runs


def load_head(data: bytes, offset: int) -> tuple[Claim, int]:
    """The claim at an offset, without its messages, and the offset after it."""
    owner_size, start_size, epoch, expires_ms, flags, runs_size = _HEAD.unpack_from(data, offset)
    offset += _HEAD.size
    if offset + owner_size + start_size + runs_size > len(data):
        raise StoreCorrupt("a snapshot's claims are truncated")
    claim = Claim(data[offset : offset + owner_size].decode())
    offset += owner_size
    claim.start = data[offset : offset + start_size].decode()
    offset += start_size
    claim.runs.frombytes(data[offset : offset + runs_size])
    claim.epoch, claim.expires_ms = epoch, expires_ms
    claim.is_lapsed = flags & _LAPSED != 0
    return claim, offset + runs_size
