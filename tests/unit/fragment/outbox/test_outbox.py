"""The outbox as a table: numbers, routes, and its bytes in a snapshot."""

import struct

import pytest

from partibus.domain.errors import StoreCorrupt
from partibus.fragment.message import Held, Overlay
from partibus.fragment.outbox.records import dump_outbox, load_outbox, load_unpaged_outbox
from partibus.fragment.outbox.state import Outbox, Purpose
from partibus.fragment.queue.history import Part
from partibus.fragment.records import pack_overlay
from partibus.fragment.spec import NO_SPEC
from partibus.fragment.state import State
from partibus.fragment.table_snapshot import PAGED_VERSION, TableReader
from partibus.store.interface import NO_PAGES


def held(sequence: int, overlay: Overlay | None = None) -> Held:
    return Held(sequence, 100 * sequence, 10, 1000 + sequence, 0, 3, overlay)


def shown(outbox: Outbox, from_number: int = 0) -> list[tuple[int, int, Purpose, str]]:
    copies = outbox.copies(from_number)
    return [(p.number, p.held.sequence, p.purpose, p.path) for p in copies]


@pytest.fixture
def outbox() -> Outbox:
    """A thousand parcels with two routes, under numbers that are not their sequences."""
    outbox = Outbox()
    for number in range(1, 1001):
        purpose = Purpose.DEAD_LETTER if number % 3 == 0 else Purpose.FORWARD
        overlay = Overlay(b"", f"r{number}") if number % 100 == 0 else None
        path = "grave" if purpose is Purpose.DEAD_LETTER else "there"
        outbox.enter(number, held(5000 - number, overlay), purpose, path)
    outbox.next_number = outbox.next_number_durable = 1001
    return outbox


def test_parcels_keep_number_sequence_purpose_and_path(outbox: Outbox) -> None:
    assert len(outbox) == 1000
    assert shown(outbox, 999) == [
        (999, 4001, Purpose.DEAD_LETTER, "grave"),
        (1000, 4000, Purpose.FORWARD, "there"),
    ]
    parcel = outbox.take(300)
    assert parcel is not None
    assert (parcel.number, parcel.held.sequence, parcel.held.position) == (300, 4700, 470_000)
    assert parcel.held.delivery_count == 3
    assert parcel.held.overlay is not None and parcel.held.overlay.reason == "r300"
    assert outbox.take(300) is None
    assert outbox.copy_of(300) is None


def test_memory_is_given_back_where_parcels_have_gone(outbox: Outbox) -> None:
    for number in range(2, 1001):
        outbox.take(number)
    assert len(outbox.words._chunks) == 1
    outbox.take(1)
    assert not outbox.words._chunks


def test_routes_begin_anew_when_the_outbox_was_empty(outbox: Outbox) -> None:
    for number in range(1, 1001):
        outbox.take(number)
    outbox.enter(1001, held(1), Purpose.TRANSFER, "elsewhere")
    assert outbox.routes == [(Purpose.TRANSFER, "elsewhere")]
    assert shown(outbox) == [(1001, 1, Purpose.TRANSFER, "elsewhere")]


def test_a_snapshot_holds_all_of_it(outbox: Outbox) -> None:
    outbox.take(17)
    tables = TableReader(PAGED_VERSION, NO_PAGES)
    data = joined(dump_outbox(outbox))
    state = State(1, NO_SPEC)
    load_outbox(state, data, tables)
    check_copy(state.outbox, outbox)
    for cut in (len(data) - 1, len(data) - 3000):
        with pytest.raises(StoreCorrupt):
            load_outbox(State(1, NO_SPEC), data[:cut], tables)


def test_a_snapshot_of_the_release_before_holds_all_of_it(outbox: Outbox) -> None:
    outbox.take(17)
    overlays = outbox.table.overlays()
    counts = (len(outbox.table), len(outbox.routes), len(overlays))
    parts: list[Part] = [struct.pack("<QQII", outbox.next_number_durable, *counts)]
    for purpose, path in outbox.routes:
        parts += (struct.pack("<BH", purpose, len(path)), path.encode())
    for number, overlay in overlays.items():
        parts += (struct.pack("<Q", number), pack_overlay(overlay))
    data = joined([*parts, *outbox.table.dump_rows(), outbox.words.dump()])
    state = State(1, NO_SPEC)
    tables = TableReader(PAGED_VERSION, NO_PAGES)
    load_unpaged_outbox(state, data, tables)
    check_copy(state.outbox, outbox)
    for cut in (len(data) - 1, len(data) - 3000):
        with pytest.raises(StoreCorrupt):
            load_unpaged_outbox(State(1, NO_SPEC), data[:cut], tables)


def joined(parts: list[Part]) -> bytes:
    return b"".join(part if isinstance(part, bytes) else part.tobytes() for part in parts)


def check_copy(copy: Outbox, outbox: Outbox) -> None:
    assert shown(copy) == shown(outbox)
    assert copy.next_number == 1001
    parcel = copy.copy_of(900)
    assert parcel is not None and parcel.held.overlay is not None
    assert parcel.held.overlay.reason == "r900"
