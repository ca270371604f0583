"""Numbers as people read them in reports.

Owns sizes and spans in words, for the reports of all pipelines. Pure.
"""

from typing import Final

_STEP: Final = 1024


def format_bytes(count: int) -> str:
    """A size: 512 B, 1.3 MiB."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < _STEP:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= _STEP
    return f"{size:.1f} TiB"


def format_span(seconds: float) -> str:
    """A time: 12s, 1m40s, 2h05m."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"


def counted(count: int, word: str) -> str:
    """1 window, 2 windows."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"
