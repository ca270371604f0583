"""The path of the Python processes that Spark starts in the tests: our sources, and a quick start.

What the quick start is stands in python_start/sitecustomize.py. The tests of shipping, of the demo
and of the pages do without, so that there Spark starts its processes as it does for everybody.
"""

import os
from pathlib import Path
from typing import Final

from support.server import SOURCE

PYTHON_PATH: Final = os.pathsep.join([str(SOURCE), str(Path(__file__).with_name("python_start"))])
