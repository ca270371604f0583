"""Functions of the user, named as `module:function` or `file.py:function`.

Owns how such a name is found, and how the function reaches Spark's workers: a module that is
installed there is imported there, and one that is only beside the job is sent by value. A file is
run once, and again when it has changed. Must never call the function. Called by the steps, on the
driver, for every batch.
"""

import importlib
import importlib.util
import site
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark_servicebus.pipelines.run.settings import SettingsError

Function = Callable[..., Any]
_ran: dict[Path, tuple[tuple[int, int], ModuleType]] = {}
"""Files that were run, with their modification time and size then."""


def load_function(setting: str, name: str, beside: Path | None = None) -> Function:
    """The function of that name; `beside` is a directory to search first."""
    where, colon, attribute = name.rpartition(":")
    if not colon or not where or not attribute:
        raise SettingsError(
            f"{setting}: '{name}' is not a function; write module:function or file.py:function."
        )
    module = _module(setting, where, beside)
    found = getattr(module, attribute, None)
    if not callable(found):
        raise SettingsError(f"{setting}: {where} has no function '{attribute}'{_near(module)}")
    if not _is_installed(module):
        from pyspark import cloudpickle

        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return found  # type: ignore[no-any-return]


def _module(setting: str, where: str, beside: Path | None) -> ModuleType:
    try:
        if where.endswith(".py"):
            return _module_of_file((beside or Path.cwd()) / where)
        return _module_of_name(where, beside)
    except Exception as error:
        # Any exception of the user's module on import is reported to the user.
        kind = type(error).__name__
        raise SettingsError(
            f"{setting}: {where} cannot be imported: {kind}: {error}. Looked in "
            f"{beside or Path.cwd()} and where Python finds modules."
        ) from error


def _module_of_file(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise FileNotFoundError(f"there is no file {file}")
    found = file.stat()
    form, known = (found.st_mtime_ns, found.st_size), _ran.get(file)
    module = importlib.util.module_from_spec(spec) if known is None else known[1]
    # Registered by name so that its functions can be pickled.
    sys.modules[file.stem] = module
    if known is None or known[0] != form:
        spec.loader.exec_module(module)
        _ran[file] = (form, module)
    return module


def _module_of_name(name: str, beside: Path | None) -> ModuleType:
    place = str(beside or Path.cwd())
    sys.path.insert(0, place)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(place)


def _is_installed(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    if file is None:
        return True
    paths = sysconfig.get_paths()
    places = [paths["stdlib"], paths["purelib"], paths["platlib"], *site.getsitepackages()]
    return any(Path(file).resolve().is_relative_to(Path(place).resolve()) for place in places)


def _near(module: ModuleType) -> str:
    names = [
        name
        for name, value in vars(module).items()
        if callable(value) and not name.startswith("_") and value.__module__ == module.__name__
    ]
    return f"; it has {', '.join(sorted(names))}." if names else "."
