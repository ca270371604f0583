"""Idle time-outs of a connection, both ways [2.4.5].

Owns when an empty frame is due and when a silent peer is given up. Must never read a clock: the
time is an argument. Used by the connection only.
"""

from typing import Final

from partibus.amqp.settings import HEARTBEAT_MS_MAX, HEARTBEAT_MS_MIN

# A peer is asked to send within our time-out and is given up after twice that.
_PATIENCE: Final = 2


class IdleTimer:
    """When the connection last sent and received; an interval of zero is switched off."""

    __slots__ = ("heard_ms", "heartbeat_ms", "now_ms", "silence_ms_max", "spoke_ms")

    def __init__(self, idle_timeout_ms: int, now_ms: int) -> None:
        self.now_ms = now_ms
        self.heard_ms = now_ms
        self.spoke_ms = now_ms
        self.silence_ms_max = _PATIENCE * idle_timeout_ms
        self.heartbeat_ms = 0

    def promise(self, remote_idle_timeout_ms: int) -> None:
        """The peer expects a frame at least this often; 0 when it does not."""
        if remote_idle_timeout_ms > 0:
            half = remote_idle_timeout_ms // 2
            self.heartbeat_ms = max(HEARTBEAT_MS_MIN, min(half, HEARTBEAT_MS_MAX))

    def end_promise(self) -> None:
        """No more frames follow, so none is due; the peer is still given up when it is silent."""
        self.heartbeat_ms = 0

    def heard(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.heard_ms = now_ms

    def spoke(self) -> None:
        self.spoke_ms = self.now_ms

    def gave_up(self) -> bool:
        return self.silence_ms_max > 0 and self.now_ms - self.heard_ms >= self.silence_ms_max

    def heartbeat_due(self) -> bool:
        return self.heartbeat_ms > 0 and self.now_ms - self.spoke_ms >= self.heartbeat_ms

    def next_ms(self) -> int | None:
        due: int | None = None
        if self.silence_ms_max > 0:
            due = self.heard_ms + self.silence_ms_max
        if self.heartbeat_ms > 0:
            beat = self.spoke_ms + self.heartbeat_ms
            due = beat if due is None else min(due, beat)
        return due
