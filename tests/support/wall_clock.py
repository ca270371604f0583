"""A wall clock that a test sets for the processes that it starts, and for nobody else.

Owns the small library that is loaded into them before the C library. Needs a C compiler, so
tests that use it are of the group "wall-clock".
"""

import shutil
import struct
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).with_name("wall_clock.c")
_SECONDS = struct.Struct("<q")


class WallClock:
    """The clock of processes that are started with its environment."""

    def __init__(self, directory: Path) -> None:
        compiler = shutil.which("gcc")
        assert compiler is not None, "the group says that a C compiler is here"
        library = directory / "wall_clock.so"
        command = [compiler, "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
        subprocess.run(command, check=True)
        self._file = directory / "wall_clock"
        self._file.write_bytes(_SECONDS.pack(0))
        self.environment = {"LD_PRELOAD": str(library), "WALL_CLOCK_FILE": str(self._file)}

    def set_ahead(self, seconds: int) -> None:
        """Let the clock differ by so much from that of the machine; may be negative."""
        with self._file.open("r+b") as file:
            file.write(_SECONDS.pack(seconds))
