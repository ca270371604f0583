"""How far the log is known to be durable."""

from pathlib import Path

import pytest

from partibus.store.files.disk import OsDisk
from partibus.store.files.watermark import WATERMARK_NAME, Watermark, read_watermark

STORE_ID = bytes(range(16))


def test_there_may_be_none(tmp_path: Path) -> None:
    assert read_watermark(OsDisk(), tmp_path) is None


def test_the_last_advance_is_found(tmp_path: Path) -> None:
    disk = OsDisk()
    watermark = Watermark(disk, tmp_path, STORE_ID, 64)
    for position in (64, 100, 5000, 5001):
        watermark.advance(position)
        found = read_watermark(disk, tmp_path)
        assert found is not None
        assert (found.position, found.store_id, found.sound) == (position, STORE_ID, True)
    watermark.close()


def test_it_never_goes_back(tmp_path: Path) -> None:
    watermark = Watermark(OsDisk(), tmp_path, STORE_ID, 64)
    with pytest.raises(AssertionError):
        watermark.advance(63)
    watermark.close()


def test_it_is_synced_once_per_change(tmp_path: Path) -> None:
    class Counting(OsDisk):
        syncs = 0

        def sync(self, fd: int) -> None:
            Counting.syncs += 1
            super().sync(fd)

    watermark = Watermark(Counting(), tmp_path, STORE_ID, 0)
    made = Counting.syncs
    watermark.sync()
    assert Counting.syncs == made
    watermark.advance(10)
    watermark.sync()
    watermark.sync()
    assert Counting.syncs == made + 1
    watermark.close()


@pytest.mark.parametrize("slot", [0, 512])
def test_one_damaged_slot_leaves_the_other_but_is_not_sound(tmp_path: Path, slot: int) -> None:
    disk = OsDisk()
    watermark = Watermark(disk, tmp_path, STORE_ID, 64)
    watermark.advance(100)
    watermark.advance(200)
    watermark.close()
    path = tmp_path / WATERMARK_NAME
    good = path.read_bytes()
    for index in range(slot, slot + 44):
        bad = bytearray(good)
        bad[index] ^= 0x40
        path.write_bytes(bad)
        found = read_watermark(disk, tmp_path)
        assert found is not None
        assert not found.sound
        assert found.position == (200 if slot == 0 else 100)


@pytest.mark.parametrize("content", [b"", bytes(4096), b"garbage" * 600])
def test_a_file_with_no_slot_says_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / WATERMARK_NAME).write_bytes(content)
    found = read_watermark(OsDisk(), tmp_path)
    assert found is not None
    assert (found.position, found.store_id, found.sound) == (0, None, False)
