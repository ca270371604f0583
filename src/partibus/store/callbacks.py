"""Telling callers what became of their requests.

Owns one promise: a callback that raises does not keep the others from being told. Called
on the loop thread by the stores, never by the threads that do the work.
"""

import logging
from typing import TYPE_CHECKING, Final

from partibus.domain.errors import BusError

if TYPE_CHECKING:
    from partibus.store.interface import Done, ReadDone

_log: Final = logging.getLogger(__name__)


def tell(done: "Done", error: BusError | None) -> None:
    """Run a `done` callback; its failure is logged, since no caller would see it."""
    try:
        done(error)
    except Exception:
        _log.exception("a callback of an append or a checkpoint failed")


def tell_read(done: "ReadDone", answer: list[bytes] | BusError) -> None:
    """Run the `done` of a read in the same way."""
    try:
        done(answer)
    except Exception:
        _log.exception("a callback of a read failed")
