"""`partibus cluster ...`: the nodes of a cluster and the certificates they know each other by.

Owns the options and the words. What is made and where it lies is `server.nodes.certificates`'s.
"""

from pathlib import Path
from typing import Annotated

import typer

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
        help="The directory that `partibus cluster init` has made.",
        show_default=False,
    ),
]

app = typer.Typer(help="Create a cluster and let nodes join it.", no_args_is_help=True)


@app.callback()
def cluster() -> None:
    """Create a cluster and let nodes join it."""


@app.command()
def init(directory: Directory, name: Name = "node-1") -> None:
    """Make the certificate authority of a new cluster, and the certificate of its first node.

    Keep the directory private: who has the key of the authority can add nodes.

    Example:

        partibus cluster init /etc/partibus/cluster
    """
    from partibus.domain.clock import SystemClock
    from partibus.domain.errors import BusError
    from partibus.server.failure import report
    from partibus.server.nodes.certificates import make_cluster

    try:
        make_cluster(directory, name, SystemClock())
    except (BusError, OSError) as error:
        raise typer.Exit(report(error)) from error
    typer.echo(f"{directory}: the authority of a new cluster, and the certificate of {name}")


@app.command()
def join(directory: Directory, authority: Authority, name: Name) -> None:
    """Make the certificate of a further node; copy the directory to its machine.

    Run it where the cluster was made. With the name of a node that exists its certificate is
    renewed.

    Example:

        partibus cluster join ./node-2 --authority /etc/partibus/cluster --name node-2
    """
    from partibus.domain.clock import SystemClock
    from partibus.domain.errors import BusError
    from partibus.server.failure import report
    from partibus.server.nodes.certificates import make_node

    try:
        make_node(authority, directory, name, SystemClock())
    except (BusError, OSError) as error:
        raise typer.Exit(report(error)) from error
    typer.echo(f"{directory}: the certificate of {name}; copy the directory to its machine")
