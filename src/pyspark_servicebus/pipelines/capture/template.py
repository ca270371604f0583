"""Where captured files go: a path with placeholders that each message fills in.

Owns the placeholders, the syntax of a template, and the paths made of it. Times are those of the
window in which a message was enqueued, in UTC: with windows of five minutes {mm} is 00, 05, 10 and
so on. Pure: it touches no file.
"""

import re
from dataclasses import dataclass
from typing import Final

from partibus.domain.moments import calendar_moment
from pyspark_servicebus.pipelines.run.settings import SettingsError, nearest

OWN: Final = "_capture"
"""The folder in a target with the capture's own files, without messages."""
DEFAULT_TEMPLATE: Final = "{namespace}/{entity}/{fragment}/{yyyy}/{MM}/{dd}/{HH}/{mm}"
WORDS: Final = ("namespace", "entity", "fragment", "yyyy", "MM", "dd", "HH", "mm")
_TIMES: Final = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M"}
_WORD: Final = re.compile(r"\{([^{}]*)\}")
_SAFE: Final = re.compile(r"[A-Za-z0-9._=-]*")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True, slots=True)
class PathTemplate:
    """A template with the names of the bus and the entity filled in."""

    text: str
    window_time_ms: int

    @property
    def has_fragment(self) -> bool:
        return "{fragment}" in self.text

    @property
    def has_time(self) -> bool:
        return any(f"{{{word}}}" in self.text for word in _TIMES)

    def window_start_ms(self, time_ms: int) -> int:
        """The beginning of the window of a time."""
        return time_ms - time_ms % self.window_time_ms

    def path(self, fragment: int, time_ms: int) -> str:
        """The folder of a message; the time may be that of its window."""
        text = self.text.replace("{fragment}", str(fragment))
        if not self.has_time:
            return text
        start_ms = self.window_start_ms(time_ms)
        moment = calendar_moment(start_ms)
        for word, form in _TIMES.items():
            text = text.replace(f"{{{word}}}", moment.strftime(form))
        return text


def check_template(text: str) -> None:
    """SettingsError for an invalid template, with what to write instead."""
    for word in _WORD.findall(text):
        if word not in WORDS:
            raise SettingsError(
                f"template: there is no {{{word}}}; did you mean {{{nearest(word, WORDS)}}}? There "
                f"are {', '.join(f'{{{known}}}' for known in WORDS)}."
            )
    plain = _WORD.sub("", text)
    if "{" in plain or "}" in plain:
        raise SettingsError(f"template: a brace in '{text}' is not closed or not opened.")
    for part in text.split("/"):
        fixed = _WORD.sub("", part)
        if not part or part in (".", ".."):
            raise SettingsError(
                f"template: '{text}' has an empty or a dotted folder; write a relative path like "
                f"{DEFAULT_TEMPLATE}."
            )
        if part.startswith(("_", ".")):
            raise SettingsError(
                f"template: the folder '{part}' begins with '{part[0]}', which readers of Parquet "
                "ignore; begin it with a letter."
            )
        if not _SAFE.fullmatch(fixed):
            raise SettingsError(
                f"template: '{fixed}' has characters that not every storage accepts; use letters, "
                "digits and . _ - = only."
            )


def path_template(text: str, namespace: str, entity: str, window_time_ms: int) -> PathTemplate:
    """A checked template for one entity."""
    check_template(text)
    text = text.replace("{namespace}", _word(namespace)).replace("{entity}", _word(entity))
    return PathTemplate(text, window_time_ms)


def _word(name: str) -> str:
    """A name as a folder: what is neither a letter nor a digit becomes a dash."""
    return _UNSAFE.sub("-", name).lstrip("._") or "-"
