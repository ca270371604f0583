"""Changes of rules that clients ask for, one after the other.

Owns the order: a rule is added to or removed from what the subscription has at that moment, so
that of two changes asked for together neither undoes the other. Each is carried out through
the live namespace, and answered when every fragment selects by it. Called by the operations of
the management node; runs on the event loop only while there is something to do.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from partibus.control.live import LiveNamespace
from partibus.control.record import EntityRecord
from partibus.domain.entity import RuleSpec, SubscriptionSpec
from partibus.domain.errors import BusError, EntityNotFound

Rules = tuple[RuleSpec, ...]
Edit = Callable[[EntityRecord, Rules], Rules]
"""The rules that a subscription is to have, of those it has; raises what keeps it from them."""
Done = Callable[[BusError | None], None]

_log: Final = logging.getLogger(__name__)


class RuleChanges:
    """What clients of this process have asked for and is not done yet."""

    def __init__(self, live: LiveNamespace, lookup: Callable[[str], EntityRecord | None]) -> None:
        self._live = live
        self._lookup = lookup
        self._waiting: deque[tuple[str, Edit, Done]] = deque()
        self._task: asyncio.Task[None] | None = None

    def ask(self, path: str, edit: Edit, done: Done) -> None:
        """Change the rules of a subscription; `done` is called once, never inside this call."""
        self._waiting.append((path, edit, done))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def close(self) -> None:
        """The server stops: what is not done is not begun."""
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            while self._waiting:
                path, edit, done = self._waiting.popleft()
                error: BusError | None = None
                try:
                    await self._change(path, edit)
                except BusError as refusal:
                    error = refusal
                except Exception:
                    _log.exception("a change of rules failed")
                    error = BusError("The rules could not be changed; see the server's log.")
                done(error)
        finally:
            self._task = None

    async def _change(self, path: str, edit: Edit) -> None:
        record = self._lookup(path)
        if record is None or not isinstance(record.spec, SubscriptionSpec):
            raise EntityNotFound.named(path)
        rules = edit(record, record.spec.rules)
        await self._live.update(record.path, replace(record.spec, rules=rules))
