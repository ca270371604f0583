"""The collected tests of one folder.

Owns the question where a test is from. It is asked for each of ten thousand tests in each process
of the test runner, so paths are compared as text.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest


def tests_below(folder: Path, items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Those whose file is somewhere below the folder."""
    beginning = f"{folder}{os.sep}"
    return [item for item in items if str(item.path).startswith(beginning)]
