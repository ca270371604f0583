"""The bytes of an entry."""

import struct

import pytest

from partibus.store.record import (
    BODY_CRC_BYTES,
    ENTRY_HEADER_BYTES,
    LARGE_BODY_BYTES,
    READ_ONCE_BYTES,
    ROW_BYTES,
    Record,
    crc32c,
    encode_payload,
    pack_header,
    place_records,
    unpack_header,
)


def test_the_layout_is_rows_metas_then_bodies_behind_their_checksums() -> None:
    records = [Record(5, 1, b"mm", b"body"), Record(6, 2, b"n"), Record(5, 3, b"", b"x")]
    payload = encode_payload(records)
    rows = struct.pack("<IIIB3x", 5, 2, 4, 1) + struct.pack("<IIIB3x", 6, 1, 0, 2)
    rows += struct.pack("<IIIB3x", 5, 0, 1, 3)
    bodies = struct.pack("<I", crc32c(b"body")) + b"body" + struct.pack("<I", crc32c(b"x")) + b"x"
    assert payload.data == rows + b"mmn" + bodies
    assert payload.count == 3
    assert payload.body_offset == 3 * ROW_BYTES + 3
    assert payload.body_bytes == 5
    assert payload.crc == crc32c(payload.data)


def test_a_position_points_at_the_body() -> None:
    records = [Record(1, 1, b"meta", b"first"), Record(1, 1, b""), Record(1, 1, b"m", b"second")]
    payload = encode_payload(records)
    place_records(records, payload, 1000)
    entry = bytes(1000) + bytes(ENTRY_HEADER_BYTES) + payload.data
    for record in (records[0], records[2]):
        at = record.position
        assert entry[at : at + len(record.body)] == record.body
        checksum = entry[at - BODY_CRC_BYTES : at]
        assert checksum == struct.pack("<I", crc32c(record.body))
    assert records[1].position == 0


LENGTHS = (0, 5, LARGE_BODY_BYTES - 1, LARGE_BODY_BYTES, READ_ONCE_BYTES, 3 * READ_ONCE_BYTES + 1)


@pytest.mark.parametrize("first", LENGTHS)
@pytest.mark.parametrize("second", LENGTHS)
def test_large_bodies_make_the_same_bytes_and_are_not_copied(first: int, second: int) -> None:
    lengths = (first, 7, second, second)
    # A meta may be as long as a large body, and is none.
    records = [
        Record(1, kind, b"m" * (kind * LARGE_BODY_BYTES), bytes((kind + 1,)) * length)
        for kind, length in enumerate(lengths)
    ]
    payload = encode_payload(records)
    rows = b"".join(struct.pack("<IIIB3x", 1, len(r.meta), len(r.body), r.kind) for r in records)
    metas = b"".join(record.meta for record in records)
    bodies = b"".join(struct.pack("<I", crc32c(r.body)) + r.body for r in records if r.body)
    assert payload.data == rows + metas + bodies
    assert payload.length == len(payload.data)
    assert payload.crc == crc32c(payload.data)
    assert payload.body_offset == len(rows + metas)
    assert payload.body_bytes == sum(lengths)
    written = {id(part) for part in payload.parts}
    assert all(id(r.body) in written for r in records if len(r.body) >= LARGE_BODY_BYTES)


def test_a_record_that_is_encoded_again_is_placed_anew() -> None:
    record = Record(1, 1, b"", b"body")
    for position in (5000, 70):
        place_records([record], encode_payload([record]), position)
        assert record.position == position + ENTRY_HEADER_BYTES + ROW_BYTES + BODY_CRC_BYTES


def test_a_header_round_trips() -> None:
    data = b"??" + pack_header(9, 1 << 40, 77, 4096, 12, 0xDEADBEEF)
    assert len(data) == 2 + ENTRY_HEADER_BYTES
    header = unpack_header(9, data, 2)
    assert header is not None
    assert (header.position, header.durable, header.length) == (1 << 40, 77, 4096)
    assert (header.count, header.crc, header.version) == (12, 0xDEADBEEF, 1)


@pytest.mark.parametrize("bit", range(8 * ENTRY_HEADER_BYTES))
def test_a_header_with_any_bit_flipped_is_none(bit: int) -> None:
    data = bytearray(pack_header(9, 123, 100, 5, 1, 6))
    data[bit // 8] ^= 1 << bit % 8
    assert unpack_header(9, bytes(data), 0) is None


def test_a_header_of_another_store_is_none() -> None:
    data = pack_header(crc32c(b"mine"), 1, 1, 1, 1, 1)
    assert unpack_header(crc32c(b"theirs"), data, 0) is None


def test_a_header_cut_short_is_none() -> None:
    data = pack_header(9, 1, 1, 1, 1, 1)
    assert unpack_header(9, data[:-1], 0) is None
    assert unpack_header(9, data, 1) is None
