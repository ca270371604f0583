"""`partibus serve`: the server in the foreground.

Owns the flags and their help; `server.config` validates values, `server.lifecycle` runs the server.
Flags default to None, so that a value from the environment or the file applies when a flag was not
given.
"""

from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from partibus.cli.added_options import gathers

_where_option: Final = partial(typer.Option, rich_help_panel="Where it listens")
_data_option: Final = partial(typer.Option, rich_help_panel="Data")
_cluster_option: Final = partial(typer.Option, rich_help_panel="Several machines")
_limits_option: Final = partial(typer.Option, rich_help_panel="How it behaves")
_shows_option: Final = partial(typer.Option, rich_help_panel="What it shows")


def serve_flags(
    data: Annotated[
        Path | None,
        _data_option(
            metavar="DIR",
            help="Directory for messages and entities, created if missing."
            " (default ./partibus-data)",
        ),
    ] = None,
    memory: Annotated[
        bool,
        _data_option(
            "--memory", help="Keep everything in memory; it is lost when the server stops."
        ),
    ] = False,
    config: Annotated[
        Path | None,
        _data_option(
            metavar="FILE",
            help="Queues, topics, policies and settings: a TOML file, or the vendor emulator's"
            " Config.json as it is.",
        ),
    ] = None,
    stores: Annotated[
        str | None,
        _data_option(
            metavar="N", help="Spread the fragments over N directories under --data. (default 1)"
        ),
    ] = None,
    store: Annotated[
        list[str] | None,
        _data_option(metavar="URL", help="A directory for a store; repeat it for each store."),
    ] = None,
    encryption_key_file: Annotated[
        Path | None,
        _data_option(
            metavar="FILE",
            help="Encrypt what is written, with the key in this file: 32 bytes, or those in"
            " hexadecimal or Base64.",
        ),
    ] = None,
    encryption_key_command: Annotated[
        str | None,
        _data_option(metavar="COMMAND", help="The same, with the key that a command prints."),
    ] = None,
    host: Annotated[
        str | None,
        _where_option(
            metavar="HOST",
            help="Address to listen on; 0.0.0.0 accepts other machines, * also over IPv6."
            " (default 127.0.0.1)",
        ),
    ] = None,
    port: Annotated[
        str | None,
        _where_option(
            metavar="PORT",
            help="Port for clients, for AMQP, TLS and HTTP alike; 0 picks a free port, none "
            "disables it. (default 5672)",
        ),
    ] = None,
    tls_port: Annotated[
        str | None,
        _where_option(
            metavar="PORT", help="A second port, where clients expect TLS. (default 5671)"
        ),
    ] = None,
    http_port: Annotated[
        str | None,
        _where_option(metavar="PORT", help="A third port, where tools expect HTTP. (default 5300)"),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        _where_option(
            metavar="FILE",
            help="Your certificate with its chain, in PEM. It is reloaded when the file "
            "changes. (default: a certificate of the development CA, see `partibus cert`)",
        ),
    ] = None,
    tls_key: Annotated[
        Path | None,
        _where_option(metavar="FILE", help="The key of --tls-cert, in PEM, without a passphrase."),
    ] = None,
    workers: Annotated[
        str | None,
        _limits_option(metavar="N", help="Number of worker processes. (default 1)"),
    ] = None,
    cluster: Annotated[
        str | None,
        _cluster_option(
            metavar="URL",
            help="Run as a node of the cluster whose entities and leases are in this PostgreSQL"
            " database; --store names the databases of its messages. (default: the server is"
            " alone)",
        ),
    ] = None,
    cluster_tls: Annotated[
        Path | None,
        _cluster_option(
            metavar="DIR",
            help="The node's certificates, made by `partibus cluster init` or `join`."
            " (default ./partibus-cluster)",
        ),
    ] = None,
    lanes: Annotated[
        str | None,
        _cluster_option(
            metavar="N",
            help="Lanes of a new cluster, which its nodes share. (default 16 for each database)",
        ),
    ] = None,
    peer_host: Annotated[
        str | None,
        _cluster_option(
            metavar="HOST", help="Address of this machine for the other nodes. (default: as --host)"
        ),
    ] = None,
    peer_port: Annotated[
        str | None,
        _cluster_option(
            metavar="PORT", help="Port for the other nodes; 0 picks a free one. (default 0)"
        ),
    ] = None,
    profile: Annotated[
        str | None,
        _limits_option(
            metavar="NAME",
            help="Limits and tier behaviour: selfhost, basic, standard, premium, premium-2017,"
            " premium-2020 or emulator. (default selfhost)",
        ),
    ] = None,
    memory_limit: Annotated[
        str | None,
        _limits_option(
            metavar="SIZE",
            help="Memory for messages in transit, over all clients: bytes, or 64M, 2G. Senders "
            "wait when it is used up. (default 512M, or a quarter of the memory that the server"
            " may use if that is less)",
        ),
    ] = None,
    disk_free_min: Annotated[
        str | None,
        _limits_option(
            metavar="SHARE",
            help="Space to keep free on a store's disk, as 5% or 200M; below it, sends are "
            "refused, while receiving and settling continue. (default 5%, at least 64M)",
        ),
    ] = None,
    peek_partitioned: Annotated[
        str | None,
        _limits_option(
            metavar="MODE",
            help="How partitioned entities are peeked: merged, or first-responder as in Azure, "
            "where the first fragment to answer is used. (default merged)",
        ),
    ] = None,
    log_level: Annotated[
        str | None,
        _shows_option(
            metavar="LEVEL",
            help="What goes to the log on stderr: debug, info, warning or error; `partibus log"
            " level` changes it later. (default info)",
        ),
    ] = None,
    log_format: Annotated[
        str | None,
        _shows_option(
            metavar="FORM", help="text for people, or json: an object on each line. (default text)"
        ),
    ] = None,
    audit_log: Annotated[
        Path | None,
        _shows_option(
            metavar="FILE",
            help="Write what administrators change to this file, as JSON. (default: to the log)",
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        _shows_option(
            metavar="WHO",
            help="Who may read /metrics: loopback (programs of this machine, others with a token),"
            " token, open or off. (default loopback)",
        ),
    ] = None,
    otel: Annotated[
        bool,
        _shows_option(
            "--otel",
            help="Export traces and metrics for OpenTelemetry over OTLP/HTTP, as the OTEL_*"
            " variables say: OTEL_EXPORTER_OTLP_ENDPOINT and others. Needs the extra otel.",
        ),
    ] = False,
    console: Annotated[
        str | None,
        _where_option(
            metavar="MODE",
            help="The web console at /console/ of every port: on, read-only, or off. (default on)",
        ),
    ] = None,
    emulator: Annotated[
        bool,
        _limits_option(
            "--emulator",
            help="Replace the vendor's emulator: all interfaces, ports 5672 and 5300, its "
            "well-known key, its Config.json or default entities, and the log line that "
            "tools wait for. For development and tests.",
        ),
    ] = False,
    faults: Annotated[
        bool,
        _limits_option(
            "--faults",
            help="Allow `partibus fault` to inject faults: stores, latency, throttling, locks. For "
            "testing your own programs.",
        ),
    ] = False,
    fake_time: Annotated[
        bool,
        _limits_option(
            "--fake-time",
            help="Let `partibus clock advance` move the time of messages and entities. For tests;"
            " needs --memory.",
        ),
    ] = False,
    testing: Annotated[
        bool,
        _limits_option(
            "--testing",
            help="A server for test suites: a namespace for each test, --memory, --faults and"
            " --fake-time.",
        ),
    ] = False,
) -> dict[str, object]:
    """The flags as settings; None means not given."""
    given: dict[str, object] = dict(locals())
    if stores is not None and store:
        raise typer.BadParameter("give --stores or --store, not both")
    given["stores"] = tuple(store) if store else stores
    del given["store"]
    return {name: None if value is False else value for name, value in given.items()}


@gathers("flags", serve_flags)
def serve(flags: dict[str, object]) -> None:
    """Run the message bus until Ctrl-C or SIGTERM.

    When it is ready, it prints one line on stdout that begins with PARTIBUS READY and ends with
    the connection string for your program. Each flag can also be set in the `[server]` table of the
    configuration file, or as PARTIBUS_DATA, PARTIBUS_PORT and so on in the environment.
    """
    import os

    from partibus.cli.failures import reported_offline
    from partibus.ops.compiled import warn_if_outdated
    from partibus.ops.logging import configure_logging
    from partibus.server.config import resolve_configuration
    from partibus.server.lifecycle import run

    configure_logging()
    warn_if_outdated()
    with reported_offline():
        configuration = resolve_configuration(flags, os.environ)
        settings = configuration.settings
        configure_logging(settings.log_level, form=settings.log_format, audit=settings.audit_log)
    raise typer.Exit(run(configuration))
