"""Watchers of a pipeline that break in at a known moment: after its first batch."""

from collections.abc import Callable


class After:
    """Does something after the first batch."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work: Callable[[], None] | None = work

    def started(self, name: str, total: int | None) -> None: ...

    def finished(self) -> None: ...

    def advanced(self, rows: int, lag: int | None, batch: int) -> None:
        work, self._work = self._work, None
        if work is not None:
            work()


def interrupt() -> None:
    """The hand on Ctrl-C."""
    raise KeyboardInterrupt
