"""`partibus backup ...`: copies of everything, made while the server runs or while it is stopped.

Owns the options and texts of the verbs. `partibus.backup` owns what a backup is and how it is kept;
a running server captures itself. Called by the table of verbs.
"""

import contextlib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partibus.cli.added_options import gathers
from partibus.cli.asking import perhaps_on_server, print_json
from partibus.cli.options import AsJson
from partibus.cli.progress import progress_by_steps
from partibus.cli.quantities import format_bytes
from partibus.cli.tables import print_list
from partibus.cli.verbs.store import Keys, Places, Stores

if TYPE_CHECKING:
    from partibus.backup.making import Source
    from partibus.backup.manifest import Manifest
    from partibus.backup.repository import Repository
    from partibus.cli.place import Place
    from partibus.server.config import ServeSettings

app = typer.Typer(no_args_is_help=True, invoke_without_command=True)

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The directory of the backups.")]
To = Annotated[
    Path | None,
    typer.Option("--to", metavar="DIR", help="The directory of the backups; created if missing."),
]
OfData = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Back up this data directory of a server that is not running; no server is asked.",
    ),
]
Chosen = Annotated[str | None, typer.Option("--backup", metavar="ID", help="Which backup.")]


@app.callback()
@perhaps_on_server
@gathers("keys", Keys)
def backup(
    find: "Callable[[], Place]",
    ctx: typer.Context,
    to: To = None,
    data: OfData = None,
    stores: Stores = None,
    place: Places = None,
    *,
    keys: Keys,
    json: AsJson = False,
) -> None:
    """Make a backup of everything a server keeps: entities, policies and messages.

    The backup is consistent, as of a moment after the command was given: everything confirmed
    before is in it. The server keeps working. A second backup into the same directory copies only
    what is new. The key needs the Manage right. `--data` backs up a stopped server.

    Example:

        partibus backup --to /backups/orders
        partibus backup list /backups/orders
        partibus restore /backups/orders --data new-data
    """
    if ctx.invoked_subcommand is not None:
        return
    if to is None:
        raise typer.BadParameter("give a directory for the backup: --to DIR.")
    from partibus.cli.failures import reported_offline
    from partibus.server.data_directory.offline import offline_settings

    settings: ServeSettings | None = None
    with reported_offline():
        if data is not None:
            settings = offline_settings(data, tuple(place or ()), stores, *keys)
        manifest, swept = _make(find, to, settings)
    if json:
        print_json({**_facts(manifest), "swept_files": swept})
        return
    print(
        f"{manifest.id}: {len(manifest.files)} files, {format_bytes(manifest.total_bytes)}, of "
        f"which {format_bytes(manifest.copied_bytes)} copied"
    )


def _make(
    find: "Callable[[], Place]", to: Path, settings: "ServeSettings | None"
) -> "tuple[Manifest, int]":
    from partibus.backup.making import Plan, carry_out
    from partibus.backup.repository import Repository
    from partibus.cli.backup_source import ServerSource
    from partibus.server.data_directory.backup import DirectorySource

    with contextlib.ExitStack() as stack:
        # First: the server should not keep files for a directory that cannot be used.
        repository = stack.enter_context(Repository(to).opened(writable=True))
        source: Source = ServerSource(find()) if settings is None else DirectorySource(settings)
        plan = Plan(repository, stack.enter_context(source.described()))
        with progress_by_steps("backing up", plan.missing_bytes, "bytes") as advance:
            manifest = carry_out(plan, repository, source, advance)
        return manifest, _swept(repository)


def _swept(repository: "Repository") -> int:
    """Remove what an interrupted backup left; an unreadable manifest keeps everything."""
    from partibus.domain.errors import StoreCorrupt

    with contextlib.suppress(StoreCorrupt):
        return repository.sweep()[0]
    return 0


@app.command("list")
def list_backups(directory: Directory, json: AsJson = False) -> None:
    """List the backups of a directory, oldest first.

    Example:

        partibus backup list /backups/orders
    """
    from partibus.backup.repository import Repository
    from partibus.cli.failures import reported_offline

    with reported_offline(), Repository(directory).opened(writable=False) as repository:
        manifests = [repository.manifest(name) for name in repository.ids()]
    print_list(
        {"backups": [_facts(manifest) for manifest in manifests]},
        json,
        ("backup", "made", "of", "stores", "files", "size", "copied"),
        (
            (
                m.id,
                m.made_at,
                "running server" if m.is_online else "stopped server",
                m.stores,
                len(m.files),
                format_bytes(m.total_bytes),
                format_bytes(m.copied_bytes),
            )
            for m in manifests
        ),
        text_columns=("backup", "made", "of"),
    )


