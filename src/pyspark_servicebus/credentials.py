"""Where the connection string of a read or write comes from.

Owns the reference (`env:NAME`, `file:PATH`), which each process reads itself, or the string itself.
Neither is ever shown: a secret must never be in a `repr` or an error.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path

from partibus.client.connection_string import (
    ConnectionString,
    ConnectionStringError,
    parse_connection_string,
)
from pyspark_servicebus.given_options import GivenOptions, OptionError


@dataclass(frozen=True, slots=True)
class Credentials:
    """Where the connection string comes from; the string itself only when it was given directly."""

    reference: str | None
    literal: str | None = field(default=None, repr=False)
    ca_file: str | None = None

    def place(self) -> ConnectionString:
        """The connection string, read now."""
        text = self.literal
        if text is None:
            text = _follow(self.reference or "")
        try:
            return parse_connection_string(text)
        except ConnectionStringError as error:
            raise OptionError("connectionString", str(error)) from None

    def ca(self) -> bytes | None:
        """The certificate of the authority to trust; None for the machine's own."""
        return Path(self.ca_file).read_bytes() if self.ca_file else None


def given_credentials(given: GivenOptions) -> Credentials:
    literal, reference = given.text("connectionString"), given.text("connectionStringRef")
    given.complain(
        bool(literal) == bool(reference),
        "connectionString, connectionStringRef: give exactly one of them; a reference is "
        "env:NAME or file:PATH and is followed wherever the code runs.",
    )
    given.complain(
        reference is not None and not reference.startswith(("env:", "file:")),
        "connectionStringRef: it begins with neither env: nor file:; a connection string itself "
        "is given as connectionString.",
    )
    return Credentials(reference, literal, given.text("caFile"))


def _follow(reference: str) -> str:
    kind, _, name = reference.partition(":")
    if kind == "env":
        text = os.environ.get(name)
        if text is None:
            raise OptionError("connectionStringRef", f"the variable {name} is not set here.")
        return text
    try:
        return Path(name).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise OptionError("connectionStringRef", f"{name} cannot be read: {error}.") from None
