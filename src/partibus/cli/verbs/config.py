"""`partibus config ...`: checking configuration without starting a server.

Owns the texts of the answer. The checks and the order of origins are the server's own: the file is
read, and its declarations are applied to a temporary catalog in memory.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from partibus.cli.added_options import gathers
from partibus.cli.options import AsJson
from partibus.cli.tables import print_list
from partibus.cli.verbs.serve import serve_flags

if TYPE_CHECKING:
    from partibus.server.config import Configuration

# Variables of the command line that have no meaning for the server.
CLIENT_VARIABLES: Final = ("CONNECTION_STRING", "URL", "CONTEXT", "CA_FILE", "DEBUG", "COMPLETE")

app = typer.Typer(help="Check and show configuration.", no_args_is_help=True)


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="TOML file, or the vendor emulator's Config.json.")],
    profile: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Check against these limits instead of the file's."),
    ] = None,
) -> None:
    """Check whether `partibus serve --config FILE` would accept the file.

    An invalid file is reported with its line and path on stderr, and the exit code is 2.

    Example:

        partibus config check namespace.toml
    """
    from partibus.cli.failures import reported_offline
    from partibus.control.catalog.catalog import Catalog
    from partibus.control.declared.apply import apply_definitions
    from partibus.server.config import resolve_configuration

    with reported_offline():
        configuration = resolve_configuration({"config": file, "profile": profile}, {})
        definitions = configuration.definitions
        assert definitions is not None
        catalog = Catalog(profile=configuration.settings.profile)
        catalog.fix_partitions(definitions.partitions)
        apply_definitions(catalog, definitions)
    counts = f"{len(definitions.entities)} entities, {len(definitions.policies)} policies"
    typer.echo(f"{file}: valid ({counts}, profile {configuration.settings.profile.name})")


@app.command()
@gathers("flags", serve_flags)
def show(
    origin: Annotated[
        bool, typer.Option("--origin", help="Show where each value comes from.")
    ] = False,
    json: AsJson = False,
    *,
    flags: dict[str, object],
) -> None:
    """Show every setting as `partibus serve` would use it with these flags in this environment.

    A setting comes from its default, from the `[server]` table of the file, from a variable
    PARTIBUS_..., or from a flag; each overrides those before it. With --origin the table says
    which one applied. It takes the flags of `serve`. An unknown key is an error that names the
    nearest one, exit code 2; an unknown variable is a warning.

    Examples:

        partibus config show --origin
        PARTIBUS_PORT=7000 partibus config show --origin --config namespace.toml --workers 4
    """
    import os

    from partibus.cli.failures import reported_offline
    from partibus.server.config import resolve_configuration

    with reported_offline():
        configuration = resolve_configuration(flags, os.environ)
    rows = list(_settings(configuration))
    shown = {name: {"value": value, "origin": where} for name, value, where in rows}
    columns = ("setting", "value", "origin") if origin else ("setting", "value")
    cells = ((name, _spoken(value), where)[: len(columns)] for name, value, where in rows)
    print_list({"settings": shown}, json, columns, cells, text_columns=columns)
    _point_out_strangers(os.environ)


def _settings(configuration: "Configuration") -> list[tuple[str, object, str]]:
    """Name, value and origin of each setting, in the order of the documentation."""
    settings = configuration.settings
    rows: list[tuple[str, object, str]] = []
    for name in type(settings).__dataclass_fields__:
        value = getattr(settings, name)
        if name == "profile":
            value = value.name
        elif name == "jwt":
            # It may contain a key.
            value = None if value is None else "set"
        elif name == "disk_free_min" or isinstance(value, Path):
            value = str(value)
        elif isinstance(value, tuple):
            value = list(value)
        rows.append((name, value, configuration.origins[name]))
    return rows


def _spoken(value: object) -> object:
    """A value as written in the file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return "none" if value is None else value


def _point_out_strangers(environment: Any) -> None:
    """Unknown variables with our prefix are most likely typing errors."""
    import difflib

    from partibus.cli.failures import say
    from partibus.server.config import ENVIRONMENT_PREFIX
    from partibus.server.setting_values import READERS

    known = [key.upper() for key in READERS] + ["CONFIG", *CLIENT_VARIABLES]
    for variable in sorted(environment):
        name = variable.removeprefix(ENVIRONMENT_PREFIX)
        if name != variable and name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {ENVIRONMENT_PREFIX}{near[0]}?" if near else "."
            say(f"{variable} is set, but no setting has that name{hint}")
