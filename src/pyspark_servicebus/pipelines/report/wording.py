"""Numbers as people read them in reports.

Owns spans and counts in words, for the reports of all pipelines; sizes are in `domain.quantities`.
Pure.
"""


def format_span(seconds: float) -> str:
    """A time: 12s, 1m40s, 2h05m."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"


def counted(count: int, one: str, many: str = "") -> str:
    """1 window, 2 windows."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
