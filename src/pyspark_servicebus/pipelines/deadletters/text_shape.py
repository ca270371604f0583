"""The shape of a text: the part that is the same for the same error of other messages.

Owns the placeholders. Times, ids, numbers and quoted words differ between messages and are
replaced; the rest groups texts by cause. Pure, and fast: it runs for every dead letter.
"""

import re
from typing import Final

SHAPE_CHARACTERS_MAX: Final = 240
_TEXT_CHARACTERS_MAX: Final = 2000
"""The beginning of a stack trace is enough."""
_PARTS: Final = re.compile(
    r"""
      (?P<time>\b\d{4}-\d{2}-\d{2}(?:[T\ ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?)?
          (?:\ ?(?:Z|UTC|GMT)\b|\ ?[+-]\d{2}:?\d{2}\b)?
        | \b\d{1,2}[/.]\d{1,2}[/.]\d{4}(?:\ \d{1,2}:\d{2}(?::\d{2})?(?:\ ?[AP]M)?)?\b
        | \b\d{2}:\d{2}:\d{2}(?:[.,]\d+)?\b)
    | (?P<guid>\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b)
    | (?P<text>"[^"\n]*" | (?<!\w)'[^'\n]*'(?!\w) | `[^`\n]*` | \u201c[^\u201d\n]*\u201d)
    | (?P<hex>\b0[xX][0-9a-fA-F]+\b
        | \b(?=[0-9a-fA-F]*\d)(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{8,}\b)
    | (?P<n>(?<![\w.])[+-]?\d+(?:[.,:]\d+)* | (?<=[._/:-])\d+(?:[.,]\d+)*)
    """,
    re.VERBOSE,
)
_BLANKS: Final = re.compile(r"\s+")


def text_shape(text: str | None) -> str:
    """A text with placeholders: <time>, <guid>, <text>, <hex>, <n>; empty for none."""
    if not text:
        return ""
    shape = _PARTS.sub(lambda found: f"<{found.lastgroup}>", text[:_TEXT_CHARACTERS_MAX])
    shape = _BLANKS.sub(" ", shape).strip()
    if len(shape) > SHAPE_CHARACTERS_MAX:
        shape = shape[: SHAPE_CHARACTERS_MAX - 1] + "\u2026"
    return shape


def safe_text(raw: bytes | str, characters_max: int) -> str:
    """The beginning of a body or a text for people: one line, without terminal control
    characters."""
    # A character has at most four bytes.
    text = raw if isinstance(raw, str) else raw[: 4 * characters_max].decode("utf-8", "replace")
    shown = "".join(c if c.isprintable() else " " for c in text[: 2 * characters_max])
    shown = _BLANKS.sub(" ", shown).strip()
    is_cut = len(shown) > characters_max or len(raw) > len(text[: 2 * characters_max].encode())
    return shown[:characters_max] + ("\u2026" if is_cut else "")
