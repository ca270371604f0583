"""Failures a user can act on, as one line on stderr (and an excerpt) and an exit code.

Owns the exit codes of the command line, and the end of a process after a bug of ours. Only errors
of our own taxonomy and of the operating system are reported this way; anything else is a bug and
shows its traceback. Called by the lifecycle and by verbs that check things or call a server.
"""

import logging
import os
import sys
from typing import Final

from partibus.domain.errors import BusError, ConfigError, StoreCorrupt

EXIT_CLEAN: Final = 0
EXIT_FAILED: Final = 1
EXIT_CONFIG: Final = 2
EXIT_USAGE: Final = EXIT_CONFIG
EXIT_CORRUPT: Final = 3
EXIT_NOT_FOUND: Final = 4
EXIT_UNREACHABLE: Final = 5
EXIT_UNAUTHORIZED: Final = 6
EXIT_INTERNAL: Final = 70
"""EX_SOFTWARE of sysexits."""

_log: Final = logging.getLogger(__name__)


def report(error: BusError | OSError) -> int:
    """Print what to correct, in one line and any excerpt; returns its exit code."""
    print(f"partibus: {_tidy(_text(error))}", file=sys.stderr, flush=True)
    if isinstance(error, ConfigError):
        return EXIT_CONFIG
    return EXIT_CORRUPT if isinstance(error, StoreCorrupt) else EXIT_FAILED


def _text(error: BusError | OSError) -> str:
    if isinstance(error, BusError):
        return error.text
    return f"{error.filename}: {error.strerror}" if error.filename is not None else str(error)


def _tidy(text: str) -> str:
    """One line; an indented excerpt keeps its own lines."""
    lines = text.split("\n")
    reported = " ".join(" ".join(line for line in lines if not line.startswith("  ")).split())
    return "\n".join([reported, *(line for line in lines if line.startswith("  "))])


def stop_at_once(error: Exception) -> None:
    """A machine failed unexpectedly: durable data is correct, memory may not be.

    Nothing more is acknowledged or written; the next start recovers from the log.
    """
    _log.critical("internal error, stopping immediately; stored messages are safe", exc_info=error)
    os._exit(EXIT_INTERNAL)
