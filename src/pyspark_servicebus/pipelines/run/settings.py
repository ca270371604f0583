"""Errors in the settings of a pipeline, which say what to write instead.

Owns the one error that a TOML file, the command line and code share. The settings themselves are a
frozen dataclass of each pipeline; `settings_table` reads them.
"""

import difflib
from collections.abc import Iterable


class SettingsError(ValueError):
    """Invalid settings; each complaint names the setting and what to write instead."""

    place: tuple[str | int, ...] = ()
    """Where it is in a declared file, if no name of a setting leads there."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.complaints = tuple(text.splitlines())

    @classmethod
    def of(cls, complaints: Iterable[str]) -> "SettingsError":
        """All complaints at once, a line each."""
        return cls("\n".join(complaints))


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is most similar."""
    names = list(known)
    close = difflib.get_close_matches(name, names, 1, 0.0)
    return close[0] if close else names[0]


def no_such_key(name: str, known: Iterable[str]) -> str:
    """What to say of a key that a file may not have."""
    return f"unknown key; did you mean {nearest(name, known)}?"


def pairs(texts: Iterable[str], option: str = "conf") -> dict[str, str]:
    """Texts of the form K=V as a dict."""
    found: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise SettingsError(f"{option}: '{text}' is not of the form K=V.")
        found[name.strip()] = value
    return found
