"""Files and directories that are the server's alone, whatever the umask."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from partibus.files.private import (
    close_to_others,
    make_private_directory,
    open_private,
    write_private,
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o000, 0o022, 0o277])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def test_what_is_made_is_private(tmp_path: Path, umask: None) -> None:
    deep = tmp_path / "a" / "b"
    make_private_directory(deep)
    make_private_directory(deep)
    write_private(deep / "file", b"content")
    open_private(deep / "other").close()
    assert [mode(p) for p in (tmp_path / "a", deep)] == [0o700, 0o700]
    assert [mode(p) for p in sorted(deep.iterdir())] == [0o600, 0o600]
    assert (deep / "file").read_bytes() == b"content"


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"a longer content of before")
    (tmp_path / "file.partial").write_bytes(b"what a crash has left")
    write_private(tmp_path / "file", b"short")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"short"


def test_no_link_is_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"theirs")
    for name in ("file", "file.partial", "dangling"):
        (tmp_path / name).symlink_to(victim if name != "dangling" else tmp_path / "nowhere")
    for name in ("file", "dangling"):
        with pytest.raises(OSError, match="symbolic link"):
            open_private(tmp_path / name)
    write_private(tmp_path / "file", b"ours")
    assert victim.read_bytes() == b"theirs"
    assert not (tmp_path / "file").is_symlink() and not (tmp_path / "nowhere").exists()


def test_what_is_there_is_closed_to_others(tmp_path: Path) -> None:
    directory = tmp_path / "wide"
    directory.mkdir()
    directory.chmod(0o755)
    theirs = tmp_path / "theirs"
    theirs.touch(0o644)
    theirs.chmod(0o644)
    (directory / "file").write_bytes(b"")
    (directory / "file").chmod(0o640)
    (directory / "link").symlink_to(theirs)
    close_to_others(directory)
    assert (mode(directory), mode(directory / "file")) == (0o700, 0o600)
    assert mode(theirs) == 0o644


def test_a_file_in_the_place_of_a_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        make_private_directory(tmp_path / "file")
