"""Emulator mode: what tools that start the vendor's emulator image expect (EMU-6, EMU-7).

Owns where such tools put the configuration, the settings that differ from a server's own defaults,
and the line they wait for. Explicit settings take precedence over those here. The variables
ACCEPT_EULA, SQL_SERVER, MSSQL_SA_PASSWORD and SQL_WAIT_INTERVAL, which the tools also set, have no
meaning for this server and are ignored.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from partibus.listener.own_address import EVERY_INTERFACE

CONFIG_FILE: Final = Path("/ServiceBus_Emulator/ConfigFiles/Config.json")
HTTP_PORT_VARIABLE: Final = "EMULATOR_HTTP_PORT"
UP_LINE: Final = "Emulator Service is Successfully Up!"
"""The exact text that tools look for on stdout."""
# Tools map ports 5672 and 5300 of a container, so loopback would be unreachable; and for some
# clients localhost is an IPv6 address. Every port accepts TLS; another port could only be in the
# way.
_DEFAULTS: Final = {"host": EVERY_INTERFACE, "tls_port": "none"}


def default_settings(environment: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Value and origin of each setting that has another default in this mode."""
    settings = {key: (value, "--emulator") for key, value in _DEFAULTS.items()}
    if environment.get(HTTP_PORT_VARIABLE):
        settings["http_port"] = (environment[HTTP_PORT_VARIABLE], HTTP_PORT_VARIABLE)
    return settings


def config_file() -> Path | None:
    """The configuration file that a tool has put in the expected place, if any."""
    return CONFIG_FILE if CONFIG_FILE.exists() else None


def greeting(ready_line: str, is_emulator: bool) -> str:
    """What is printed when the server is ready."""
    return f"{ready_line}\n{UP_LINE}" if is_emulator else ready_line
