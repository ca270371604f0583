"""`partibus serve`: the server in the foreground.

Owns the flags and their help; `server.config` validates values, `server.lifecycle` runs the server.
Flags default to None, so that a value from the environment or the file applies when a flag was not
given.
"""

import inspect
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer

from partibus.cli.added_options import gathers, stands_for


class Flag(NamedTuple):
    """A setting as an option: its key, the name of its value, and its help."""

    key: str
    metavar: str
    """FILE and DIR are paths; a switch has none."""
    help: str


FLAGS: Final = {
    "Data": (
        Flag("data", "DIR",
             "Directory for messages and entities, created if missing. (default ./partibus-data)"),
        Flag("memory", "", "Keep everything in memory; it is lost when the server stops."),
        Flag("config", "FILE",
             "Queues, topics, policies and settings: a TOML file, or the vendor emulator's "
             "Config.json as it is."),
        Flag("stores", "N", "Spread the fragments over N directories under --data. (default 1)"),
        Flag("store", "URL", "A directory for a store; repeat it for each store."),
        Flag("encryption_key_file", "FILE",
             "Encrypt what is written, with the key in this file: 32 bytes, or those in "
             "hexadecimal or Base64."),
        Flag("encryption_key_command", "COMMAND", "The same, with the key that a command prints."),
    ),
    "Where it listens": (
        Flag("host", "HOST",
             "Address to listen on; 0.0.0.0 accepts other machines, * also over IPv6. (default "
             "127.0.0.1)"),
        Flag("port", "PORT",
             "Port for clients, for AMQP, TLS and HTTP alike; 0 picks a free port, none disables "
             "it. (default 5672)"),
        Flag("tls_port", "PORT", "A second port, where clients expect TLS. (default 5671)"),
        Flag("http_port", "PORT", "A third port, where tools expect HTTP. (default 5300)"),
        Flag("tls_cert", "FILE",
             "Your certificate with its chain, in PEM. It is reloaded when the file changes. "
             "(default: a certificate of the development CA, see `partibus cert`)"),
        Flag("tls_key", "FILE", "The key of --tls-cert, in PEM, without a passphrase."),
        Flag("console", "MODE",
             "The web console at /console/ of every port: on, read-only, or off. (default on)"),
    ),
    "How it behaves": (
        Flag("workers", "N", "Number of worker processes. (default 1)"),
        Flag("profile", "NAME",
             "Limits and tier behaviour: selfhost, basic, standard, premium, premium-2017, "
             "premium-2020 or emulator. (default selfhost)"),
        Flag("memory_limit", "SIZE",
             "Memory for messages in transit, over all clients: bytes, or 64M, 2G. Senders wait "
             "when it is used up. (default 512M, or a quarter of the memory that the server may "
             "use if that is less)"),
        Flag("disk_free_min", "SHARE",
             "Space to keep free on a store's disk, as 5% or 200M; below it, sends are refused, "
             "while receiving and settling continue. (default 5%, at least 64M)"),
        Flag("peek_partitioned", "MODE",
             "How partitioned entities are peeked: merged, or first-responder as in Azure, where "
             "the first fragment to answer is used. (default merged)"),
        Flag("emulator", "",
             "Replace the vendor's emulator: all interfaces, ports 5672 and 5300, its well-known "
             "key, its Config.json or default entities, and the log line that tools wait for. "
             "For development and tests."),
        Flag("faults", "",
             "Allow `partibus fault` to inject faults: stores, latency, throttling, locks. For "
             "testing your own programs."),
        Flag("fake_time", "",
             "Let `partibus clock advance` move the time of messages and entities. For tests; "
             "needs --memory."),
        Flag("testing", "",
             "A server for test suites: a namespace for each test, --memory, --faults and "
             "--fake-time."),
    ),
    "Several machines": (
        Flag("cluster", "URL",
             "Run as a node of the cluster whose entities and leases are in this PostgreSQL "
             "database; --store names the databases of its messages. (default: the server is "
             "alone)"),
        Flag("cluster_tls", "DIR",
             "The node's certificates, made by `partibus cluster init` or `join`. (default "
             "./partibus-cluster)"),
        Flag("lanes", "N",
             "Lanes of a new cluster, which its nodes share. (default 16 for each database)"),
        Flag("peer_host", "HOST",
             "Address of this machine for the other nodes. (default: as --host)"),
        Flag("peer_port", "PORT", "Port for the other nodes; 0 picks a free one. (default 0)"),
    ),
    "What it shows": (
        Flag("log_level", "LEVEL",
             "What goes to the log on stderr: debug, info, warning or error; `partibus log "
             "level` changes it later. (default info)"),
        Flag("log_format", "FORM",
             "text for people, or json: an object on each line. (default text)"),
        Flag("audit_log", "FILE",
             "Write what administrators change to this file, as JSON. (default: to the log)"),
        Flag("metrics", "WHO",
             "Who may read /metrics: loopback (programs of this machine, others with a token), "
             "token, open or off. (default loopback)"),
        Flag("otel", "",
             "Export traces and metrics for OpenTelemetry over OTLP/HTTP, as the OTEL_* "
             "variables say: OTEL_EXPORTER_OTLP_ENDPOINT and others. Needs the extra otel."),
    ),
}  # fmt: skip
"""The flags by their panels in the help."""


def _parameter(flag: Flag, panel: str) -> inspect.Parameter:
    """A flag, as Typer reads it."""
    words: dict[str, Any] = {"help": flag.help, "rich_help_panel": panel}
    kind: Any = Path if flag.metavar in ("FILE", "DIR") else str
    if flag.key == "store":
        kind = list[str]
    annotation: Any = Annotated[kind | None, typer.Option(metavar=flag.metavar, **words)]
    if not flag.metavar:
        name = "--" + flag.key.replace("_", "-")
        annotation = Annotated[bool | None, typer.Option(name, **words)]
    return inspect.Parameter(
        flag.key, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )


def _settings(**given: Any) -> dict[str, object]:
    """The flags as settings; None means not given."""
    stores, places = given["stores"], given.pop("store")
    if stores is not None and places:
        raise typer.BadParameter("give --stores or --store, not both")
    return given | {"stores": tuple(places) if places else stores}


serve_flags: Final = stands_for(
    _settings, _settings, [_parameter(flag, panel) for panel in FLAGS for flag in FLAGS[panel]]
)


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
