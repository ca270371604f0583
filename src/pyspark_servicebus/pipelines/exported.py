"""The names of a pipeline's package, imported when somebody asks for them.

Owns how a package passes on the names of its module `pipeline`. The command line and declared files
read the settings of pipelines where Spark and Arrow may be missing, so that importing a package
must import neither.
"""

import importlib
from collections.abc import Callable, Sequence
from typing import Any


def exported_from_pipeline(package: str, names: Sequence[str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package that has these names from its module `pipeline`."""

    def look_up(name: str) -> Any:
        if name in names:
            return getattr(importlib.import_module(f"{package}.pipeline"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return look_up
