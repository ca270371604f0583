"""Renewing locks while a batch is processed.

Owns one thread of the driver that renews the locks of the current batch, three times within their
duration, over its own connection. A lock that was settled or lost is left out from then on. It must
never settle: unsettled messages come back when the renewals end.
"""

import logging
import threading
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from partibus.domain import conditions
from pyspark_servicebus.errors import BulkError
from pyspark_servicebus.over_amqp.holding import Holding, Place
from pyspark_servicebus.over_amqp.portions import portions
from pyspark_servicebus.over_amqp.wire import Wire

PERIOD_S_MIN: Final = 0.5
_log: Final = logging.getLogger(__name__)


class LockKeeper:
    """One thread, started with the first locks."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._stopped = False
        self._thread: threading.Thread | None = None
        self._held: list[Holding] = []
        self._period_s = PERIOD_S_MIN

    def keep(self, held: Sequence[Holding], lock_ms: int) -> None:
        """From now on renew exactly these."""
        with self._lock:
            self._held = list(held)
            self._period_s = max(PERIOD_S_MIN, lock_ms / 3000)
        self._changed.set()
        if held and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="lock keeper", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop renewing."""
        self._stopped = True
        self._changed.set()

    def _run(self) -> None:
        wire = Wire(self._place.access)
        while not self._stopped:
            if self._changed.wait(self._period_s):
                self._changed.clear()
                continue
            with self._lock:
                held = self._held
            lost = {one.number for one in self._renew(wire, held)}
            with self._lock:
                self._held = [one for one in self._held if one.number not in lost]
        wire.close()

    def _renew(self, wire: Wire, held: Sequence[Holding]) -> list[Holding]:
        """Renew once; returns those that have lost their lock."""
        lost: list[Holding] = []
        for some in portions(held):
            try:
                lost += lost_locks(wire, self._place.path, some)
            except BulkError as error:
                _log.warning("locks were not renewed: %s", error)
        return lost


def lost_locks(wire: Wire, path: str, some: Sequence[Holding]) -> list[Holding]:
    """Renew locks in one request; returns those that have ended, found by bisection."""

    async def renew(wire: Wire) -> None:
        node = await wire.management(path)
        await node.renew_locks([UUID(one.token) for one in some])

    try:
        wire.ask(renew)
    except BulkError as error:
        if error.condition != conditions.MICROSOFT_MESSAGE_LOCK_LOST:
            raise
        if len(some) == 1:
            return list(some)
        half = len(some) // 2
        return lost_locks(wire, path, some[:half]) + lost_locks(wire, path, some[half:])
    return []
