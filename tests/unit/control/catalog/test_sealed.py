"""A catalog that lies encrypted: durable before it is confirmed, and unreadable without its key."""

import os
from pathlib import Path

import pytest

from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.sealed import SealedCatalog, is_sealed, working_directory
from partibus.domain.entity import QueueSpec
from partibus.domain.errors import StoreCorrupt, StoreUnavailable
from partibus.sealing.seal import Sealer

KEY = os.urandom(32)


def sealed(tmp_path: Path, name: str = "working", key: bytes = KEY) -> SealedCatalog:
    (tmp_path / name).mkdir(exist_ok=True)
    return SealedCatalog(tmp_path / "catalog.db", tmp_path / name, Sealer(key))


def test_what_was_confirmed_is_in_the_image(tmp_path: Path) -> None:
    """The copy that is worked on is lost, as with the power."""
    Catalog(tmp_path / "catalog.db", encrypted=sealed(tmp_path)).create("hidden", QueueSpec())
    assert is_sealed(tmp_path / "catalog.db")
    assert b"hidden" not in (tmp_path / "catalog.db").read_bytes()
    again = sealed(tmp_path, "again")
    again.unseal()
    catalog = Catalog(tmp_path / "catalog.db", encrypted=again)
    assert [record.path for record in catalog.entities()] == ["hidden"]
    assert catalog.generation > 0


def test_two_processes_share_the_copy(tmp_path: Path) -> None:
    one = Catalog(tmp_path / "catalog.db", encrypted=sealed(tmp_path))
    two = Catalog(tmp_path / "catalog.db", encrypted=sealed(tmp_path))
    one.create("first", QueueSpec())
    two.refresh()
    two.create("second", QueueSpec())
    one.refresh()
    assert {record.path for record in one.entities()} == {"first", "second"}
    again = sealed(tmp_path, "again")
    again.unseal()
    found = Catalog(tmp_path / "catalog.db", encrypted=again).entities()
    assert {record.path for record in found} == {"first", "second"}


def test_a_change_that_cannot_be_kept_did_not_happen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = Catalog(tmp_path / "catalog.db", encrypted=sealed(tmp_path))
    catalog.create("first", QueueSpec())

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("partibus.control.catalog.sealed.write_private", full)
    with pytest.raises(StoreUnavailable, match="No space left"):
        catalog.create("second", QueueSpec())
    monkeypatch.undo()
    other = Catalog(tmp_path / "catalog.db", encrypted=sealed(tmp_path))
    assert [record.path for record in other.entities()] == ["first"]
    other.create("second", QueueSpec())


def test_a_plain_catalog_becomes_an_image(tmp_path: Path) -> None:
    plain = Catalog(tmp_path / "catalog.db")
    plain.create("hidden", QueueSpec())
    plain.close()
    image = sealed(tmp_path)
    image.unseal()
    assert is_sealed(tmp_path / "catalog.db")
    found = Catalog(tmp_path / "catalog.db", encrypted=image).entities()
    assert [record.path for record in found] == ["hidden"]


def test_a_damaged_image_and_another_key_are_said(tmp_path: Path) -> None:
    Catalog(tmp_path / "catalog.db", encrypted=sealed(tmp_path)).create("hidden", QueueSpec())
    with pytest.raises(StoreCorrupt, match="decrypted"):
        sealed(tmp_path, "again", os.urandom(32)).unseal()
    content = (tmp_path / "catalog.db").read_bytes()
    (tmp_path / "catalog.db").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(StoreCorrupt, match="decrypted"):
        sealed(tmp_path, "again").unseal()


def test_the_place_in_memory_is_private_and_cleared(tmp_path: Path) -> None:
    with working_directory(tmp_path) as first:
        (first / "left").write_bytes(b"")
        assert first.stat().st_mode & 0o077 == 0
        with working_directory(tmp_path) as second:
            assert not first.exists(), "whoever locks the directory clears what was left"
            assert second.exists()
        first.mkdir()
    assert not first.exists()
