"""What is wrong with a text, explained to its author.

Owns the messages about characters and tokens in the wrong place, and the hints for common mistakes:
a missing quote, a reserved word as a name, `==`. Called by `rules.parser`.
"""

import re
from collections.abc import Iterable
from typing import Final

from partibus.rules.grammar import NAME_TOKENS, RESERVED, VALUE_TOKENS, WORDS

_UNCLOSED: Final = {
    "'": "The string that begins here has no closing quote (').",
    '"': 'The name that begins here has no closing quote (").',
    "[": "The name that begins here has no closing bracket (]).",
}
_CURLY: Final = "\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u00b4`"
_DOUBLED: Final = {"==": "=", "&&": "AND", "||": "OR"}


class Complaint(Exception):
    """A text is not valid, because of what is at `start` up to `end`."""

    def __init__(self, reason: str, start: int, end: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.start = start
        self.end = end


def describe_character(text: str, place: int) -> Complaint:
    """About a character that the language does not know."""
    character = text[place : place + 1]
    reason = f"The character {character!r} has no meaning here."
    if character in _UNCLOSED:
        return Complaint(_UNCLOSED[character], place, len(text))
    if character in _CURLY:
        reason = f"{character} is not a quote; use ' around strings."
    elif character == "_":
        reason = "A name begins with a letter; write [_name] for one that does not."
    elif character == "@":
        reason = "After @ comes the name of a parameter, which begins with a letter."
    elif text[place : place + 2] in _DOUBLED:
        return _doubled(text, place)
    elif character == "!":
        reason = "Write != or <> for 'is not', and NOT before a condition."
    return Complaint(reason, place, place + 1)


def describe_token(text: str, token: object, expected: Iterable[str]) -> Complaint:
    """About a word in the wrong place; `token` is lark's."""
    start = getattr(token, "start_pos", None)
    end = getattr(token, "end_pos", None)
    if start is None or end is None or getattr(token, "type", "") == "$END":
        reason = f"The expression ends too early; {_wanted(expected)} is missing."
        return Complaint(reason, len(text.rstrip()), len(text.rstrip()) + 1)
    word = str(token)
    if text[max(0, start - 1) : start + 1] in _DOUBLED:
        return _doubled(text, start - 1)
    wanted = _wanted(expected, _is_open(text[:start]))
    reason = f"{word} is not allowed here; expected {wanted}."
    if word.lower() in RESERVED and "NAME" in expected:
        reason += f" A property of that name is written [{word}]."
    return Complaint(reason, start, end)


def _doubled(text: str, place: int) -> Complaint:
    slip = text[place : place + 2]
    return Complaint(f"{slip} is not an operator; write {_DOUBLED[slip]}.", place, place + 2)


def _is_open(text: str) -> bool:
    """Whether a parenthesis is open."""
    bare = re.sub(r"'[^']*'|\"[^\"]*\"|\[[^]]*\]", "", text)
    return bare.count("(") > bare.count(")")


def _wanted(expected: Iterable[str], is_open: bool = False) -> str:
    """The tokens that would be allowed there, as a reader calls them."""
    left = set(expected)
    words = []
    if left >= VALUE_TOKENS:
        words.append("a value or a property")
        left -= VALUE_TOKENS | NAME_TOKENS | {"NULL", "EXISTS", "SIGN", "LPAR", "SET", "REMOVE"}
    elif left >= NAME_TOKENS:
        words.append("a property")
        left -= NAME_TOKENS | {"SET", "REMOVE"}
    if "_AND" in left:  # after a whole term; the parser's own list is too long to read
        return "an operator, ',' or ')'" if is_open else "an operator or the end"
    words += sorted({WORDS.get(name, name) for name in left})
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
