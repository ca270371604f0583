"""Flags for the properties of entities, made from the table of properties.

Owns how a property becomes a flag and how its value is read: the name in kebab case, switches with
a `no-` form, durations in short form or as ISO 8601. Used by the verbs that create and update
entities, so that all of them are consistent.
"""

import inspect
from typing import Annotated, Any, Final

import typer

from partibus.cli.added_options import options_of
from partibus.cli.quantities import span_ms
from partibus.domain.duration import DURATION_MAX_TEXT, format_duration, parse_duration
from partibus.domain.entity_properties import PROPERTIES, EntityProperty, Kind
from partibus.domain.errors import ArgumentError

_PANEL: Final = "Properties"
# Names of the vendor that are too long to type; all others are used as they are.
FLAGS: Final = {
    "requires_duplicate_detection": "--duplicate-detection",
    "duplicate_detection_history_time_window": "--duplicate-window",
    "default_message_time_to_live": "--ttl",
    "dead_lettering_on_message_expiration": "--dead-letter-expired",
    "dead_lettering_on_filter_evaluation_exceptions": "--dead-letter-filter-errors",
    "enable_batched_operations": "--batched",
    "enable_filtering_messages_before_publishing": "--filter-first",
    "forward_dead_lettered_messages_to": "--forward-dead-letters-to",
    "max_size_in_megabytes": "--max-size-mb",
    "max_message_size_in_kilobytes": "--max-message-kb",
    "requires_session": "--sessions",
    "enable_partitioning": "--partitioning",
    "enable_express": "--express",
    "support_ordering": "--ordering",
    "user_metadata": "--metadata",
}
_UNLIMITED: Final = ("unlimited", "never", "none")


def iso_duration(text: str) -> str:
    """An ISO 8601 duration of 30s, 1h30m, PT30S or `unlimited`."""
    if text.lower() in _UNLIMITED:
        return DURATION_MAX_TEXT
    if text.upper().startswith("P"):
        try:
            parse_duration(text.upper())
        except ArgumentError as error:
            raise typer.BadParameter(error.text) from error
        return text.upper()
    return format_duration(span_ms(text))


def field_parameters(kind: Kind, *, for_update: bool) -> list[inspect.Parameter]:
    """A parameter for each property; fixed ones can only be given at creation."""
    fields = [field for field in PROPERTIES[kind] if not (for_update and field.is_fixed)]
    return options_of({field.key: _annotation(field) for field in fields})


def given_fields(kind: Kind, given: dict[str, Any]) -> dict[str, object]:
    """The properties that were given, by their names."""
    keys = [field.key for field in PROPERTIES[kind]]
    return {key: given[key] for key in keys if given.get(key) is not None}


def flag_of(field: EntityProperty) -> str:
    """The flag that sets a property."""
    return FLAGS.get(field.key, f"--{field.key.replace('_', '-')}")


def _annotation(field: EntityProperty) -> Any:
    flag = flag_of(field)
    shared: dict[str, Any] = {"rich_help_panel": _PANEL, "show_default": False, "help": field.help}
    if field.form == "boolean":
        return Annotated[
            bool | None, typer.Option(f"{flag}/{flag.replace('--', '--no-')}", **shared)
        ]
    if field.form == "integer":
        return Annotated[int | None, typer.Option(flag, metavar="N", **shared)]
    if field.form == "duration":
        parsed = typer.Option(flag, metavar="DURATION", parser=iso_duration, **shared)
        return Annotated[str | None, parsed]
    return Annotated[str | None, typer.Option(flag, metavar="TEXT", **shared)]
