"""Reporting the outcome of requests to their callers.

Owns two promises: a callback that raises does not prevent the others from being called, and a
thread that does the work survives the end of the loop. The callers' callbacks run on the loop
thread; the threads only report there.
"""

import logging
from typing import TYPE_CHECKING, Final

from partibus.domain.errors import BusError

if TYPE_CHECKING:
    from collections.abc import Callable

    from partibus.store.interface import Done, Notify, ReadDone

_log: Final = logging.getLogger(__name__)


def call_back(done: "Done", error: BusError | None) -> None:
    """Run a `done` callback; an exception is logged, since no caller would see it."""
    try:
        done(error)
    except Exception:
        _log.exception("a callback of an append or a checkpoint failed")


def call_back_read(done: "ReadDone", answer: list[bytes] | BusError) -> None:
    """Run the `done` of a read in the same way."""
    try:
        done(answer)
    except Exception:
        _log.exception("a callback of a read failed")


def report(notify: "Notify", name: str, call: "Callable[[], None]") -> None:
    """Report to the loop, from a thread of the store `name`."""
    try:
        notify(call)
    except RuntimeError as error:
        # The loop is closed: the process ends without closing its stores.
        _log.warning("%s: no listener is left to notify: %r", name, error)
