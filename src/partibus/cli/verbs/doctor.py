"""`partibus doctor`: why can I not connect?

Owns the report. The checks are in `cli.diagnosis`. The exit code is that of the first check that
failed; a warning is not a failure.
"""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from partibus.cli.asking import on_server, print_json
from partibus.cli.completion import complete_entity
from partibus.cli.options import AsJson

if TYPE_CHECKING:
    from partibus.cli.diagnosis import Finding
    from partibus.cli.place import Place

_MARKS: Final = {"ok": ("ok  ", "green"), "warn": ("warn", "yellow"), "fail": ("FAIL", "red")}


@on_server
async def doctor(
    place: "Place",
    entity: Annotated[
        str | None,
        typer.Argument(
            help="Also check whether this entity exists and what the policy may do there.",
            autocompletion=complete_entity,
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Find out why a client cannot connect, and what to do about it.

    Checks every step of a client's connection: connection string, name, port, TLS, AMQP, token,
    entity and rights; then HTTP, the management API and the clocks. Nothing is sent or received.

    Examples:

        partibus doctor
        partibus doctor orders --connection-string "$CONNECTION_STRING"
    """
    from partibus.cli.diagnosis import diagnose

    findings: list[Finding] = []
    async for finding in diagnose(place, entity):
        findings.append(finding)
        if not json:
            _print(finding)
    failed = [finding for finding in findings if finding.status == "fail"]
    if json:
        shown = [
            {"check": f.check, "status": f.status, "text": f.text, "advice": f.advice or None}
            for f in findings
        ]
        print_json({"healthy": not failed, "checks": shown})
    elif not failed:
        typer.echo("A client with this connection string can connect.")
    if failed:
        raise typer.Exit(failed[0].exit_code)


def _print(finding: "Finding") -> None:
    mark, colour = _MARKS[finding.status]
    typer.echo(f"{typer.style(mark, fg=colour)}  {finding.check:<18} {finding.text}")
    if finding.advice:
        typer.echo(f"      {'':<18} -> {finding.advice}")
