"""A directory of backups: whatever is interrupted or damaged, the others stay whole."""

import contextlib
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from partibus.backup.making import Description, Plan, SourceFile, carry_out
from partibus.backup.manifest import Manifest
from partibus.backup.repository import Repository
from partibus.backup.verifying import verify
from partibus.domain.errors import ArgumentError, ConfigError, StoreCorrupt, StoreUnavailable

NAMESPACE = "11" * 16


def ignore(_count: int) -> None:
    pass


class Files:
    """A source of files that are held in memory, and knows what was asked for."""

    def __init__(self, **contents: bytes) -> None:
        self.contents = {f"store-0/{name}": content for name, content in contents.items()}
        self.asked: list[str] = []
        self.breaks_at = ""

    def describe(self, number: int, namespace: str = NAMESPACE) -> Description:
        files = [SourceFile(p, len(c), f"{hash(c)}") for p, c in self.contents.items()]
        return Description(
            id=f"20260101T00000{number}Z-abcdef",
            made_at="2026-01-01T00:00:00+00:00",
            namespace=namespace,
            generation=number,
            is_online=True,
            stores=1,
            files=files,
            contents={"catalog.db": b"catalog %d" % number},
        )

    def chunks(self, file: SourceFile) -> Iterator[bytes]:
        self.asked.append(file.place)
        content = self.contents[file.place]
        yield content[:3]
        if file.place == self.breaks_at:
            raise OSError("the line is cut")
        yield content[3:]


def back_up(directory: Path, files: Files, number: int, namespace: str = NAMESPACE) -> Manifest:
    files.asked.clear()
    with Repository(directory).opened(writable=True) as repository:
        plan = Plan(repository, files.describe(number, namespace))
        return carry_out(plan, repository, files, ignore)


def content(directory: Path, manifest: Manifest) -> dict[str, bytes]:
    with Repository(directory).opened(writable=False) as repository:
        return {
            f.place: b"".join(repository.chunks(f.sha256, f.length))
            for f in repository.manifest(manifest.id).files
        }


def problems(directory: Path) -> list[list[str]]:
    with Repository(directory).opened(writable=False) as repository:
        return [report.problems for report in verify(repository, repository.ids(), ignore)]


def test_a_backup_comes_back(tmp_path: Path) -> None:
    files = Files(a=b"first", b=b"second")
    manifest = back_up(tmp_path / "b", files, 1)
    assert content(tmp_path / "b", manifest) == {"catalog.db": b"catalog 1", **files.contents}
    assert problems(tmp_path / "b") == [[]]


def test_a_second_one_copies_what_is_new(tmp_path: Path) -> None:
    files = Files(a=b"first", b=b"second")
    first = back_up(tmp_path / "b", files, 1)
    files.contents["store-0/b"] = b"changed"
    files.contents["store-0/c"] = b"third"
    second = back_up(tmp_path / "b", files, 2)
    assert files.asked == ["store-0/b", "store-0/c"]
    assert second.copied_bytes == len(b"changed" + b"third" + b"catalog 2")
    assert content(tmp_path / "b", second)["store-0/a"] == b"first"
    assert content(tmp_path / "b", first)["store-0/b"] == b"second"


def test_what_was_lost_is_copied_again(tmp_path: Path) -> None:
    files = Files(a=b"first", b=b"second")
    manifest = back_up(tmp_path / "b", files, 1)
    lost = next(f for f in manifest.files if f.place == "store-0/a")
    Repository(tmp_path / "b").object_path(lost.sha256).unlink()
    assert problems(tmp_path / "b")[0][0].startswith("store-0/a: ")
    back_up(tmp_path / "b", files, 2)
    assert files.asked == ["store-0/a"]
    assert problems(tmp_path / "b") == [[], []]


def test_an_interrupted_one_leaves_the_earlier_ones_whole(tmp_path: Path) -> None:
    files = Files(a=b"first", b=b"second")
    first = back_up(tmp_path / "b", files, 1)
    files.contents["store-0/b"] = b"changed"
    files.breaks_at = "store-0/b"
    with pytest.raises(OSError, match="cut"):
        back_up(tmp_path / "b", files, 2)
    with Repository(tmp_path / "b").opened(writable=True) as repository:
        assert repository.ids() == [first.id]
        repository.sweep()
    assert problems(tmp_path / "b") == [[]]
    assert len(list((tmp_path / "b" / "objects").rglob("*"))) == 6, "three objects and folders"


def test_old_ones_are_dropped_with_what_only_they_need(tmp_path: Path) -> None:
    files = Files(a=b"first", b=b"second")
    first = back_up(tmp_path / "b", files, 1)
    files.contents["store-0/b"] = b"changed"
    second = back_up(tmp_path / "b", files, 2)
    with Repository(tmp_path / "b").opened(writable=True) as repository:
        repository.drop_manifest(first.id)
        assert repository.sweep() == (2, len(b"second" + b"catalog 1"))
    assert content(tmp_path / "b", second)["store-0/a"] == b"first"


def test_nothing_is_swept_while_a_manifest_cannot_be_read(tmp_path: Path) -> None:
    manifest = back_up(tmp_path / "b", Files(a=b"first"), 1)
    path = tmp_path / "b" / "manifests" / f"{manifest.id}.json"
    path.write_bytes(path.read_bytes()[:-1])
    with (
        Repository(tmp_path / "b").opened(writable=True) as repository,
        pytest.raises(StoreCorrupt),
    ):
        repository.sweep()
    assert list((tmp_path / "b" / "objects").glob("??/*"))


def test_every_damaged_byte_is_found(tmp_path: Path) -> None:
    manifest = back_up(tmp_path / "b", Files(a=b"first"), 1)
    for file in manifest.files:
        path = Repository(tmp_path / "b").object_path(file.sha256)
        whole = path.read_bytes()
        for index in range(len(whole)):
            path.write_bytes(whole[:index] + bytes([whole[index] ^ 4]) + whole[index + 1 :])
            assert problems(tmp_path / "b")[0][0].startswith(file.place)
        path.write_bytes(whole)


def test_each_namespace_has_its_own_directory(tmp_path: Path) -> None:
    back_up(tmp_path / "b", Files(a=b"first"), 1)
    with pytest.raises(ConfigError, match="another namespace"):
        back_up(tmp_path / "b", Files(a=b"first"), 2, "22" * 16)


def test_a_directory_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"")
    with pytest.raises(ConfigError, match="not empty"):
        back_up(tmp_path, Files(a=b"first"), 1)
    with pytest.raises(ConfigError, match="holds no backups"):
        problems(tmp_path)


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(Repository(tmp_path / "b").opened(writable=True))
        for writable in (True, False):
            with pytest.raises(StoreUnavailable, match="in use"):
                stack.enter_context(Repository(tmp_path / "b").opened(writable=writable))
    with (
        Repository(tmp_path / "b").opened(writable=False),
        Repository(tmp_path / "b").opened(writable=False),
    ):
        pass


def test_a_backup_that_is_not_there_is_named(tmp_path: Path) -> None:
    back_up(tmp_path / "b", Files(a=b"first"), 1)
    with (
        Repository(tmp_path / "b").opened(writable=False) as repository,
        pytest.raises(ArgumentError, match="has no backup 'yesterday'"),
    ):
        repository.manifest("yesterday")


def test_only_the_owner_reads_backups(tmp_path: Path) -> None:
    back_up(tmp_path / "b", Files(a=b"first"), 1)
    for path in (tmp_path / "b", *(tmp_path / "b").rglob("*")):
        expected = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == expected, path
