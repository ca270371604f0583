"""`partibus cluster ...`: the nodes of a cluster and their certificates.

Owns the options and texts. `server.nodes.certificates` makes certificates,
`server.nodes.operations` sends requests to a running cluster.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from partibus.cli.asking import print_json
from partibus.cli.confirming import confirm
from partibus.cli.options import AsJson, Yes
from partibus.cli.tables import print_table

if TYPE_CHECKING:
    from partibus.server.nodes.operations import ClusterService, Report

Directory = Annotated[
    Path, typer.Argument(metavar="DIR", help="The directory for the node's certificates.")
]
Name = Annotated[
    str,
    typer.Option(
        "--name", metavar="NAME", help="The name of the node, as it is shown in logs and lists."
    ),
]
Authority = Annotated[
    Path,
    typer.Option(
        "--authority",
        metavar="DIR",
        help="The directory that `partibus cluster init` created.",
        show_default=False,
    ),
]

Url = Annotated[
    str,
    typer.Option(
        "--cluster",
        metavar="URL",
        envvar="PARTIBUS_CLUSTER",
        help="The cluster's database, as for `partibus serve`.",
        show_default=False,
    ),
]
Number = Annotated[int, typer.Argument(metavar="NODE", help="The number of the node.", min=1)]
Wait = Annotated[
    float, typer.Option("--wait", metavar="SECONDS", min=0.0, help="The longest time to wait.")
]

app = typer.Typer(help="Create a cluster, add nodes to it, and operate it.", no_args_is_help=True)


@app.command()
def init(
    directory: Directory,
    name: Name = "node-1",
    if_absent: Annotated[
        bool,
        typer.Option("--if-absent", help="Leave an existing authority as it is, and succeed."),
    ] = False,
) -> None:
    """Create the certificate authority of a new cluster, and the certificate of its first node.

    Keep the directory private: anyone with the key of the authority can add nodes.

    Example:

        partibus cluster init /etc/partibus/cluster
    """
    from partibus.cli.failures import reported_offline
    from partibus.domain.clock import SystemClock
    from partibus.server.nodes.certificates import has_authority, make_cluster

    if if_absent and has_authority(directory):
        typer.echo(f"{directory}: the authority of a cluster already exists")
        return
    with reported_offline():
        make_cluster(directory, name, SystemClock())
    typer.echo(f"{directory}: the authority of a new cluster, and the certificate of {name}")


@app.command()
def join(
    directory: Directory,
    name: Name,
    authority: Annotated[
        Path | None,
        typer.Option("--authority", metavar="DIR", help="The directory of the authority."),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            metavar="TOKEN",
            envvar="PARTIBUS_JOIN_TOKEN",
            help="The token that `partibus cluster admit` printed, instead of --authority.",
        ),
    ] = None,
) -> None:
    """Create the certificate of another node; copy the directory to its machine.

    Run it where the cluster was created, or with a token on the machine of the node. With the name
    of an existing node, its certificate is renewed.

    Example:

        partibus cluster join ./node-2 --authority /etc/partibus/cluster --name node-2
    """
    import asyncio

    from partibus.cli.failures import reported_offline
    from partibus.domain.clock import SystemClock
    from partibus.server.nodes.certificates import make_node

    if (authority is None) == (token is None):
        raise typer.BadParameter("Give either --authority or --token.")
    with reported_offline():
        if authority is not None:
            make_node(authority, directory, name, SystemClock())
        elif token is not None:
            from partibus.server.nodes.admission import join_by_token

            asyncio.run(join_by_token(directory, token, name, SystemClock()))
    where = "" if authority is None else "; copy the directory to its machine"
    typer.echo(f"{directory}: the certificate of {name}{where}")


@app.command()
def admit(
    authority: Authority,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Where new nodes reach this machine.")
    ],
    port: Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535)] = 0,
    minutes: Annotated[
        float, typer.Option("--minutes", metavar="N", min=0.0, help="How long the token is valid.")
    ] = 15.0,
) -> None:
    """Print a token for new nodes, and sign their certificates until it expires.

    The key of the authority stays here, and the key of a node on its machine. Ctrl-C ends it, and
    the token with it.

    Example:

        partibus cluster admit --authority ./node-1 --host 10.0.0.1
    """
    import asyncio
    import contextlib

    from partibus.cli.failures import reported_offline
    from partibus.ops.logging import configure_logging

    configure_logging("info")
    with reported_offline(), contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_admit(authority, host, port, minutes))


async def _admit(authority: Path, host: str, port: int, minutes: float) -> None:
    import asyncio

    from partibus.domain.clock import SystemClock
    from partibus.server.nodes.admission import Admission, JoinToken

    clock = SystemClock()
    admission = Admission(authority, clock.now_ms() + round(60_000 * minutes), clock)
    server = await admission.serve(host, port)
    async with server:
        number = int(server.sockets[0].getsockname()[1])
        token = JoinToken(host, number, admission.until_ms, admission.secret)
        typer.echo(token.text())
        await asyncio.sleep(60 * minutes)


@app.command()
def status(cluster: Url, json: AsJson = False) -> None:
    """Show the nodes of a cluster and the lanes that each of them serves.

    Example:

        partibus cluster status --cluster postgresql://bus@db.example.org/bus
    """
    _ask(cluster, json, lambda service: service.status())


@app.command()
def drain(
    cluster: Url,
    node: Annotated[int | None, typer.Argument(help="The number of the node.", min=1)] = None,
    this_node: Annotated[
        bool,
        typer.Option("--this-node", help="The node whose certificate is in --cluster-tls."),
    ] = False,
    cluster_tls: Annotated[
        Path,
        typer.Option(
            "--cluster-tls",
            metavar="DIR",
            envvar="PARTIBUS_CLUSTER_TLS",
            help="The certificates of this node, as for `partibus serve`.",
        ),
    ] = Path("partibus-cluster"),
    wait: Wait = 60.0,
    undo: Annotated[bool, typer.Option("--undo", help="Let the node take lanes again.")] = False,
    json: AsJson = False,
) -> None:
    """Have a node hand its lanes over to the others; it continues to serve clients.

    With `--this-node` it needs no number, for scripts that run before the node is stopped.

    Example:

        partibus cluster drain 2
    """
    if (node is None) != this_node:
        raise typer.BadParameter("Give either the number of a node or --this-node.")

    async def ask(service: "ClusterService") -> "Report":
        from partibus.server.nodes.certificates import node_name

        number = await service.number_of(node_name(cluster_tls)) if node is None else node
        return await (service.resume(number) if undo else service.drain(number, wait))

    _ask(cluster, json, ask)


@app.command()
def rebalance(cluster: Url, wait: Wait = 60.0, json: AsJson = False) -> None:
    """Spread the lanes evenly over all live nodes, and wait until that is done.

    Lanes move by themselves when nodes come and go, a few at a time.

    Example:

        partibus cluster rebalance
    """
    _ask(cluster, json, lambda service: service.rebalance(wait))


@app.command()
def evict(
    node: Number,
    cluster: Url,
    force: Annotated[bool, typer.Option("--force", help="Evict it even if it is alive.")] = False,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Remove a node that hangs or is lost; its lanes are free immediately, and its process ends.

    Example:

        partibus cluster evict 2 --yes
    """
    from partibus.cli.failures import reported

    with reported():
        confirm(f"Remove node {node} from the cluster?", yes)
    _ask(cluster, json, lambda service: service.evict(node, force=force))


