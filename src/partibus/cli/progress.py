"""A bar with rate and remaining time on a terminal; otherwise nothing.

Owns the display of progress on stderr and the check for a terminal. A verb calls `progress_of`
around its long work and reports what is done; without a terminal that costs nothing. Rich is loaded
only when a bar is shown.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], None]
"""Called with how many are done so far."""


def is_watched() -> bool:
    """Whether stderr is a terminal that can redraw a line."""
    return sys.stderr.isatty()


@contextmanager
def progress_by_steps(what: str, total: int | None, unit: str = "messages") -> Iterator[Advance]:
    """The same for work that reports how many each step has done, not how many are done so far."""
    done = 0
    with progress_of(what, total, unit) as show:

        def advance(count: int) -> None:
            nonlocal done
            done += count
            show(done)

        yield advance


@contextmanager
def progress_of(what: str, total: int | None, unit: str = "messages") -> Iterator[Advance]:
    """A bar for the duration of the block; a total of None shows a rate without an end."""
    if not is_watched():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        """Items a second."""

        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed or 0
            return Text(f"{speed:,.0f} {unit}/s", style="cyan")

    left = TimeRemainingColumn() if total else TimeElapsedColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), left)
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)
