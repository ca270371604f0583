"""The path of the Python processes that Spark starts in the tests: our sources, and a quick start.

The quick start is in python_start/sitecustomize.py. The tests of shipping, of the demo and of the
pages do without it, so that Spark starts its processes there as it does for everybody; and so does
a run with another Spark than the installed one, whose packages are only in its zip files.
"""

import os
from pathlib import Path
from typing import Final

from support.server import SOURCE

_START: Final = (
    [] if os.environ.get("PARTIBUS_SPARK") else [Path(__file__).with_name("python_start")]
)
PYTHON_PATH: Final = os.pathsep.join(map(str, (SOURCE, *_START)))
