"""The rules file: TOML, read strictly, with errors that name the line.

Owns the format. All errors are reported at once: the line, the rule, the key, and what to write
instead. It must never call the bus; whether targets exist is checked later.

    [[rule]]
    name = "timeouts"
    when = { entity = "orders*", reason = "MaxDeliveryCountExceeded", description = "timed out" }
    action = "resubmit"
    max_attempts = 5
    delay = "30s"
    backoff = 2
"""

import datetime
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from partibus.amqp.codec.types import Timestamp
from partibus.domain.moments import timestamp_ms
from partibus.domain.toml_lines import TomlLines
from pyspark_servicebus.pipelines.deadletters.rules import ACTIONS, MESSAGE_IDS, SENDING, Rule, When
from pyspark_servicebus.pipelines.run.settings import SettingsError, no_such_key
from pyspark_servicebus.pipelines.run.settings_table import read_table, setting, settings_of

_EVER: Final = 1 << 31
_RANGE: Final = re.compile(r"(?P<sign><=|>=|<|>|=|)\s*(?P<number>\d+)")
_OWN_KEYS: Final = ("when", "set", "remove", "body_merge")
_NEEDLESS: Final = {
    "target": SENDING,
    "set": ("fix",),
    "remove": ("fix",),
    "body_merge": ("fix",),
    "message_id": SENDING,
    "max_attempts": ("resubmit", "fix"),
    "delay": SENDING,
    "backoff": SENDING,
    "delay_max": SENDING,
}
"""Keys that are only valid for some actions."""


@dataclass(frozen=True, kw_only=True)
class _RuleTable:
    name: str = setting("A name for the reports.")
    action: str = setting("What is done.", choices=ACTIONS)
    target: str | None = setting("A queue or topic to send to.", default=None)
    max_attempts: int | None = setting(
        "Send it at most this often.", "number", default=None, least=1
    )
    delay_ms: int = setting("Wait before it comes again.", "duration", default=0)
    backoff: float = setting("The factor for every attempt.", "real", default=1.0, least=1)
    delay_max_ms: int | None = setting("Never wait longer.", "duration", default=None)
    message_id: str = setting("Its id when sent.", default="auto", choices=MESSAGE_IDS)


@dataclass(frozen=True, kw_only=True)
class _WhenTable:
    entity: tuple[str, ...] = setting("Globs.", "texts", default=())
    reason: tuple[str, ...] = setting("Globs.", "texts", default=())
    description: str | None = setting("A regular expression.", default=None)
    older_than_ms: int = setting("Its age.", "duration", default=0)
    younger_than_ms: int | None = setting("Its age.", "duration", default=None)


_OWN_WHEN_KEYS: Final = ("properties", "attempts", "shape")
RULE_KEYS: Final = (*(s.key for s in settings_of(_RuleTable)), *_OWN_KEYS)
WHEN_KEYS: Final = (*(s.key for s in settings_of(_WhenTable)), *_OWN_WHEN_KEYS)


def load_rules(file: Path) -> tuple[Rule, ...]:
    """The rules of a file; SettingsError when it cannot be read or is wrong."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise SettingsError(f"rules: {file} cannot be read: {reason}.") from None
    return parse_rules(text, file.name)


def parse_rules(text: str, name: str = "rules") -> tuple[Rule, ...]:
    """The rules of a text; SettingsError with a line for each complaint."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{name}: this is not valid TOML: {error}.") from None
    reading = _Reading(text, name)
    for key in document:
        if key != "rule":
            reading.complain(None, key, f"unknown key; did you mean [[rule]]{_HINT}")
    tables = document.get("rule", [])
    if not isinstance(tables, list) or not tables:
        reading.complain(None, "rule", f"there are no rules. Write them as [[rule]]{_HINT}")
        tables = []
    rules = [reading.rule(index, table) for index, table in enumerate(tables)]
    _complain_of_doubles(reading, rules)
    if reading.complaints:
        raise SettingsError.of(reading.complaints)
    return tuple(rule for rule in rules if rule is not None)


