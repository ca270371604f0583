"""Which compiled modules are older than their source."""

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType

import pytest

from partibus.ops.compiled import is_compiled, loaded, outdated, warn_if_outdated


def module(folder: Path, name: str, compiled_s: int, source_s: int) -> Path:
    compiled = folder / f"{name}.cpython-311-x86_64-linux-gnu.so"
    source = folder / f"{name}.py"
    for path, time_s in ((compiled, compiled_s), (source, source_s)):
        path.write_bytes(b"")
        os.utime(path, (time_s, time_s))
    return compiled


def test_a_source_edited_after_it_was_compiled_is_found(tmp_path: Path) -> None:
    edited = module(tmp_path, "link", compiled_s=100, source_s=101)
    fresh = module(tmp_path, "session", compiled_s=100, source_s=99)
    assert outdated([edited, fresh]) == [tmp_path / "link.py"]


def test_a_compiled_module_without_a_source_is_no_trouble(tmp_path: Path) -> None:
    compiled = module(tmp_path, "link", compiled_s=100, source_s=101)
    (tmp_path / "link.py").unlink()
    assert outdated([compiled]) == []


@pytest.mark.parametrize(
    ("name", "file", "is_ours"),
    [
        ("partibus.amqp.made_up", "/src/partibus/amqp/made_up.cpython-311.so", True),
        ("partibus.amqp.made_up", "/src/partibus/amqp/made_up.py", False),
        ("partibus.amqp.made_up", "/site-packages/partibus/amqp/made_up.cpython-311.so", False),
        ("made_up", "/src/made_up.cpython-311.so", False),
    ],
)
def test_only_compiled_modules_of_a_working_copy_count(
    monkeypatch: pytest.MonkeyPatch, name: str, file: str, is_ours: bool
) -> None:
    fake = ModuleType(name)
    fake.__file__ = file
    monkeypatch.setitem(sys.modules, name, fake)
    assert (Path(file) in loaded()) == is_ours


def test_the_server_says_which_module_runs_in_an_old_form(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fake = ModuleType("partibus.amqp.made_up")
    fake.__file__ = str(module(tmp_path, "made_up", compiled_s=100, source_s=101))
    monkeypatch.setitem(sys.modules, fake.__name__, fake)
    warn_if_outdated()
    assert str(tmp_path / "made_up.py") in caplog.text
    assert "make install" in caplog.text


def test_whether_anything_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partibus.ops.compiled.PACKAGE", tmp_path)
    module(tmp_path, "link", compiled_s=100, source_s=100).rename(tmp_path / "link.other-python.so")
    assert not is_compiled()
    (tmp_path / "amqp").mkdir()
    (tmp_path / "amqp" / f"link{EXTENSION_SUFFIXES[0]}").touch()
    assert is_compiled()
