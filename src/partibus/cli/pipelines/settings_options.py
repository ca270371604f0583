"""The options of a pipeline verb, made from the settings of its pipeline.

Owns `with_settings`: each setting that `pyspark_servicebus.pipelines` declares becomes an option or
an argument with its help, default and choices, and the verb gets the given values as one table.
What a value means, and whether it is valid, is decided where the settings are declared. Settings
are only declarations: neither Spark nor the client is imported for them.
"""

import inspect
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal

import typer

from partibus.cli.added_options import in_place_of, stands_for
from partibus.cli.completion import complete_entity
from pyspark_servicebus.pipelines.run.settings_table import Setting, settings_of

Verb = Callable[..., None]


def _call(verb: Verb, *place: Any, **given: Any) -> None:
    verb(*place, **given)


def with_settings(
    kind: type[object],
    *without: str,
    name: str = "table",
    run: Callable[..., None] = _call,
    at_end: bool = False,
) -> Callable[[Verb], Verb]:
    """For a verb with a parameter `table`: the settings of this kind are added, except some.

    The table has the keys that were given, as `from_table` reads them. `run` calls the verb; the
    help lists them where the parameter stands, or at the end."""
    settings = [found for found in settings_of(kind) if found.key not in without]

    def added(verb: Verb) -> Verb:
        made = [_parameter(found) for found in settings]
        own = in_place_of(name, verb, () if at_end else made)
        parameters = [*own, *made] if at_end else own

        def command(*place: Any, **given: Any) -> None:
            run(verb, *place, **{name: dict(_given(settings, given))}, **given)

        return stands_for(command, verb, parameters)

    return added


def option_of(kind: type[object], key: str) -> Any:
    """The type of a parameter that is one of these settings, for verbs that have no others."""
    (found,) = (one for one in settings_of(kind) if one.key == key)
    return Annotated[_type(found, False), _words(found)]


def _given(settings: list[Setting], typed: dict[str, Any]) -> Iterator[tuple[str, object]]:
    for found in settings:
        value = typed.pop(found.key)
        if found.form == "switch":
            value = (found.default is not True) if value else None
        if value not in (None, [], ()):
            yield found.key, value


def _parameter(found: Setting) -> inspect.Parameter:
    required = found.typed.is_argument and found.form != "texts"
    return inspect.Parameter(
        found.key,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if required else None,
        annotation=Annotated[_type(found, required), _words(found)],
    )


def _type(found: Setting, required: bool) -> Any:
    if found.form == "switch":
        return bool | None
    if found.form == "texts":
        return list[str] | None
    if found.choices:
        return Literal[found.choices] | None
    return str if required else str | None


def _words(found: Setting) -> Any:
    shown: dict[str, Any] = {"help": found.full_help(), "show_default": False}
    if found.form != "switch" and not found.choices:
        shown["metavar"] = found.metavar
    if found.form == "entity":
        shown["autocompletion"] = complete_entity
    if found.typed.panel:
        shown["rich_help_panel"] = found.typed.panel
    if found.typed.is_argument:
        return typer.Argument(**shown)
    return typer.Option(*(found.typed.flags or (found.flag,)), **shown)