_HINT: Final = ', with name, when and action, as in: [[rule]] name = "all" action = "resubmit"'


def _complain_of_doubles(reading: "_Reading", rules: list[Rule | None]) -> None:
    seen: set[str] = set()
    for index, rule in enumerate(rules):
        if rule is not None and rule.name in seen:
            reading.complain(
                index, "name", f"'{rule.name}' appears twice; give each rule its own name."
            )
        seen.add(rule.name if rule is not None else "")


class _Reading:
    """One file, with its errors."""

    def __init__(self, text: str, name: str) -> None:
        self._name = name
        self._lines = TomlLines(text)
        self.complaints: list[str] = []
        self._rule_names: dict[int, str] = {}
        """By the index of a rule, as errors name it."""

    def complain(self, index: int | None, key: str, text: str) -> None:
        """Record an error about a key, with its line."""
        where = f"{self._name}, line {self._line(index, key)}"
        rule = "" if index is None else f", rule {self._rule_names.get(index, index + 1)}"
        self.complaints.append(f"{where}{rule}, {key}: {text}")

    def _line(self, index: int | None, key: str) -> int:
        """The line of a key, or else the line where its rule begins."""
        return self._lines.within(() if index is None else ("rule", index), key) or 1

    # --- a rule ---------------------------------------------------------------------------

    def rule(self, index: int, table: object) -> Rule | None:
        """One rule; None when something about it is wrong."""
        before = len(self.complaints)
        if not isinstance(table, dict):
            self.complain(index, "rule", "expected a table; write [[rule]] and its keys below.")
            return None
        reported = table.get("name")
        if isinstance(reported, str):
            self._rule_names[index] = f"'{reported}'"
        self._known(index, table, RULE_KEYS)
        plain = self._plain(index, _RuleTable, table)
        when = self._when(index, table.get("when", {}))
        changes = self._set(index, table.get("set", {}))
        removed = self._texts(index, "remove", table.get("remove", []))
        merge = self._merge(index, table.get("body_merge"))
        if plain is not None:
            self._combinations(index, plain, table)
        if plain is None or when is None or len(self.complaints) > before:
            return None
        return Rule(
            **asdict(plain),
            when=when,
            set_properties=changes,
            remove_properties=removed,
            body_merge=merge,
        )

    def _known(self, index: int, table: Mapping[str, object], keys: tuple[str, ...]) -> None:
        for key in table:
            if key not in keys:
                self.complain(index, key, no_such_key(key, keys))

    def _plain(self, index: int, kind: type[Any], table: Mapping[str, object]) -> Any:
        """The keys with simple values; None when one of them is wrong."""
        keys = {found.key for found in settings_of(kind)}
        try:
            return read_table(kind, {key: table[key] for key in table if key in keys})
        except SettingsError as error:
            for complaint in error.complaints:
                key, _, text = complaint.partition(": ")
                self.complain(index, key, text)
            return None

    def _combinations(self, index: int, plain: _RuleTable, table: Mapping[str, object]) -> None:
        action = plain.action
        if action == "park" and plain.target is None:
            self.complain(index, "target", 'it is missing: park needs a queue, target = "parked".')
        if action == "fix" and not {"set", "remove", "body_merge"} & set(table):
            self.complain(index, "action", "fix changes nothing; give set, remove or body_merge.")
        for key, actions in _NEEDLESS.items():
            if key in table and action not in actions:
                allowed = " or ".join(actions)
                self.complain(index, key, f"it has no effect with {action}; it is for {allowed}.")
        if "delay" not in table and ({"backoff", "delay_max"} & set(table)):
            key = "backoff" if "backoff" in table else "delay_max"
            self.complain(index, key, 'it needs a delay to begin with; write delay = "30s" too.')

    # --- what it matches ------------------------------------------------------------------

    def _when(self, index: int, table: object) -> When | None:
        if not isinstance(table, dict):
            text = 'expected a table; write when = { reason = "..." } or [rule.when].'
            self.complain(index, "when", text)
            return None
        self._known(index, table, WHEN_KEYS)
        plain = self._plain(index, _WhenTable, table)
        if plain is None:
            return None
        return When(
            entities=plain.entity,
            reasons=plain.reason,
            description=self._pattern(index, plain.description),
            shapes=self._shapes(index, table.get("shape", [])),
            properties=self._globs(index, table.get("properties", {})),
            attempts=self._attempts(index, table.get("attempts", ">=0")),
            older_than_ms=plain.older_than_ms,
            younger_than_ms=plain.younger_than_ms,
        )

    def _pattern(self, index: int, text: str | None) -> re.Pattern[str] | None:
        try:
            return None if text is None else re.compile(text, re.IGNORECASE | re.DOTALL)
        except re.error as error:
            hint = "this is a regular expression; for plain text put \\ before ( ) [ ] . * + ?"
            self.complain(index, "description", f"{error}; {hint}")
            return None

    def _shapes(self, index: int, given: object) -> tuple[str, ...]:
        """Shapes as reports show them; their brackets are not globs."""
        reported = self._texts(index, "shape", [given] if isinstance(given, str) else given)
        return tuple(re.sub(r"([\[?])", r"[\1]", text) for text in reported)

    def _globs(self, index: int, given: object) -> dict[str, str]:
        if not isinstance(given, dict):
            self.complain(index, "properties", 'expected a table; write { tenant = "acme*" }.')
            return {}
        found: dict[str, str] = {}
        for name, value in given.items():
            if not isinstance(value, str | int | float):
                self.complain(index, "properties", f"{name}: expected a string such as 'acme*'.")
                continue
            found[name] = str(value).lower() if isinstance(value, bool) else str(value)
        return found

    def _attempts(self, index: int, given: object) -> tuple[int, int]:
        match = _RANGE.fullmatch(str(given).strip())
        if match is None or isinstance(given, bool | float):
            self.complain(
                index, "attempts", f"{given!r} is not a valid count; write 0, '<3' or '>=3'."
            )
            return 0, _EVER
        number = int(match["number"])
        return {
            "<": (0, number - 1),
            "<=": (0, number),
            ">": (number + 1, _EVER),
            ">=": (number, _EVER),
        }.get(match["sign"], (number, number))

    # --- what it changes ------------------------------------------------------------------

    def _texts(self, index: int, key: str, given: object) -> tuple[str, ...]:
        if not isinstance(given, list) or not all(isinstance(item, str) for item in given):
            self.complain(
                index, key, f'{given!r} is not a list of strings; for example: ["one", "two"].'
            )
            return ()
        return tuple(given)

    def _set(self, index: int, given: object) -> dict[str, object]:
        if not isinstance(given, dict):
            self.complain(index, "set", 'expected a table; write { currency = "EUR" }.')
            return {}
        found: dict[str, object] = {}
        for name, value in given.items():
            if isinstance(value, datetime.datetime):
                found[name] = Timestamp(timestamp_ms(value))
            elif isinstance(value, str | bool | int | float):
                found[name] = value
            else:
                text = f"{name}: expected a string, a number, true, false or a time."
                self.complain(index, "set", text)
        return found

    def _merge(self, index: int, given: object) -> object:
        """A merge patch: a table, or JSON as text, which can contain null."""
        if given is None or isinstance(given, dict):
            return given
        try:
            return json.loads(given) if isinstance(given, str) else _refuse()
        except ValueError as error:
            text = f"""{error}; write JSON, for example '{{"currency": "EUR", "old": null}}'."""
            self.complain(index, "body_merge", text)
            return None


def _refuse() -> object:
    raise ValueError("it is neither a table nor a string")
