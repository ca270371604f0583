"""Failures, reported in one line with an exit code that programs can rely on.

Owns the translation of every failure of a verb: of the bus, of the network, of a file, and Ctrl-C.
Such failures must never show a traceback. Called by `asking`, which wraps every verb that talks to
a server.
"""

import os
import re
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import typer

from partibus.client.connection_string import ConnectionStringError
from partibus.client.errors import AtomError, RemoteError, requires_sessions
from partibus.domain import conditions
from partibus.domain.errors import ArgumentError, BusError, ConfigError
from partibus.server.failure import (
    EXIT_CLEAN,
    EXIT_FAILED,
    EXIT_NOT_FOUND,
    EXIT_UNAUTHORIZED,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
    report,
)

EXIT_NOTHING: Final = 7
"""Nothing was received, and --fail-empty was given."""
EXIT_EXISTS: Final = 8
"""What should be created already exists."""
EXIT_INTERRUPTED: Final = 130
# Vendor texts end with ids for the log; one of them is enough for people.
_TRACKING: Final = re.compile(r"\s*\(?\b(?:Reference|TrackingId|SystemTracker|Timestamp):.*", re.S)
_CODES: Final = {
    conditions.NOT_FOUND: EXIT_NOT_FOUND,
    conditions.MICROSOFT_MESSAGE_NOT_FOUND: EXIT_NOT_FOUND,
    conditions.UNAUTHORIZED_ACCESS: EXIT_UNAUTHORIZED,
    conditions.MICROSOFT_AUTH_FAILED: EXIT_UNAUTHORIZED,
    conditions.CONNECTION_FORCED: EXIT_UNREACHABLE,
    conditions.MICROSOFT_ARGUMENT_ERROR: EXIT_USAGE,
}
_STATUS_CODES: Final = {
    400: EXIT_USAGE,
    401: EXIT_UNAUTHORIZED,
    403: EXIT_UNAUTHORIZED,
    404: EXIT_NOT_FOUND,
    409: EXIT_EXISTS,
}
_HINTS: Final = {
    conditions.NOT_FOUND: "List the entities: partibus queue list, partibus topic list.",
    conditions.UNAUTHORIZED_ACCESS: "Check the policy, its key and its rights: partibus doctor",
    conditions.MICROSOFT_SESSION_CANNOT_BE_LOCKED: "Another receiver holds this session.",
    conditions.MICROSOFT_MESSAGE_LOCK_LOST: (
        "Processing took longer than the lock; the message will be delivered again."
    ),
}


class CommandFailed(Exception):
    """The text for the user, and the exit code for programs."""

    def __init__(self, text: str, exit_code: int = EXIT_FAILED) -> None:
        super().__init__(text)
        self.text = text
        self.exit_code = exit_code


@contextmanager
def reported() -> Iterator[None]:
    """Any failure inside ends the program with one line and its code."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise typer.Exit(EXIT_INTERRUPTED) from error
    except BrokenPipeError as error:
        _drop_stdout()
        raise typer.Exit(EXIT_CLEAN) from error
    except Exception as error:
        failed = translated(error)
        if failed is None:
            raise
        say(failed.text)
        raise typer.Exit(failed.exit_code) from error


@contextmanager
def reported_offline() -> Iterator[None]:
    """For work on the files of a server: a refusal ends the program with the server's own text
    and exit code."""
    try:
        yield
    except (BusError, OSError) as error:
        raise typer.Exit(report(error)) from error


def say(text: str) -> None:
    """One line on stderr that begins with the name of the program."""
    typer.echo(f"partibus: {' '.join(text.split())}", err=True)


def translated(error: Exception) -> CommandFailed | None:
    """The failure for an exception; None if it is not a failure but control flow."""
    if isinstance(error, CommandFailed):
        return error
    if isinstance(error, RemoteError):
        return refused(error)
    if isinstance(error, AtomError):
        text = _TRACKING.sub("", error.text).strip().rstrip(".") + "."
        return CommandFailed(text, _STATUS_CODES.get(error.status, EXIT_FAILED))
    if isinstance(error, ConnectionStringError):
        return CommandFailed(str(error), EXIT_USAGE)
    if isinstance(error, BusError):
        usage = isinstance(error, ConfigError | ArgumentError)
        return CommandFailed(error.text, EXIT_USAGE if usage else EXIT_FAILED)
    if isinstance(error, TimeoutError):
        return CommandFailed("the bus did not answer in time.", EXIT_UNREACHABLE)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename is not None else ""
        return CommandFailed(f"{where}{error.strerror or error}", EXIT_FAILED)
    if isinstance(error, typer.Exit | typer.Abort) or type(error).__module__.startswith("typer"):
        return None
    if os.environ.get("PARTIBUS_DEBUG"):
        return None
    return CommandFailed(
        f"this is a bug in Partibus: {type(error).__name__}: {error}. Run it again with"
        " PARTIBUS_DEBUG=1 and report what it shows."
    )


def refused(error: RemoteError) -> CommandFailed:
    """The bus refused: its text without the ids, and advice."""
    text = plain_words(error)
    hint = _HINTS.get(error.condition, "")
    if requires_sessions(text):
        hint = "Receive with --session-id ID or --next-session."
    return CommandFailed(f"{text} {hint}".strip(), _CODES.get(error.condition, EXIT_FAILED))


def plain_words(error: RemoteError) -> str:
    """The text of the bus, without the ids for its log."""
    return _TRACKING.sub("", error.description).strip().rstrip(".") + "."


def unreachable(place: str, error: Exception) -> CommandFailed:
    """A server that does not answer, and possible reasons."""
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = "Trust its CA with --ca-file or SSL_CERT_FILE (ca= in the READY line)."
    elif isinstance(error, ssl.SSLError):
        hint = "Does this port speak TLS? Add UseDevelopmentEmulator=true for plain AMQP."
    elif isinstance(error, TimeoutError):
        hint = "It did not answer in time; is it very busy, or is this the wrong place?"
    else:
        hint = "Is the server running? Start it with: partibus serve"
    return CommandFailed(f"cannot reach {place}: {_reason(error)}. {hint}", EXIT_UNREACHABLE)


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, RemoteError):
        return error.description.rstrip(".")
    if isinstance(error, ConnectionRefusedError) or "Connect call failed" in str(error):
        return "the connection was refused"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).rstrip(".")


def _drop_stdout() -> None:
    """The reader of the output has gone; drop what is still buffered."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
