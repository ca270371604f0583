"""The processes of load for one measurement: started together, let go together.

Owns the children and the lines between them and us (`load` has the other end). Every child
is waited for, whatever happens. Called by the scenarios.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from types import TracebackType
from typing import IO, Self

from bench.load import Job, LoadError, Outcome


class Workers:
    """One process for each job; use it as a context manager."""

    def __init__(self, jobs: list[Job]) -> None:
        self._jobs = jobs
        self._processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._end(is_lost=True)
            raise
        return self

    def _start(self) -> None:
        for job in self._jobs:
            process = subprocess.Popen(
                [sys.executable, "-m", "bench.load"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            self._processes.append(process)
            self._tell(process, json.dumps(asdict(job)))
        for process in self._processes:
            if self._hear(process) != "ready":
                raise LoadError("a load process did not get ready")

    def run(self, before: Callable[[], None]) -> list[Outcome]:
        """Let all go after `before` has read its counters; returns when all are done."""
        before()
        for process in self._processes:
            self._tell(process, "go")
        return [Outcome(**json.loads(self._hear(process))) for process in self._processes]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end(is_lost=error is not None)

    def _end(self, *, is_lost: bool) -> None:
        for process in self._processes:
            if is_lost:
                process.kill()
            process.communicate()

    @staticmethod
    def _tell(process: "subprocess.Popen[str]", line: str) -> None:
        stream: IO[str] | None = process.stdin
        assert stream is not None
        stream.write(line + "\n")
        stream.flush()

    @staticmethod
    def _hear(process: "subprocess.Popen[str]") -> str:
        stream: IO[str] | None = process.stdout
        assert stream is not None
        line = stream.readline().strip()
        if not line:
            raise LoadError("a load process has failed; its words are above")
        return line
