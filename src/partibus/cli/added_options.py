"""Options that a verb has without naming each: a command line that stands for a verb.

Owns the signature and the words that such a command shows, which is all that Typer reads of it.
The code that adds the options also reads them: `on_server` makes a place of them, and
`runs_pipeline` how a pipeline is run.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def options_of(
    kinds: Mapping[str, Any], defaults: Mapping[str, object] | None = None
) -> list[inspect.Parameter]:
    """Parameters by name and annotation; None is the default that nobody names."""
    known = defaults or {}
    return [
        inspect.Parameter(name, _KEYWORD, default=known.get(name), annotation=kind)
        for name, kind in kinds.items()
    ]


def stands_for(
    command: Callable[..., None], verb: Callable[..., Any], parameters: Iterable[inspect.Parameter]
) -> Callable[..., None]:
    """The command, shown with the name and words of the verb and these parameters."""
    shown = [parameter.replace(kind=_KEYWORD) for parameter in parameters]
    command.__signature__ = inspect.Signature(shown, return_annotation=None)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    command.__name__, command.__doc__ = verb.__name__, verb.__doc__
    command.__module__ = verb.__module__
    return command
