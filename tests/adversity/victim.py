"""A server process that is treated badly: cut off mid-work, or expected to refuse its data.

Adds to the plain server process what only the adversity tests need: ending it without
waiting, looking whether it still runs, and the exit code with the words of a refusal.
"""

import os
import signal

from support.server import STOP_SECONDS_MAX, ServerProcess


class Victim(ServerProcess):
    """One server on one data directory that may die at any moment."""

    exit_code: int | None = None
    weight_bytes: int = 0
    """Its resident memory when a test weighed it."""

    @property
    def runs(self) -> bool:
        """Whether the process was started and has not ended by itself."""
        return self._process is not None and self._process.poll() is None

    @property
    def is_started(self) -> bool:
        """Whether the process was started and nobody has looked after its end yet."""
        return self._process is not None

    def begin_to_end(self, number: signal.Signals) -> None:
        """Send a signal and do not wait for what comes of it; `ended` does."""
        os.kill(self.pid, number)

    def ended(self) -> int:
        """Wait for the end that a signal or the process itself has brought; the exit code."""
        process = self._process
        assert process is not None, "the server is not running"
        self.exit_code = process.wait(timeout=STOP_SECONDS_MAX)
        self._process = None
        return self.exit_code

    def refusal(self) -> tuple[int | None, str]:
        """Start on data that it must refuse: its exit code, and what it said."""
        offset = self.log.stat().st_size if self.log.exists() else 0
        try:
            self.start()
        except AssertionError:
            return self.exit_code, self.log_text(offset)
        raise AssertionError("the server started on data that it should have refused")

    def _end(self, number: signal.Signals) -> int:
        self.exit_code = super()._end(number)
        return self.exit_code
