"""The server's log: one line an event, on stderr, through the standard library.

Owns the two forms (text for people, JSON for programs), the level, and the file of the audit log.
stdout is not its business: that carries the READY line and the output of commands. Called by the
`serve` verb and by each worker, before anything can log; the level may change later.
"""

import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any, Final

from partibus.domain.errors import ArgumentError

LINE_FORMAT: Final = "%(asctime)s.%(msecs)03d %(levelname)-7s {process}%(name)s: %(message)s"
TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%S"
TEXT: Final = "text"
JSON: Final = "json"
LOG_FORMATS: Final = (TEXT, JSON)
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
AUDIT: Final = "partibus.audit"
_AUDIT_MODE: Final = 0o600


class TextForm(logging.Formatter):
    """A line for people; untrusted text cannot start another line."""

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        facts = _facts(record)
        if not facts:
            return line
        head = line.replace("\r", "\\r").replace("\n", "\\n")
        return f"{head} {' '.join(f'{name}={_word(value)}' for name, value in facts.items())}"


class JsonForm(logging.Formatter):
    """An object on one line: time, level, logger, message, and further fields."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime(TIME_FORMAT, time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if self._process:
            line["process"] = self._process
        line |= _facts(record)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def configure_logging(
    level: str = "info", process: str = "", form: str = TEXT, audit: Path | None = None
) -> None:
    """Send every record to stderr in one form; `process` distinguishes the writers of one log."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_form(form, process))
    logging.getLogger().handlers[:] = [handler]
    set_level(level)
    _open_audit(audit, process)


def set_level(level: str) -> None:
    """Log from this level on."""
    if level not in LOG_LEVELS:
        raise ArgumentError(f"'{level}' is not a valid level; allowed: {', '.join(LOG_LEVELS)}.")
    number = logging.getLevelNamesMapping()[level.upper()]
    logging.getLogger().setLevel(number)
    # The loop's own messages (which selector it uses) are of no interest.
    logging.getLogger("asyncio").setLevel(max(number, logging.WARNING))
    # What administrators change is logged at every level.
    logging.getLogger(AUDIT).setLevel(logging.INFO)


def level_now() -> str:
    """The current level."""
    return logging.getLevelName(logging.getLogger().level).lower()


def _open_audit(path: Path | None, process: str) -> None:
    """The audit log in a separate file, as JSON; without one its lines are in the log."""
    logger = logging.getLogger(AUDIT)
    for handler in logger.handlers:
        handler.close()
    logger.handlers.clear()
    logger.propagate = path is None
    if path is not None:
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, _AUDIT_MODE))
        # Each line is one write at the end, so that several workers can share the file.
        file = logging.FileHandler(path, encoding="utf-8")
        file.setFormatter(JsonForm(process))
        logger.addHandler(file)


def _form(form: str, process: str) -> logging.Formatter:
    if form == JSON:
        return JsonForm(process)
    return TextForm(LINE_FORMAT.format(process=f"[{process}] " if process else ""), TIME_FORMAT)


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    facts = getattr(record, "facts", None)
    return facts if isinstance(facts, dict) else {}


def _word(value: object) -> str:
    """A value that is one word, or quoted."""
    text = str(value)
    return text if text and text.isprintable() and " " not in text else json.dumps(text)
