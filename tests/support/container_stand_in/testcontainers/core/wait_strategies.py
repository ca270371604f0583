"""Stands in for `testcontainers.core.wait_strategies`: waits for a line of the log."""

import re
from typing import Any


class LogMessageWaitStrategy:
    def __init__(self, message: str, times: int = 1) -> None:
        self._message = re.compile(message, re.MULTILINE)

    def wait_until_ready(self, container: Any) -> None:
        while line := container.read_line():
            if self._message.search(line):
                return
        raise RuntimeError("the container ended before it was ready")
