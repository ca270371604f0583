"""Functions found by name."""

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import cloudpickle

from pyspark_servicebus.pipelines.run.settings import SettingsError
from pyspark_servicebus.pipelines.transform.functions import load_function


@pytest.fixture(autouse=True)
def _no_trace() -> Iterator[None]:
    known = set(sys.modules)
    yield
    for name in set(sys.modules) - known:
        if name.startswith("mine"):
            module = sys.modules.pop(name)
            if name in cloudpickle.list_registry_pickle_by_value():
                cloudpickle.unregister_pickle_by_value(module)


def write(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("name", ["mine_a:double", "mine_a.py:double"])
def test_a_module_beside_the_job_travels_by_value(tmp_path: Path, name: str) -> None:
    write(tmp_path, "mine_a.py", "FACTOR = 2\ndef double(n):\n    return FACTOR * n\n")
    function = load_function("rows", name, tmp_path)
    assert function(4) == 8
    pickled = cloudpickle.dumps(function)
    del sys.modules["mine_a"]
    assert pickle.loads(pickled)(5) == 10  # noqa: S301 - our own bytes
    assert str(tmp_path) not in sys.path


def test_a_file_is_run_once_and_again_when_it_has_changed(tmp_path: Path) -> None:
    """Every batch asks for its functions; a module that loads a model does it once."""
    text = "import itertools\nRUNS = itertools.count()\ndef runs():\n    return next(RUNS)\n"
    write(tmp_path, "mine_b.py", text)
    assert [load_function("rows", "mine_b.py:runs", tmp_path)() for _ in range(3)] == [0, 1, 2]
    write(tmp_path, "mine_b.py", text + "# corrected\n")
    assert load_function("rows", "mine_b.py:runs", tmp_path)() == 0


def test_an_installed_module_travels_by_name() -> None:
    function = load_function("rows", "json:dumps")
    assert function([1]) == "[1]"
    assert "json" not in cloudpickle.list_registry_pickle_by_value()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("double", "'double' is not a function; write module:function"),
        (":double", "is not a function"),
        ("mine_b:", "is not a function"),
        ("mine_b:dubble", "mine_b has no function 'dubble'; it has double."),
        ("mine_b:FACTOR", "has no function 'FACTOR'"),
        ("mine_absent:x", "mine_absent cannot be imported: ModuleNotFoundError"),
        ("absent.py:x", "absent.py cannot be imported: FileNotFoundError: there is no file"),
        ("mine_wrong:x", "mine_wrong cannot be imported: ZeroDivisionError"),
    ],
)
def test_refused(tmp_path: Path, name: str, words: str) -> None:
    write(tmp_path, "mine_b.py", "FACTOR = 2\ndef double(n):\n    return FACTOR * n\n")
    write(tmp_path, "mine_wrong.py", "1 / 0\n")
    with pytest.raises(SettingsError, match=f"rows: .*{words}"):
        load_function("rows", name, tmp_path)