@app.command()
def accept(
    lane: Annotated[int, typer.Argument(metavar="LANE", help="The number of the lane.", min=0)],
    cluster: Url,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Serve a lane whose database is older than what the cluster has seen of it.

    Use it for a database that was restored from a backup. What was sent since then is lost, and
    what was received since then is delivered again.

    Example:

        partibus cluster accept 3 --yes
    """
    from partibus.cli.failures import reported

    with reported():
        confirm(f"Give up what lane {lane} had beyond its present end?", yes)
    _ask(cluster, json, lambda service: service.accept(lane))


def _ask(url: str, json: bool, question: "Callable[[ClusterService], Awaitable[Report]]") -> None:
    import asyncio

    from partibus.cli.failures import reported

    with reported():
        report = asyncio.run(_answer(url, question))
        if json:
            print_json(report)
        else:
            _print(report)


async def _answer(url: str, question: "Callable[[ClusterService], Awaitable[Report]]") -> "Report":
    from partibus.domain.errors import ConfigError

    try:
        from partibus.server.nodes.operations import cluster_service
    except ModuleNotFoundError as error:
        raise ConfigError(
            "The driver of the cluster's database is missing: pip install 'partibus[postgres]'."
        ) from error
    async with cluster_service(url) as opened:
        return await question(opened)


def _print(report: "Report") -> None:
    rows = [
        (
            row["node"],
            row["name"],
            row["state"],
            row["address"],
            row["version"],
            f"{row['heartbeat_ms'] / 1000:.1f} s",
            len(row["lanes"]),
            " ".join(map(str, row["lanes"])),
        )
        for row in report["nodes"]
    ]
    columns = ("node", "name", "state", "address", "version", "heartbeat", "lanes", "which")
    print_table(columns, rows, text_columns=("name", "state", "address", "version", "which"))
    if report["unowned"]:
        typer.echo(f"lanes without a node: {' '.join(map(str, report['unowned']))}", err=True)
