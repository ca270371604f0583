"""Options that were renamed: scripts that use the old name keep working.

Owns the table of old names, by verb. Options with the same meaning have the same name in all verbs;
an old name is read as the current one, and not shown in the help. Called for every verb before its
arguments are read.
"""

from collections.abc import Sequence
from typing import Final

_SESSION: Final = {"--session": "--session-id"}
_MESSAGE: Final = {"--time-to-live": "--ttl", "--scheduled-enqueue-time": "--at"}
OLD_SPELLINGS: Final[dict[str, dict[str, str]]] = {
    "receive": _SESSION,
    "peek": _SESSION,
    "tail": _SESSION,
    "rule test": _MESSAGE,
    "rule explain": {**_MESSAGE, "--sql": "--sql-filter"},
    "pipeline analytics": {"--trigger": "--interval"},
    "pipeline replay": {"--until": "--before"},
}


def in_present_words(verb: str, arguments: Sequence[str]) -> list[str]:
    """The arguments of a verb with old names replaced; what follows `--` is not an option."""
    old = OLD_SPELLINGS.get(verb)
    if old is None:
        return list(arguments)
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return [*(_renamed(word, old) for word in arguments[:end]), *arguments[end:]]


def _renamed(word: str, old: dict[str, str]) -> str:
    name, equals, value = word.partition("=")
    return f"{old[name]}{equals}{value}" if name in old else word
