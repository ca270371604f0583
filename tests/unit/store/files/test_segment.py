"""One file of the log."""

from pathlib import Path

import pytest

from partibus.domain.errors import StoreCorrupt
from partibus.store.files.disk import OsDisk
from partibus.store.files.segment import (
    SEGMENT_HEADER_BYTES,
    WRITE_PARTS_MAX,
    OpenSegments,
    check_segment_header,
    encode_segment_header,
    header_store_id,
    make_segment,
    segment_base,
    segment_name,
    segment_path,
    write_all,
)

STORE_ID = bytes(range(16))


class ShortWrites(OsDisk):
    """Takes at most `taken_max` bytes in one write."""

    def __init__(self, taken_max: int) -> None:
        self.taken_max = taken_max
        self.calls = 0

    def write(self, fd: int, parts: list[bytes], offset: int) -> int:
        self.calls += 1
        return super().write(fd, [b"".join(parts)[: self.taken_max]], offset)


def written(tmp_path: Path, disk: OsDisk, parts: list[bytes], offset: int) -> bytes:
    path = tmp_path / "file"
    fd = disk.open(path, writable=True, create=True)
    write_all(disk, fd, parts, offset)
    disk.close(fd)
    return path.read_bytes()


def test_a_name_is_the_base_position(tmp_path: Path) -> None:
    path = segment_path(tmp_path, 0xABC)
    assert path.name == "0000000000000abc.seg"
    assert segment_base(tmp_path, path.name) == 0xABC


@pytest.mark.parametrize(
    "name", ["x.seg", "abc.seg", "0000000000000ABC.seg", "-00000000000abcd.seg", "0" * 17 + ".seg"]
)
def test_another_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreCorrupt, match=name):
        segment_base(tmp_path, name)


def test_a_header_is_64_bytes_and_passes(tmp_path: Path) -> None:
    header = encode_segment_header(STORE_ID, 4096)
    assert len(header) == SEGMENT_HEADER_BYTES
    check_segment_header(tmp_path, header, 4096, STORE_ID)
    assert header_store_id(header) == STORE_ID


@pytest.mark.parametrize(
    ("header", "base", "store_id", "why"),
    [
        (b"GIF89a" + bytes(64), 0, STORE_ID, "not a Partibus segment"),
        (encode_segment_header(STORE_ID, 0)[:63], 0, STORE_ID, "not a Partibus segment"),
        (encode_segment_header(STORE_ID, 64), 0, STORE_ID, "renamed"),
        (encode_segment_header(bytes(16), 0), 0, STORE_ID, "belongs to store"),
    ],
)
def test_a_foreign_header_is_refused_with_its_reason(
    tmp_path: Path, header: bytes, base: int, store_id: bytes, why: str
) -> None:
    with pytest.raises(StoreCorrupt, match=why) as refused:
        check_segment_header(tmp_path / "some.seg", header, base, store_id)
    assert "some.seg: offset" in refused.value.text


def test_a_damaged_header_is_refused(tmp_path: Path) -> None:
    good = encode_segment_header(STORE_ID, 0)
    for index in range(8, 44):
        bad = bytearray(good)
        bad[index] ^= 0x10
        with pytest.raises(StoreCorrupt):
            check_segment_header(tmp_path, bytes(bad), 0, STORE_ID)
        assert header_store_id(bytes(bad)) is None


def test_a_newer_version_is_refused_by_its_number(tmp_path: Path) -> None:
    from partibus.store.files import segment

    original = segment.SEGMENT_VERSION
    try:
        segment.SEGMENT_VERSION = 2  # type: ignore[misc]
        newer = encode_segment_header(STORE_ID, 0)
    finally:
        segment.SEGMENT_VERSION = original  # type: ignore[misc]
    with pytest.raises(StoreCorrupt, match="format 2; this release reads 1"):
        check_segment_header(tmp_path, newer, 0, STORE_ID)


def test_more_parts_than_one_call_takes_are_all_written(tmp_path: Path) -> None:
    parts = [b"%d," % number for number in range(2 * WRITE_PARTS_MAX + 7)]
    assert written(tmp_path, OsDisk(), parts, 3) == b"\0\0\0" + b"".join(parts)


def test_short_writes_are_continued(tmp_path: Path) -> None:
    disk = ShortWrites(5)
    parts = [b"abc", b"", b"defghij", b"klmnopqrstuvwxyz"]
    assert written(tmp_path, disk, parts, 0) == b"".join(parts)
    assert disk.calls == 6


def test_a_write_that_takes_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="took none"):
        written(tmp_path, ShortWrites(0), [b"abc"], 0)


def test_a_new_segment_has_its_header_and_its_space(tmp_path: Path) -> None:
    disk = OsDisk()
    fd = make_segment(disk, tmp_path, STORE_ID, 0x40, 8192)
    disk.close(fd)
    data = segment_path(tmp_path, 0x40).read_bytes()
    check_segment_header(tmp_path, data, 0x40, STORE_ID)
    assert data[SEGMENT_HEADER_BYTES:] == bytes(8192 - SEGMENT_HEADER_BYTES)


def test_the_longest_unused_descriptor_is_closed_first(tmp_path: Path) -> None:
    class Counting(OsDisk):
        opened: list[str] = []  # noqa: RUF012

        def open(self, path: Path, *, writable: bool, create: bool = False) -> int:
            self.opened.append(path.name[14:16])
            return super().open(path, writable=writable, create=create)

    disk = Counting()
    for base in range(4):
        segment_path(tmp_path, base).write_bytes(b"")
    segments = OpenSegments(disk, tmp_path, open_max=2)
    for base in (0, 1, 0, 2, 0, 1):
        segments.descriptor(segment_name(base))
    assert disk.opened == ["00", "01", "02", "01"]
    assert len(segments) == 2
    segments.forget([segment_name(0), segment_name(3)])
    assert len(segments) == 1
    segments.close()
    assert len(segments) == 0
