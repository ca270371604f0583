"""TLS for a server without certificates: a development CA, made on first need.

Owns the directory with the CA and the server's certificate. It must never make a CA where there is
a usable one: clients have been configured to trust it. `cryptography` is imported only when
something must be made, which keeps later starts quick. Called by the server at start, by the
listener on a ClientHello (through `served_certificate`), and by `partibus cert`.
"""

import json
import logging
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from partibus.domain.clock import Clock
from partibus.domain.errors import ConfigError
from partibus.files.private import close_to_others, make_private_directory, write_private
from partibus.listener.own_address import is_every_address, own_address
from partibus.listener.served_certificate import (
    DAY_MS,
    WARNING_DAYS,
    ServedCertificate,
    until_ms_of,
)

# Under the 825 days that some platforms allow a server certificate.
VALIDITY_DAYS: Final = 730
# Ten years: every new CA must be distributed to every client again.
CA_VALIDITY_DAYS: Final = 3_650
# A start within the last month of validity makes new ones.
RENEWAL_DAYS: Final = WARNING_DAYS

log = logging.getLogger(__name__)


def certificate_names(host: str) -> tuple[str, ...]:
    """Every name by which a client may call this server (subject alternative names)."""
    names = ["localhost", "127.0.0.1", "::1", socket.gethostname()]
    if host:
        names.append(own_address(host) if is_every_address(host) else host)
    return tuple(dict.fromkeys(name for name in names if name))


class DevelopmentAuthority:
    """The files of the development CA, and what is served from them."""

    def __init__(self, directory: Path, names: tuple[str, ...], clock: Clock) -> None:
        self._directory = directory
        self._names = names
        self._clock = clock
        self.ca_path = directory / "ca.pem"
        self.ca_key_path = directory / "ca-key.pem"
        self.server_path = directory / "server.pem"
        self.server_key_path = directory / "server-key.pem"
        self._issued_path = directory / "issued.json"
        self._served = ServedCertificate(
            self.server_path,
            self.server_key_path,
            clock,
            until_ms=self._until_ms,
            remedy="remove it to create a new one",
        )

    def ensure(self) -> None:
        """Make what is missing, expiring, or lacks a name, and load it. Blocks."""
        if not self._is_noted_as_good():
            self.issue((*self._names, *self.noted_names()))
        self._served.ensure()

    def context(self) -> ssl.SSLContext:
        """The context that every TLS connection of this server uses."""
        return self._served.context()

    def server_pair(self) -> tuple[bytes, bytes]:
        """The server's certificate and its key, for TLS servers that do not use this context."""
        return self._served.server_pair()

    def issue(self, names: Sequence[str], *, new_authority: bool = False) -> None:
        """Write a new server certificate, signed by the existing CA if it is usable.

        A server that uses these files serves the new one from its next connection on.
        """
        try:
            self._issue(tuple(dict.fromkeys(names)), new_authority)
        except OSError as error:
            raise ConfigError(
                f"cannot write TLS files in {self._directory}: {error.strerror}"
            ) from error

    def noted_names(self) -> tuple[str, ...]:
        """The names in the existing certificate; empty when it cannot be read."""
        try:
            return self._note()[1]
        except (OSError, ValueError, KeyError, TypeError):
            return ()

    def _until_ms(self, path: Path) -> int:
        """From the note, which is fast; while that is being written, from the file."""
        try:
            return self._note()[0]
        except (OSError, ValueError, KeyError, TypeError):
            return until_ms_of(path)

    def _note(self) -> tuple[int, tuple[str, ...]]:
        issued = json.loads(self._issued_path.read_text())
        return int(issued["until_ms"]), tuple(map(str, issued["names"]))

    def _is_noted_as_good(self) -> bool:
        """Whether, according to the note of the last issue, all files are still usable."""
        files = (self.ca_path, self.ca_key_path, self.server_path, self.server_key_path)
        try:
            until_ms, names = self._note()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("%s cannot be read and is created again: %s", self._issued_path, error)
            return False
        is_long_valid = until_ms > self._renewal_ms()
        return is_long_valid and set(self._names) <= set(names) and all(f.exists() for f in files)

    def _renewal_ms(self) -> int:
        return self._clock.now_ms() + RENEWAL_DAYS * DAY_MS

    def _issue(self, names: tuple[str, ...], new_authority: bool) -> None:
        from partibus.listener import certificates

        now_ms = self._clock.now_ms()
        make_private_directory(self._directory)
        close_to_others(self._directory)
        authority = None
        if not new_authority and self.ca_path.exists() and self.ca_key_path.exists():
            authority = certificates.load_authority(self.ca_path, self.ca_key_path)
        if authority is None or authority.until_ms <= self._renewal_ms():
            authority = certificates.make_authority(now_ms, now_ms + CA_VALIDITY_DAYS * DAY_MS)
            write_private(self.ca_key_path, authority.key_pem())
            write_private(self.ca_path, authority.certificate_pem())
        until_ms = min(now_ms + VALIDITY_DAYS * DAY_MS, authority.until_ms)
        certificate, key = authority.issue(names, now_ms, until_ms)
        # The note never refers to files other than those that are there.
        self._issued_path.unlink(missing_ok=True)
        write_private(self.server_key_path, key)
        write_private(self.server_path, certificate)
        note = {"until_ms": until_ms, "names": list(names)}
        write_private(self._issued_path, json.dumps(note, indent=2).encode())
