"""How `--help` looks: examples as typed, values in capitals, switches without a value.

Owns the corrections of typer's output for our verbs, applied to the whole table once. Examples are
formatted as code, since typer unindents the second paragraph of a text and would join their lines.
Placeholders are in capitals, and a switch shows no value.
"""

import inspect
import re
from copy import copy
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from partibus.cli.old_spellings import in_present_words

_ONE_SPACE_BETWEEN_COLUMNS: Final = (0, 1, 0, 0)
"""As (above, right, below, left). With typer's two spaces, our longest names do not fit into the 80
columns of a terminal, and are cut off."""
_INDENTED: Final = re.compile(r"(?:^    .*\n?)+", re.MULTILINE)


class Verb(TyperCommand):
    """A verb whose parameters are shown our way, and read by their old names too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        verb = " ".join(ctx.command_path.split()[1:])
        return super().parse_args(ctx, in_present_words(verb, args))

    def get_params(self, ctx: Any) -> list[Any]:
        return _in_our_words(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super(Verb, _for_a_terminal(self)).format_help(ctx, formatter)


class VerbGroup(TyperGroup):
    """A group of verbs, likewise."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _in_our_words(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super(VerbGroup, _for_a_terminal(self)).format_help(ctx, formatter)


def make_readable(app: typer.Typer) -> None:
    """Correct every verb of a table and of the groups in it."""
    for command in app.registered_commands:
        command.cls = Verb
        if command.help is None and command.callback is not None:
            command.help = _with_code(inspect.getdoc(command.callback) or "")
    for group in app.registered_groups:
        inner = group.typer_instance
        assert inner is not None
        if not (isinstance(inner.info.cls, type) and issubclass(inner.info.cls, VerbGroup)):
            inner.info.cls = VerbGroup
        make_readable(inner)


def _with_code(text: str) -> str:
    """Indented lines as code that stays code whatever the indentation of the text."""

    def fenced(match: re.Match[str]) -> str:
        return f"```\n{inspect.cleandoc(match[0])}\n```\n"

    return _INDENTED.sub(fenced, text)


def _in_our_words(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if parameter.param_type_name == "argument":
            _show_plainly(parameter)
        elif parameter.metavar is None and parameter.is_flag:
            parameter.metavar = ""
    return parameters


def _for_a_terminal(command: Any) -> Any:
    """The command as its help shows it, with every name whole at the width of a terminal."""
    from typer import rich_utils

    layout: Any = rich_utils
    layout.STYLE_OPTIONS_TABLE_PADDING = _ONE_SPACE_BETWEEN_COLUMNS
    shown = copy(command)
    shown.params = [_with_opposite(parameter) for parameter in command.params]
    return shown


def _with_opposite(parameter: Any) -> Any:
    """A switch and its opposite below each other; typer shows them side by side."""
    if not parameter.secondary_opts:
        return parameter
    shown = copy(parameter)
    shown.opts = ["\n".join((*parameter.opts, *parameter.secondary_opts))]
    shown.secondary_opts = []
    return shown


def _show_plainly(argument: Any) -> None:
    """ENTITY, or [ENTITY] in the usage line if it is optional. Typer writes {ENTITY} there, and the
    name of the type beside the description: <str>."""
    name = argument.metavar = argument.metavar or str(argument.name).upper()
    in_usage = name if argument.required else f"[{name}]"
    argument.make_metavar = lambda ctx=None, usage=False: in_usage if usage else name
    choices = argument.type.get_metavar
    argument.type = copy(argument.type)
    argument.type.get_metavar = lambda param, ctx=None: choices(param=param, ctx=ctx) or ""
