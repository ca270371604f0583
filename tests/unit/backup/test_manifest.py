"""The manifest of a backup: it comes back as it was, or not at all."""

import pytest

from partibus.backup.manifest import FileEntry, Manifest, decode_manifest, encode_manifest
from partibus.domain.errors import StoreCorrupt

SHA = "ab" * 32


def manifest(*places: str, stores: int = 2) -> Manifest:
    return Manifest(
        format=1,
        id="20260101T000000Z-abcdef",
        made_at="2026-01-01T00:00:00+00:00",
        release="0.1.0",
        namespace="00" * 16,
        generation=3,
        is_online=True,
        stores=stores,
        files=[FileEntry(place, 1, SHA) for place in ("catalog.db", *places)],
        copied_bytes=0,
    )


def test_what_was_written_is_read() -> None:
    one = manifest("store-0/durable", "store-1/0000000000000000.seg")
    assert decode_manifest("m", encode_manifest(one)) == one
    assert [file.store for file in one.files] == [None, 0, 1]


def test_every_changed_byte_is_found() -> None:
    data = encode_manifest(manifest("store-0/durable"))
    for index in range(len(data)):
        damaged = data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :]
        with pytest.raises(StoreCorrupt):
            decode_manifest("m", damaged)


@pytest.mark.parametrize(
    "place", ["../x", "store-0/../x", "/etc/x", "store-0/", "store-2/durable", "store-0/.x", "x"]
)
def test_a_file_lies_nowhere_else(place: str) -> None:
    with pytest.raises(StoreCorrupt, match="not a file of a data directory"):
        decode_manifest("m", encode_manifest(manifest(place)))


def test_a_file_is_named_once() -> None:
    with pytest.raises(StoreCorrupt, match="twice"):
        decode_manifest("m", encode_manifest(manifest("store-0/durable", "store-0/durable")))


def test_another_format_is_said() -> None:
    one = manifest()
    one.format = 2
    with pytest.raises(StoreCorrupt, match="another format"):
        decode_manifest("m", encode_manifest(one))
