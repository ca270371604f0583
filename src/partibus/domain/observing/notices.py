"""Log lines for refusals and for changes by administrators.

Owns their form, and the limit on refusals: a client that retries all day must not fill the disk.
The texts are those sent to the peer, so they never contain a key. Called where a refusal is
decided.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from typing import Final

from partibus.domain.errors import BusError
from partibus.domain.observing.event_log import EVENT_LOG

LINES_MAX: Final = 20
"""Per kind of refusal within WINDOW_S; the rest is counted."""
WINDOW_S: Final = 10.0
TEXT_LENGTH_MAX: Final = 500

_refusals: Final = logging.getLogger("partibus.refused")
_audit: Final = logging.getLogger("partibus.audit")


class Limiter:
    """Allows this many lines in a period, and counts those left out."""

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._windows: dict[str, tuple[float, int]] = {}
        self._suppressed: dict[str, int] = {}

    def admits(self, kind: str) -> bool:
        """Whether one more line of this kind may be written; counted if not."""
        now_s = self._monotonic_s()
        began_s, count = self._windows.get(kind, (now_s, 0))
        if now_s - began_s >= WINDOW_S:
            began_s, count = now_s, 0
        if count >= LINES_MAX:
            self._suppressed[kind] = self._suppressed.get(kind, 0) + 1
            return False
        self._windows[kind] = (began_s, count + 1)
        return True

    def take_suppressed(self, kind: str) -> int:
        """How many were left out since the last call."""
        return self._suppressed.pop(kind, 0)


LIMITER: Final = Limiter()


def refused(kind: str, error: BusError, **facts: object) -> None:
    """A token, a connection, a link or a request was refused, or a link was dropped.

    `kind` is one of a few words; `facts` are the further fields.
    """
    text = error.text[:TEXT_LENGTH_MAX]
    reported = {"condition": error.condition, "tracking_id": error.tracking_id, **facts}
    if LIMITER.admits(kind):
        suppressed = LIMITER.take_suppressed(kind)
        if suppressed:
            reported["suppressed"] = suppressed
        _refusals.warning("%s: %s", kind, text, extra={"facts": reported})
        EVENT_LOG.note("refused", what=kind, text=text, **reported)


def note_change(who: str, what: str, where: str, error: BusError | None) -> None:
    """An administrator's change was made, or refused: by whom, what, and from where."""
    facts = {"who": who, "what": what[:TEXT_LENGTH_MAX], "where": where}
    if error is None:
        _audit.info("change made", extra={"facts": {**facts, "outcome": "done"}})
        return
    why = {"condition": error.condition, "tracking_id": error.tracking_id}
    _audit.info("change refused", extra={"facts": {**facts, "outcome": "refused", **why}})


@contextlib.contextmanager
def audited(who: str, what: str, where: str) -> Iterator[None]:
    """Wraps a change that an administrator requests."""
    try:
        yield
    except BusError as error:
        note_change(who, what, where, error)
        raise
    note_change(who, what, where, None)
