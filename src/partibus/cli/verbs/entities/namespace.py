"""`partibus namespace ...`: all entities of a server in one file, and back.

Owns the flags and the report. The file is a definitions file, so `serve --config` and `config
check` read it as well. Keys are never exported.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from partibus.cli.asking import on_server
from partibus.cli.options import AsJson
from partibus.cli.progress import progress_of
from partibus.cli.tables import print_list
from partibus.cli.verbs import hosted_namespace

if TYPE_CHECKING:
    from partibus.cli.entities.namespace_import import Result
    from partibus.cli.place import Place

app = typer.Typer(no_args_is_help=True)
app.add_typer(hosted_namespace.app)


@app.callback()
def namespace() -> None:
    """All entities in one file, and namespaces for tests.

    Copy a namespace from one server (or from Azure) to another, or keep it under version control.
    On a server for tests (`partibus serve --testing`), create one for each test.
    """


@app.command("export")
@on_server
def export_namespace(
    place: "Place",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write to this file instead of standard output."
        ),
    ] = None,
    form: Annotated[
        Literal["toml", "json"] | None,
        typer.Option("--format", help="(default: by the name of the file, else toml)"),
    ] = None,
) -> None:
    """Write all queues, topics, subscriptions and rules as one file.

    Values that are the vendor's defaults are left out. Policies and keys are not part of it, and
    neither are messages.

    Examples:

        partibus namespace export -o namespace.toml
        partibus namespace export --context azure | partibus config check /dev/stdin
    """
    from partibus.cli.entities.namespace_file import read_namespace, toml_text
    from partibus.cli.failures import CommandFailed
    from partibus.cli.managing import atom_at
    from partibus.cli.remote import RemoteServer

    counts: dict[str, int] = {}
    if not place.connection.is_cloud:
        try:
            entities = RemoteServer(place).ask("GET", "/entities")["entities"]
            counts = {entity["name"]: entity["fragment_count"] for entity in entities}
        except CommandFailed:
            counts = {}  # another server that has only the management API
    with atom_at(place) as atom:
        tables = read_namespace(atom, counts)
    is_json = form == "json" or (form is None and output is not None and output.suffix == ".json")
    if is_json:
        import json

        text = json.dumps(tables, indent=2, ensure_ascii=False) + "\n"
    else:
        text = toml_text(tables)
    if output is None:
        sys.stdout.write(text)
        return
    output.write_text(text, encoding="utf-8")
    queues, topics = len(tables["queue"]), len(tables["topic"])
    typer.echo(f"{output}: {queues} queues, {topics} topics")


@app.command("import")
@on_server
def import_namespace(
    place: "Place",
    file: Annotated[
        Path,
        typer.Argument(help="TOML, the JSON of an export, or the vendor emulator's Config.json."),
    ],
    update: Annotated[
        bool, typer.Option("--update", help="Change entities that differ from the file.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only report what would be done.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Create what a file declares on a running server.

    What is missing is created. What exists and differs is listed, and changed with --update;
    without --update the exit code is then 1. Nothing is deleted. The management API cannot set the
    number of fragments: a partitioned entity gets the number of the server's profile.

    Examples:

        partibus namespace import namespace.toml --dry-run
        partibus namespace import Config.json --update
    """
    from partibus.cli.entities.namespace_file import load_namespace
    from partibus.cli.entities.namespace_import import Import
    from partibus.cli.failures import say
    from partibus.cli.managing import atom_at

    declared = load_namespace(file)
    results: list[Result] = []
    with atom_at(place) as atom, progress_of("importing", len(declared), "entities") as advance:
        run = Import(atom, update=update, dry_run=dry_run)
        for entity in declared:
            results.append(run.take(entity))
            advance(len(results))
        if not dry_run:
            run.finish()
    _report(results, json, dry_run)
    differing = [result.path for result in results if result.verdict == "differs"]
    if differing:
        say(f"{len(differing)} differ from the file; give --update to change them.")
        raise typer.Exit(1)


def _report(results: "list[Result]", json: bool, dry_run: bool) -> None:
    shown = [
        {"path": r.path, "kind": r.kind, "result": r.verdict, "differences": list(r.differences)}
        for r in results
    ]
    columns = ("entity", "kind", "would be" if dry_run else "result", "differences")
    rows = ((r.path, r.kind, r.verdict, ", ".join(r.differences)) for r in results)
    answer = {"dry_run": dry_run, "entities": shown}
    print_list(answer, json, columns, rows, text_columns=columns)
