"""Options that a verb has without naming each: a command with a generated signature.

Owns the signature and the help of such a command, which is all that Typer reads of it. The code
that adds the options also reads them: `on_server` makes a place of them, `runs_pipeline` an
execution, and `gathers` the result of a function with these parameters.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def options_of(kinds: Mapping[str, Any]) -> list[inspect.Parameter]:
    """Parameters by name and annotation; None is the default of an option that is not given."""
    return [
        inspect.Parameter(name, _KEYWORD, default=None, annotation=kind)
        for name, kind in kinds.items()
    ]


def gathers(
    name: str, make: Callable[..., object]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """For a verb with a parameter of this name: its value is the result of `make`, whose parameters
    are shown as options instead."""
    options = list(inspect.signature(make).parameters.values())

    def added(verb: Callable[..., Any]) -> Callable[..., Any]:
        def command(*place: Any, **given: Any) -> Any:
            made = make(**{option.name: given.pop(option.name) for option in options})
            return verb(*place, **{name: made}, **given)

        return stands_for(command, verb, in_place_of(name, verb, options))

    return added


def in_place_of(
    name: str, verb: Callable[..., Any], options: Iterable[inspect.Parameter]
) -> list[inspect.Parameter]:
    """The parameters of a verb, one of them replaced by these options."""
    own = list(inspect.signature(verb).parameters.values())
    place = next(at for at, parameter in enumerate(own) if parameter.name == name)
    return [*own[:place], *options, *own[place + 1 :]]


def stands_for(
    command: Callable[..., Any], verb: Callable[..., Any], parameters: Iterable[inspect.Parameter]
) -> Callable[..., Any]:
    """The command, shown with the name and help of the verb and these parameters."""
    shown = [parameter.replace(kind=_KEYWORD) for parameter in parameters]
    command.__signature__ = inspect.Signature(shown, return_annotation=None)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    command.__name__, command.__doc__ = verb.__name__, verb.__doc__
    command.__module__ = verb.__module__
    return command
