"""Manifests: what they tell comes back, and which files hold a capture after compactions."""

import json
from pathlib import Path

from pyspark_servicebus.pipelines.capture.compaction import plan
from pyspark_servicebus.pipelines.capture.folder import Lake
from pyspark_servicebus.pipelines.capture.manifest import (
    CapturedFile,
    Compaction,
    Span,
    Window,
    current_files,
    load_windows,
    save_compaction,
    save_window,
    window_named,
)
from pyspark_servicebus.pipelines.capture.target import next_numbers


def file_of(path: str, first: int = 1, rows: int = 10, size: int = 100) -> CapturedFile:
    return CapturedFile(
        path=path,
        rows=rows,
        bytes=size,
        first_enqueued_ms=first,
        last_enqueued_ms=first + rows,
        fragments={0: Span(first, first + rows - 1, rows)},
        staged=f"staged-{path}",
    )


def window(batch: int, *files: CapturedFile) -> Window:
    return Window(
        app="0123456789ab", batch=batch, entity="q", namespace="n", closed_ms=batch, files=files
    )


def test_a_window_comes_back(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    other = CapturedFile(
        path="b",
        rows=2,
        bytes=5,
        first_enqueued_ms=3,
        last_enqueued_ms=4,
        fragments={0: Span(11, 12, 1), 3: Span((3 << 48) + 7, (3 << 48) + 7, 1)},
    )
    saved = window(4, file_of("a"), other)
    save_window(lake, saved)
    assert window_named(lake, saved.name) == saved
    assert window_named(lake, "other") is None
    table = json.loads((tmp_path / "_capture/windows/01234567-00000004.json").read_text())
    assert (table["rows"], table["bytes"], table["schema_version"]) == (12, 105, 1)
    assert table["fragments"]["0"] == {"first": 1, "last": 12, "rows": 11}
    assert next_numbers([saved]) == {0: 13, 3: 8}


def test_windows_are_in_their_order(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    for batch in (10, 2, 1):
        save_window(lake, window(batch))
    assert [found.batch for found in load_windows(lake)] == [1, 2, 10]


def test_the_files_of_now(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    save_window(lake, window(0, file_of("a"), file_of("b", 11), file_of("c", 21)))
    for name, path, replaced in (("c1", "ab", ("a", "b")), ("c2", "abc", ("ab", "c"))):
        save_compaction(lake, Compaction(name=name, file=file_of(path), replaces=replaced))
    assert [file.path for file in current_files(lake)] == ["abc"]


def test_neighbours_of_a_folder_are_put_together() -> None:
    files = [file_of(f"{folder}/{n}", n) for folder in "xy" for n in (3, 1, 2)]
    files += [file_of("x/large", size=1000), file_of("z/alone"), file_of("x/0", 0)]
    groups = [[file.path for file in group] for group in plan(files, 250, frozenset({"x/0"}))]
    assert groups == [["x/1", "x/2"], ["y/1", "y/2"]]
