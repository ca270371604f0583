"""`partibus cert ...`: the certificate of a server, and how clients can trust it.

Owns the texts of the answers. `listener.tls` makes and stores the files; a server that uses the
same files serves the new certificate from its next connection on.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partibus.cli.asking import print_json
from partibus.cli.options import AsJson
from partibus.domain.moments import calendar_moment

if TYPE_CHECKING:
    from partibus.listener.tls import DevelopmentAuthority
    from partibus.server.config import ServeSettings

Data = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="The server's data directory. (default ./partibus-data)"),
]
Config = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The server's configuration file.")
]
Name = Annotated[
    list[str] | None,
    typer.Option(
        "--name",
        metavar="HOST",
        help="A name or address that clients use for the server; repeat for each."
        " localhost, its addresses and the name of this machine are always included.",
    ),
]

app = typer.Typer(help="Inspect and create TLS certificates.", no_args_is_help=True)


@app.command()
def show(data: Data = None, config: Config = None, json: AsJson = False) -> None:
    """Show the certificate that `partibus serve` serves, and how to have clients trust it."""
    settings = _settings(data, config)
    if settings.tls_cert is not None and settings.tls_key is not None:
        _show(settings.tls_cert, settings.tls_key, settings.tls_cert, json)
    else:
        authority = _authority(settings)
        _show(authority.server_path, authority.server_key_path, authority.ca_path, json)


@app.command()
def create(
    name: Name = None, data: Data = None, config: Config = None, json: AsJson = False
) -> None:
    """Create a server certificate for these names, and the development CA if there is none yet.

    An existing certificate is replaced; the CA stays, so clients that trust it need no change.
    """
    from partibus.listener.tls import certificate_names

    settings = _settings(data, config)
    authority = _authority(settings)
    _issue(authority, (*certificate_names(settings.host), *(name or ())))
    _show(authority.server_path, authority.server_key_path, authority.ca_path, json)


@app.command()
def renew(
    data: Data = None,
    config: Config = None,
    ca: Annotated[
        bool,
        typer.Option(
            "--ca", help="Also create a new CA; every client must then be configured to trust it."
        ),
    ] = False,
    json: AsJson = False,
) -> None:
    """Renew the server certificate with the names it has, valid for two years from now."""
    from partibus.listener.tls import certificate_names

    settings = _settings(data, config)
    authority = _authority(settings)
    names = authority.noted_names() or certificate_names(settings.host)
    _issue(authority, names, new_authority=ca)
    _show(authority.server_path, authority.server_key_path, authority.ca_path, json)


def _settings(data: Path | None, config: Path | None) -> "ServeSettings":
    import os

    from partibus.cli.failures import reported_offline
    from partibus.server.config import resolve_configuration

    with reported_offline():
        return resolve_configuration({"data": data, "config": config}, os.environ).settings


def _authority(settings: "ServeSettings") -> "DevelopmentAuthority":
    from partibus.domain.clock import SystemClock
    from partibus.listener.tls import DevelopmentAuthority, certificate_names

    names = certificate_names(settings.host)
    return DevelopmentAuthority(settings.data / "tls", names, SystemClock())


def _issue(
    authority: "DevelopmentAuthority", names: tuple[str, ...], new_authority: bool = False
) -> None:
    from partibus.cli.failures import reported_offline

    with reported_offline():
        authority.issue(names, new_authority=new_authority)


def _show(certificate: Path, key: Path, ca: Path, json: bool) -> None:
    from partibus.listener.served_certificate import WARNING_DAYS

    answer = _facts(certificate, key, ca)
    if json:
        print_json(answer)
    else:
        _print(answer)
    if answer["days_left"] < WARNING_DAYS:
        left = answer["days_left"]
        what = "has ended" if left < 0 else f"ends in {left} days"
        typer.echo(f"partibus: the certificate {what}; replace it", err=True)


def _facts(certificate: Path, key: Path, ca: Path) -> dict[str, Any]:

    from partibus.domain.clock import SystemClock
    from partibus.domain.errors import ConfigError
    from partibus.listener.certificates import read_facts
    from partibus.listener.served_certificate import DAY_MS
    from partibus.server.failure import report

    try:
        facts = read_facts(certificate)
    except FileNotFoundError as error:
        none = ConfigError(
            f"there is no certificate at {certificate} yet; `partibus serve` and `partibus "
            "cert create` create one"
        )
        raise typer.Exit(report(none)) from error
    except (OSError, ValueError) as error:
        raise typer.Exit(report(ConfigError(f"{certificate} cannot be read: {error}"))) from error
    until = calendar_moment(facts.until_ms)
    return {
        "certificate": str(certificate.absolute()),
        "key": str(key.absolute()),
        "ca": str(ca.absolute()),
        "names": list(facts.names),
        "issuer": facts.issuer,
        "valid_until": until.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "days_left": (facts.until_ms - SystemClock().now_ms()) // DAY_MS,
        "fingerprint": facts.fingerprint,
    }


def _print(answer: dict[str, Any]) -> None:
    ca = answer["ca"]
    valid = f"until {answer['valid_until']} ({answer['days_left']} days)"
    rows = [
        ("certificate", answer["certificate"]),
        ("key", answer["key"]),
        ("CA", ca),
        ("names", ", ".join(answer["names"])),
        ("issuer", answer["issuer"]),
        ("valid", valid),
        ("SHA-256", answer["fingerprint"]),
    ]
    trust = [
        ("Python SDK", f'connection_verify="{ca}"'),
        ("Node", f"NODE_EXTRA_CA_CERTS={ca}"),
        (".NET, Go, curl", f"SSL_CERT_FILE={ca}"),
        ("requests", f"REQUESTS_CA_BUNDLE={ca}"),
        (
            "Java",
            f"keytool -importcert -noprompt -alias partibus -file {ca}"
            " -keystore partibus.p12 -storepass changeit",
        ),
        (
            "",
            "JAVA_TOOL_OPTIONS='-Djavax.net.ssl.trustStore=partibus.p12"
            " -Djavax.net.ssl.trustStorePassword=changeit'",
        ),
    ]
    for label, text in rows:
        typer.echo(f"{label:<14}{text}")
    typer.echo("\nHow to make clients trust it:")
    for label, text in trust:
        typer.echo(f"  {label:<16}{text}")
