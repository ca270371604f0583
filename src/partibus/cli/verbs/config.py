"""`partibus config ...`: looking at configuration without starting a server.

Owns the words of the answer. The checks are the server's own: the file is read, and what
it declares is made in a catalog that lives in memory and is thrown away.
"""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Check configuration files.", no_args_is_help=True)


@app.callback()
def config() -> None:
    """Check configuration files."""


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="TOML file, or the vendor emulator's Config.json.")],
    profile: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Check against these limits, not the file's."),
    ] = None,
) -> None:
    """Say whether `partibus serve --config FILE` would accept the file.

    A wrong file is explained with its line and path on stderr, and the exit code is 2.
    """
    from partibus.control.apply import apply_definitions
    from partibus.control.catalog import Catalog
    from partibus.domain.errors import BusError
    from partibus.server.config import resolve_configuration
    from partibus.server.failure import report

    try:
        configuration = resolve_configuration({"config": file, "profile": profile}, {})
        definitions = configuration.definitions
        assert definitions is not None
        catalog = Catalog(profile=configuration.settings.profile)
        catalog.fix_partitions(definitions.partitions)
        apply_definitions(catalog, definitions)
    except (BusError, OSError) as error:
        raise typer.Exit(report(error)) from error
    counts = f"{len(definitions.entities)} entities, {len(definitions.policies)} policies"
    typer.echo(f"{file}: good ({counts}, profile {configuration.settings.profile.name})")
