"""The server's log: one line an event, on stderr, through the standard library.

Owns the format and the level. stdout is not its business: that carries the READY line
and the output of commands. Called once, by the `serve` verb, before anything can log.
"""

import logging
import sys
from typing import Final

LINE_FORMAT: Final = "%(asctime)s.%(msecs)03d %(levelname)-7s {process}%(name)s: %(message)s"
TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%S"


def configure_logging(level: int = logging.INFO, process: str = "") -> None:
    """Send every record to stderr in one form; `process` distinguishes the writers of one log."""
    handler = logging.StreamHandler(sys.stderr)
    line_format = LINE_FORMAT.format(process=f"[{process}] " if process else "")
    handler.setFormatter(logging.Formatter(line_format, TIME_FORMAT))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # The loop's own chatter (which selector it uses) is not news to anybody.
    logging.getLogger("asyncio").setLevel(max(level, logging.WARNING))
