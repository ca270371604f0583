"""The durable facts about claims: records with their replay, and the section of a snapshot.

Owns the encoding: epoch, end, owner and start, then what the kind adds. Runs while a fragment
serves only to make records; replay happens before that.
"""

import struct
from array import array
from typing import Final

from partibus.domain.errors import StoreCorrupt
from partibus.fragment.claims.state import Claim, Claims, dump_head, load_head, runs_of
from partibus.fragment.cursors.retention import keep_replayed
from partibus.fragment.message import Held
from partibus.fragment.paging import NewPages
from partibus.fragment.queue.history import Part
from partibus.fragment.records import (
    CLAIM_LAPSED,
    CLAIM_RELEASED,
    CLAIM_RENEWED,
    CLAIM_SETTLED,
    CLAIMED,
)
from partibus.fragment.state import State
from partibus.fragment.table_snapshot import TableReader, dump_table
from partibus.store.record import Record

KINDS: Final[tuple[int, ...]] = (
    CLAIMED,
    CLAIM_RENEWED,
    CLAIM_SETTLED,
    CLAIM_LAPSED,
    CLAIM_RELEASED,
)
_CLAIM: Final = struct.Struct("<QQHH")


def claims_of(state: State) -> Claims:
    """The claims of a fragment."""
    if state.claims is None:
        state.claims = Claims()
    return state.claims


def end_record(state: State, kind: int, claim: Claim, epoch: int, tail: bytes = b"") -> Record:
    """The end of a claim, in one way or another."""
    return claim_record(state, kind, claim, claim.start, epoch, claim.expires_ms, tail)


def claim_record(
    state: State,
    kind: int,
    claim: Claim,
    start: str,
    epoch: int,
    expires_ms: int,
    tail: bytes = b"",
) -> Record:
    """A fact about an owner's claim."""
    encoded_owner, encoded_start = claim.owner.encode(), start.encode()
    head = _CLAIM.pack(epoch, expires_ms, len(encoded_owner), len(encoded_start))
    return Record(state.fragment_id, kind, head + encoded_owner + encoded_start + tail, b"")


def replay_claim(state: State, kind: int, meta: bytes, position: int, length: int) -> None:
    """Apply one record about a claim."""
    epoch, expires_ms, owner_size, start_size = _CLAIM.unpack_from(meta, 0)
    owner_end = _CLAIM.size + owner_size
    owner = meta[_CLAIM.size : owner_end].decode()
    tail = meta[owner_end + start_size :]
    claims = claims_of(state)
    claim = claims.of(owner)
    if kind == CLAIMED:
        start = meta[owner_end : owner_end + start_size].decode()
        _hold(state, claim, start, tail)
    elif kind == CLAIM_SETTLED:
        for held in drop(state, claim):
            keep_replayed(state, held)
    elif kind == CLAIM_LAPSED:
        lapse_now(state, claim)
    elif kind == CLAIM_RELEASED:
        give_back(state, claim, 0)
    claim.epoch = epoch
    claim.expires_ms = expires_ms
    if kind == CLAIM_RELEASED and tail == b"\x01":
        del claims.by_owner[owner]


def _hold(state: State, claim: Claim, start: str, tail: bytes) -> None:
    if claim.start != start:
        give_back(state, claim, 0)
    runs = array("Q")
    runs.frombytes(tail)
    claim.start, claim.is_lapsed = start, False
    claim.runs = array("Q")
    for index in range(0, len(runs), 2):
        for sequence in range(runs[index], runs[index] + runs[index + 1]):
            held = state.main.ready.take(sequence)
            if held is None:
                raise StoreCorrupt(f"message {sequence} was claimed, but was not waiting")
            claim.table.insert(held)
            claim.byte_count += held.length


# --- what a claim's end means, in recovery as in service ---------------------------------------


def give_back(state: State, claim: Claim, deliveries: int) -> list[Held]:
    """Put the messages of a claim back where they waited; returns them."""
    messages = take_all(claim)
    for held in messages:
        held.delivery_count += deliveries
        state.main.ready.insert(held)
    claim.clear()
    return messages


def lapse_now(state: State, claim: Claim) -> list[Held]:
    """The time of a claim is up: its messages wait again, and it remembers which they were."""
    start = claim.start
    messages = give_back(state, claim, 1)
    claim.start, claim.is_lapsed = start, True
    claim.runs = runs_of([held.sequence for held in messages])
    return messages


def drop(state: State, claim: Claim) -> list[Held]:
    """The messages of a claim are gone; returns them."""
    messages = take_all(claim)
    if claim.is_lapsed:
        for sequence in claim.sequences():
            held = state.main.ready.take(sequence)
            if held is None:
                raise StoreCorrupt(f"message {sequence}, settled in a claim, was not waiting")
            messages.append(held)
    claim.clear()
    return messages


def take_all(claim: Claim) -> list[Held]:
    """Empty the table of a claim."""
    table = claim.table
    return [table.pop() for _ in range(len(table))]


# --- snapshots -----------------------------------------------------------------------------------


def dump_claims(state: State, pages: NewPages | None) -> list[Part] | None:
    """Each claim, followed by the table of its messages."""
    if state.claims is None:
        return None
    parts: list[Part] = []
    for claim in state.claims.by_owner.values():
        parts.append(dump_head(claim))
        dump_table(claim.table, [], parts, pages)
    return parts


def load_claims(state: State, data: bytes, tables: TableReader) -> None:
    """The claims that `dump_claims` wrote."""
    found = state.claims = Claims()
    offset = 0
    while offset < len(data):
        claim, offset = load_head(data, offset)
        offset = tables.load(claim.table, data, offset)
        claim.byte_count = claim.table.byte_count()
        found.by_owner[claim.owner] = claim