@app.command()
@gathers("keys", Keys)
def verify(
    directory: Directory,
    backup_id: Chosen = None,
    deep: Annotated[
        bool,
        typer.Option(
            "--deep", help="Also read each backup as `partibus store check` reads a data directory."
        ),
    ] = False,
    *,
    keys: Keys,
    json: AsJson = False,
) -> None:
    """Read every file of the backups, or of one, and compare it with its checksum.

    The exit code is 3 when anything is wrong.

    Example:

        partibus backup verify /backups/orders --deep
    """
    from partibus.cli.failures import reported_offline
    from partibus.server.failure import EXIT_CLEAN, EXIT_CORRUPT

    with reported_offline():
        reports = _verify(directory, backup_id, deep, keys)
    if json:
        print_json({"backups": reports})
    else:
        for report in reports:
            problems = report["problems"]
            state = "sound" if not problems else f"{len(problems)} problem(s)"
            print(f"{report['id']}: {state} ({report['files']} files)")
            for problem in problems:
                print(f"  {problem}")
    is_sound = not any(report["problems"] for report in reports)
    raise typer.Exit(EXIT_CLEAN if is_sound else EXIT_CORRUPT)


def _verify(directory: Path, backup_id: str | None, deep: bool, keys: Keys) -> list[dict[str, Any]]:
    from partibus.backup.repository import Repository
    from partibus.backup.verifying import verify as verify_all
    from partibus.server.data_directory.restore import check_in_depth

    with Repository(directory).opened(writable=False) as repository:
        names = repository.ids()
        if backup_id is not None or not names:
            names = [repository.manifest(backup_id).id]
        with progress_by_steps("verifying", None, "bytes") as advance:
            reports = verify_all(repository, names, advance)
        for report in reports:
            if deep and not report.problems:
                parts = check_in_depth(repository, report.id, *keys)
                report.problems += [problem for part in parts for problem in part.problems]
        return [asdict(report) for report in reports]


@app.command()
def prune(
    directory: Directory,
    keep: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many of the latest backups stay.")
    ],
    json: AsJson = False,
) -> None:
    """Delete all backups but the latest, and the files that only they needed.

    Example:

        partibus backup prune /backups/orders --keep 7
    """
    from partibus.backup.repository import Repository
    from partibus.cli.failures import reported_offline

    with reported_offline(), Repository(directory).opened(writable=True) as repository:
        going = repository.ids()[:-keep]
        for name in repository.ids():
            repository.manifest(name)  # an unreadable one is found before any is deleted
        for name in going:
            repository.drop_manifest(name)
        files, size = repository.sweep()
    if json:
        print_json({"dropped": going, "files": files, "bytes": size})
        return
    print(f"{len(going)} backup(s) dropped, {files} files with {format_bytes(size)} deleted")


def restore(
    directory: Directory,
    data: Annotated[
        Path,
        typer.Option(
            "--data", metavar="DIR", help="The new data directory; it must not exist, or be empty."
        ),
    ],
    backup_id: Chosen = None,
    place: Places = None,
    new_identity: Annotated[
        bool,
        typer.Option(
            "--new-identity",
            help="Give it a new namespace id, for a copy that runs beside the original.",
        ),
    ] = False,
    json: AsJson = False,
) -> None:
    """Restore a data directory from a backup: the latest, or a named one.

    Everything is verified first. Until all of it is written, no server starts on the directory.

    Example:

        partibus restore /backups/orders --data new-data
        partibus serve --data new-data
    """
    from partibus.cli.failures import reported_offline

    with reported_offline():
        manifest = _restore(directory, data, backup_id, tuple(place or ()), new_identity)
    if json:
        print_json({**_facts(manifest), "data": str(data)})
        return
    flags = "".join(f" --store {one}" for one in place or ())
    flags = flags or (f" --stores {manifest.stores}" if manifest.stores > 1 else "")
    print(f"{manifest.id} is restored; start it with: partibus serve --data {data}{flags}")


def _restore(
    directory: Path, data: Path, backup_id: str | None, places: tuple[str, ...], new_identity: bool
) -> "Manifest":
    from partibus.backup.repository import Repository
    from partibus.domain.errors import ConfigError
    from partibus.server.config import ServeSettings
    from partibus.server.data_directory.restore import restore as restore_all

    with Repository(directory).opened(writable=False) as repository:
        manifest = repository.manifest(backup_id)
        if places and len(places) != manifest.stores:
            raise ConfigError(
                f"the backup {manifest.id} has {manifest.stores} store(s): give --store once "
                "for each, or not at all."
            )
        settings = ServeSettings(data=data, stores=manifest.stores, store_places=places)
        with progress_by_steps("restoring", 2 * manifest.total_bytes, "bytes") as advance:
            restore_all(repository, manifest, settings, advance, new_identity=new_identity)
        return manifest


def _facts(manifest: "Manifest") -> dict[str, Any]:
    return {
        "id": manifest.id,
        "made_at": manifest.made_at,
        "release": manifest.release,
        "namespace": manifest.namespace,
        "generation": manifest.generation,
        "online": manifest.is_online,
        "stores": manifest.stores,
        "files": len(manifest.files),
        "bytes": manifest.total_bytes,
        "copied_bytes": manifest.copied_bytes,
    }
