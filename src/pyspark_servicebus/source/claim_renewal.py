"""Renewing a claim while its batch is processed.

Owns the one thread of a run that renews what the run holds, three times within its duration, as
long as the process lives; when that dies, the claim lapses. A claim that lapsed because the bus was
unreachable is taken back as long as nobody else has touched its messages: a bus that does not
answer is soon asked again, at its location by then. While the run itself changes the claim the
thread pauses, since the bus makes one change of a claim at a time.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from partibus.domain import conditions
from pyspark_servicebus.errors import BulkError
from pyspark_servicebus.source.reading import Answers
from pyspark_servicebus.source.stream_reader import BYTES_MAX

SOON_S: Final = 1.0
"""The pause before a bus that did not answer is asked again, and the limit of that attempt."""
_log: Final = logging.getLogger(__name__)


class ClaimRenewal:
    """One thread, started with the first claim."""

    def __init__(self, change: Callable[..., Answers], claim_ms: int) -> None:
        self._change = change
        self._claim_ms = claim_ms
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._name = ""
        self._counts: dict[int, int] = {}

    def watch(self, name: str, counts: dict[int, int]) -> None:
        """From now on renew only this claim; the counts are its messages by fragment."""
        with self._lock:
            self._name, self._counts = name, dict(counts)
        if counts and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="claim renewal", daemon=True)
            self._thread.start()

    def forget(self, name: str, indexes: list[int]) -> None:
        """These fragments have settled it."""
        with self._lock:
            if self._name == name:
                for index in indexes:
                    self._counts.pop(index, None)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing is renewed inside the block."""
        with self._lock:
            yield

    def stop(self) -> None:
        """Stop renewing."""
        self._stopped.set()

    def _run(self) -> None:
        pause_s = third_s = self._claim_ms / 3000
        while not self._stopped.wait(pause_s):
            pause_s = third_s
            with self._lock:
                if self._counts and not self.renew():
                    pause_s = min(SOON_S, third_s)

    def renew(self) -> bool:
        """Renew once; False when a fragment did not answer but may later.

        An error is reported by the next call of the query itself.
        """
        fields: dict[str, Any] = {"start": self._name, "duration_ms": self._claim_ms}
        try:
            answers = self._change("renew", list(self._counts), SOON_S, **fields)
            lapsed = {
                index: {"messages": self._counts[index], "bytes": BYTES_MAX}
                for index, answer in answers.items()
                if answer["error"] is not None
                and answer["error"]["condition"] == conditions.PARTIBUS_CLAIM_LOST
            }
            if lapsed:
                answers |= self._change("claim", lapsed, SOON_S, **fields)
        except BulkError as error:
            _log.warning("a claim was not renewed: %s", error)
            return not error.retryable
        return not any((answer["error"] or {}).get("retryable") for answer in answers.values())
