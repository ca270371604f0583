"""This process follows the catalog changes of others.

Owns when it is read again: at once when a worker reports a change, and otherwise once a second, so
that a worker that missed the report (it hung, or was unreachable) is never far behind. A check
costs one comparison. Subscribers of the catalog's feed decide what a change means. Started and
stopped by the node.
"""

import logging
from collections.abc import Callable
from typing import Final

from partibus.cluster.control_hub import ControlHub, Payload
from partibus.control.catalog.catalog import Catalog
from partibus.domain.errors import StoreUnavailable
from partibus.domain.scheduler import Scheduler, Timer

FOLLOW: Final = "follow"
"""The question that asks a worker to read the catalog now."""
INTERVAL_MS: Final = 1000

_log: Final = logging.getLogger(__name__)


class Follower:
    """Keeps one process up to date."""

    def __init__(self, catalog: Catalog, scheduler: Scheduler) -> None:
        self._catalog = catalog
        self._scheduler = scheduler
        self._timer: Timer | None = None
        self.on_change: Callable[[int], None] | None = None
        """Called with the generation that another process has written, before it is read."""

    def start(self, control: ControlHub) -> None:
        """Listen to the other workers, and poll."""
        control.register(FOLLOW, self._follow)
        self._timer = self._scheduler.call_later_ms(INTERVAL_MS, self._look)

    def stop(self) -> None:
        """Stop polling."""
        if self._timer is not None:
            self._timer.cancel()

    def _follow(self, payload: Payload) -> Payload:
        if self.on_change is not None:
            self.on_change(payload.get("generation", 0))
        return {"changes": len(self._catalog.refresh())}

    def _look(self) -> None:
        # Set first: after a failed read, which is logged, there must be another.
        self._timer = self._scheduler.call_later_ms(INTERVAL_MS, self._look)
        try:
            self._catalog.refresh()
        except StoreUnavailable as error:
            _log.warning("the catalog cannot be followed now: %s", error.text)
