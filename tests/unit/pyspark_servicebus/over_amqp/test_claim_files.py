"""The notes of a query: there wholly or not at all, on this machine or where Arrow reaches."""

from pathlib import Path

import pyarrow.fs as pafs
import pytest

from pyspark_servicebus.over_amqp.claim_files import CLAIM, INTENT, ClaimFiles
from pyspark_servicebus.over_amqp.holding import Holding

HELD = [Holding(1 << 48 | 7, 120, "token"), Holding(3, 4)]


@pytest.fixture(params=["local", "elsewhere"])
def files(tmp_path: Path, request: pytest.FixtureRequest) -> ClaimFiles:
    made = ClaimFiles(str(tmp_path / "claims"))
    if request.param == "elsewhere":
        # A file system of another class is written in the way of those that are far away.
        made._files = pafs.SubTreeFileSystem(str(tmp_path / "claims"), pafs.LocalFileSystem())
        made._root = ""
    return made


def test_what_was_noted_is_read_again(files: ClaimFiles) -> None:
    assert files.noted("a" + CLAIM) is None
    files.note("a" + CLAIM, HELD)
    files.note("b" + INTENT, [])
    assert files.noted("a" + CLAIM) == HELD
    assert files.noted("b" + INTENT) == []
    assert files.names(INTENT, CLAIM) == ["a.claim", "b.intent"]
    files.forget("a" + CLAIM)
    files.forget("a" + CLAIM)
    assert files.names(INTENT, CLAIM) == ["b.intent"]


def test_one_run_at_a_time(files: ClaimFiles) -> None:
    assert not files.is_mine("one")
    files.take_over("one", "q")
    assert files.is_mine("one")
    files.take_over("two", "q")
    assert not files.is_mine("one")
    with pytest.raises(ValueError, match="belongs to 'q'; give 'other' a directory"):
        files.take_over("three", "other")


def test_a_note_of_another_version(files: ClaimFiles) -> None:
    files._write("a.claim", {"v": 2, "messages": []})
    with pytest.raises(ValueError, match=r"a\.claim has version 2, not 1"):
        files.noted("a.claim")


def test_a_file_that_was_half_written_is_no_note(tmp_path: Path) -> None:
    files = ClaimFiles(str(tmp_path))
    (tmp_path / "a.claim.new").write_text('{"v":1,"mess')
    assert files.names(CLAIM) == []
