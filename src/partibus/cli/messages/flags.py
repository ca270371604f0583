"""A message described on the command line: its properties, for trying out rules.

Owns the JSON form of a message and the view made of it, with the flags applied; `typed_properties`
parses properties. It must never send anything. Called by the verbs about rules.
"""

import datetime
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import typer

from partibus.cli.messages.typed_properties import TYPES, read_values
from partibus.rules.values import READERS
from partibus.rules.view import SYSTEM_ALIASES, SYSTEM_NAMES, MappingView

_SYSTEM_TYPES: Final[dict[str, type]] = {
    **dict.fromkeys(SYSTEM_NAMES, str),
    **dict.fromkeys(
        ("enqueuedtimeutc", "expiresatutc", "scheduledenqueuetimeutc"), datetime.datetime
    ),
    **dict.fromkeys(("sequencenumber", "enqueuedsequencenumber", "deliverycount", "size"), int),
    "timetolive": datetime.timedelta,
}


def message_view(
    file: Path | None, properties: list[str], system: Mapping[str, str | None]
) -> MappingView:
    """The message in a JSON file (`-` is stdin), with the flags applied."""
    user: dict[str, object] = {}
    known: dict[str, object] = {
        "enqueuedtimeutc": datetime.datetime.now(datetime.UTC),
        "deliverycount": 0,
    }
    if file is not None:
        _read_json(_load(file), user, known)
    user.update(read_values(properties))
    for name, given in system.items():
        if given is not None:
            known[name] = system_property(name, given)
    return MappingView(user, known)


def system_property(name: str, value: object) -> object:
    """The value of a system property in its type."""
    wanted = _SYSTEM_TYPES[name]
    if value is None or type(value) is wanted:
        return value
    made = READERS[wanted](value) if isinstance(value, str) and wanted in READERS else None
    if made is None:
        raise typer.BadParameter(f"'{value}' is not a valid value of {SYSTEM_NAMES[name]}.")
    return made


def _load(file: Path) -> Mapping[str, object]:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        message = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise typer.BadParameter(f"{file} is not a message in JSON: {error}") from error
    if not isinstance(message, dict):
        raise typer.BadParameter(f"{file}: expected a JSON object.")
    return message


def _read_json(
    message: Mapping[str, object], user: dict[str, object], known: dict[str, object]
) -> None:
    for key, value in message.items():
        folded = key.replace("_", "").replace("-", "").lower()
        name = SYSTEM_ALIASES.get(folded, folded)
        if name in ("applicationproperties", "properties") and isinstance(value, dict):
            user.update({k: _json_value(v) for k, v in value.items()})
        elif name in SYSTEM_NAMES:
            known[name] = system_property(name, value)
        elif name != "body":
            raise typer.BadParameter(
                f"'{key}' is not a field of a message; the fields are application_properties, "
                f"{', '.join(SYSTEM_NAMES.values())}."
            )


def _json_value(value: object) -> object:
    """A plain value, or `{"type": "time", "value": "..."}` for types that JSON lacks."""
    if isinstance(value, dict) and value.keys() == {"type", "value"}:
        try:
            return TYPES[str(value["type"])].to_value(str(value["value"]))
        except (KeyError, ValueError) as error:
            raise typer.BadParameter(f"{json.dumps(value)} is not a valid value.") from error
    return value
