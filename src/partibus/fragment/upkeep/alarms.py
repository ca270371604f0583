"""Alarms: when the machines of a broker are ticked, and how much one turn does of it.

Owns the one timer for all machines, and the line of those that have more to do than fits into a
turn: one of them is ticked at a time, after the commands that have arrived meanwhile, so that no
other fragment has to wait for it. Must never look at a store. Called by the broker.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

from partibus.domain.clock import Clock
from partibus.domain.scheduler import Scheduler, Timer
from partibus.fragment.machine import Machine
from partibus.fragment.upkeep.slices import Allowance

TICK_INTERVAL_MS_MIN: Final = 20
"""Timers closer together than this fire together."""


class Alarms:
    """The alarms of one broker; `tick` is called with the machine and its allowance."""

    def __init__(
        self,
        clock: Clock,
        scheduler: Scheduler,
        tick: Callable[[int, Allowance], None],
        slice_messages: int,
    ) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._tick = tick
        self._slice = slice_messages
        self._timer: Timer | None = None
        self._timer_at_ms = 0
        self._alarms: dict[int, int] = {}
        self._heap: list[tuple[int, int]] = []
        self._behind: dict[int, None] = {}
        """Fragments with more to do than fits into a turn, longest waiting first."""
        self._is_catching_up = False

    def allowance(self) -> Allowance:
        """What one turn may do."""
        return Allowance(self._slice)

    def set(self, machine: Machine) -> None:
        """Set when a machine needs a tick; an earlier alarm is kept."""
        deadline_ms = None if machine.is_gone else machine.deadline_ms()
        if deadline_ms is None:
            return
        fragment_id = machine.state.fragment_id
        if machine.state.is_behind:
            self._behind[fragment_id] = None
            self._catch_up_soon()
            return
        standing_ms = self._alarms.get(fragment_id)
        if standing_ms is not None and standing_ms <= deadline_ms:
            return
        self._alarms[fragment_id] = deadline_ms
        heappush(self._heap, (deadline_ms, fragment_id))
        if self._timer is None or deadline_ms < self._timer_at_ms:
            self._set_timer()

    def drop(self, fragment_id: int) -> None:
        """The fragment is deleted."""
        self._alarms.pop(fragment_id, None)
        self._behind.pop(fragment_id, None)

    def clear(self) -> None:
        """The clock was set: every machine is about to report its next deadline."""
        self._alarms.clear()
        self._heap.clear()
        self._set_timer()

    def stop(self) -> None:
        """Stop all alarms."""
        if self._timer is not None:
            self._timer.cancel()

    def _set_timer(self) -> None:
        self.stop()
        self._timer = None
        if self._heap:
            now_ms = self._clock.now_ms()
            self._timer_at_ms = max(self._heap[0][0], now_ms + TICK_INTERVAL_MS_MIN)
            delay_ms = self._timer_at_ms - now_ms
            self._timer = self._scheduler.call_later_ms(delay_ms, self._wake)

    def _wake(self) -> None:
        """Tick every machine that is due; all of them share one allowance."""
        self._timer = None
        now_ms = self._clock.now_ms()
        allowance = self.allowance()
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            alarm_ms, fragment_id = heappop(heap)
            if self._alarms.get(fragment_id) == alarm_ms:
                del self._alarms[fragment_id]
            self._tick(fragment_id, allowance)
        self._set_timer()

    def _catch_up_soon(self) -> None:
        if self._behind and not self._is_catching_up:
            self._is_catching_up = True
            self._scheduler.call_soon(self._catch_up)

    def _catch_up(self) -> None:
        """Tick one machine that is behind; the others, and new commands, get their turns in
        between."""
        self._is_catching_up = False
        if self._behind:
            fragment_id = next(iter(self._behind))
            del self._behind[fragment_id]
            self._tick(fragment_id, self.allowance())
            self._catch_up_soon()
