"""From a verb's options to a server, or to an exit code.

Owns `on_server` and `perhaps_on_server`, which give a verb the options that select a server and the
place they name, and the printing of JSON. A verb may be a coroutine; it is then run. Errors are
reported through `failures`. Wraps every verb that talks to a server.
"""

import inspect
import json
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec

import typer

from partibus.cli.added_options import options_of, stands_for
from partibus.cli.options import CaFile, ConnectionString, ContextName, Url

if TYPE_CHECKING:
    from partibus.cli.place import Place
    from partibus.cli.remote import RemoteServer

EXIT_TERMINATED: Final = 143  # 128 + SIGTERM, as shells say it
P = ParamSpec("P")
SERVER_OPTIONS = {
    "connection_string": ConnectionString,
    "url": Url,
    "context": ContextName,
    "ca_file": CaFile,
}


def on_server(verb: "Callable[Concatenate[Place, P], Any]") -> Callable[..., None]:
    """A verb whose first parameter is the place; the options that select it are added."""

    def at_once(find: "Callable[[], Place]", *given: P.args, **named: P.kwargs) -> Any:
        return verb(find(), *given, **named)

    return _with_server_options(at_once, verb)


def perhaps_on_server(
    verb: "Callable[Concatenate[Callable[[], Place], P], Any]",
) -> Callable[..., None]:
    """A verb that may not need a server: its first parameter finds the place when called, so that
    options that name none, or a wrong one, matter only then."""
    return _with_server_options(verb, verb)


def _with_server_options(run: Callable[..., Any], verb: Callable[..., Any]) -> Callable[..., None]:
    own = list(inspect.signature(verb).parameters.values())[1:]

    def command(**given: Any) -> None:
        from partibus.cli.failures import reported
        from partibus.cli.place import find_place

        where = {name: given.pop(name) for name in SERVER_OPTIONS}
        with reported():
            result = run(partial(find_place, **where), **given)
            if inspect.iscoroutine(result):
                _run(result)

    return stands_for(command, verb, [*own, *options_of(SERVER_OPTIONS)])


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Run a verb; SIGTERM ends it as Ctrl-C does, with locks released and links closed."""
    import asyncio
    import signal

    async def until_reported() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        await work

    try:
        asyncio.run(until_reported())
    except asyncio.CancelledError as error:
        raise typer.Exit(EXIT_TERMINATED) from error


def server_at(place: "Place") -> "RemoteServer":
    """The administration of a server, over HTTP."""
    from partibus.cli.remote import RemoteServer

    return RemoteServer(place)


def print_answer(answer: object, as_json: bool, text: str) -> None:
    """An answer for programs, or in one line for people."""
    if as_json:
        print_json(answer)
    else:
        typer.echo(text)


def print_json(answer: object) -> None:
    """An answer for programs; indented, for people too."""
    typer.echo(json.dumps(answer, indent=2, ensure_ascii=False))
