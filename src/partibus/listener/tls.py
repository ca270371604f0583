"""TLS for a server without certificates: a development CA, made on first need.

Owns the directory with the CA and the server's certificate, and the context that serves
them. It must never make a CA where a usable one lies: clients have been told to trust
that one. `cryptography` is imported only when something must be made, which keeps later
starts quick. Called by the server at start, and by the listener on a ClientHello.
"""

import ipaddress
import json
import logging
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

from partibus.domain.clock import Clock
from partibus.domain.errors import ConfigError

DAY_MS: Final = 24 * 60 * 60 * 1000
# Under the 825 days that some platforms allow a server certificate.
VALIDITY_DAYS: Final = 730
# A start within the last month of validity makes new ones.
RENEWAL_DAYS: Final = 30

log = logging.getLogger(__name__)


def certificate_names(host: str) -> tuple[str, ...]:
    """Every name by which a client may call this server (subject alternative names)."""
    names = ["localhost", "127.0.0.1", "::1", socket.gethostname()]
    if host and not _is_wildcard(host):
        names.append(host)
    return tuple(dict.fromkeys(name for name in names if name))


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


class DevelopmentAuthority:
    """The files of the development CA, and what is served from them."""

    def __init__(self, directory: Path, names: tuple[str, ...], clock: Clock) -> None:
        self._directory = directory
        self._names = names
        self._clock = clock
        self._context: ssl.SSLContext | None = None
        self.ca_path = directory / "ca.pem"
        self.ca_key_path = directory / "ca-key.pem"
        self.server_path = directory / "server.pem"
        self.server_key_path = directory / "server-key.pem"
        self._issued_path = directory / "issued.json"

    def ensure(self) -> None:
        """Make what is missing, expiring, or lacks a name, and load it. Blocks."""
        if not self._is_noted_as_good():
            try:
                self._issue()
            except OSError as error:
                raise ConfigError(
                    f"cannot write TLS files in {self._directory}: {error.strerror}"
                ) from error
        self._context = self._load()

    def context(self) -> ssl.SSLContext:
        """The context that every TLS connection of this server uses."""
        assert self._context is not None, "ensure() comes first"
        return self._context

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.server_path, self.server_key_path)
        except OSError as error:
            raise ConfigError(
                f"{self.server_path} cannot be served: {error}; remove it to have a new one made"
            ) from error
        return context

    def _is_noted_as_good(self) -> bool:
        """Whether the note of the last issue says that all files will do as they are."""
        files = (self.ca_path, self.ca_key_path, self.server_path, self.server_key_path)
        try:
            issued = json.loads(self._issued_path.read_text())
            until_ms, names = int(issued["until_ms"]), set(issued["names"])
        except (FileNotFoundError, NotADirectoryError):
            return False
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("%s cannot be read and is made again: %s", self._issued_path, error)
            return False
        is_long_valid = until_ms > self._renewal_ms()
        return is_long_valid and set(self._names) <= names and all(f.exists() for f in files)

    def _renewal_ms(self) -> int:
        return self._clock.now_ms() + RENEWAL_DAYS * DAY_MS

    def _issue(self) -> None:
        """Write a new server certificate, under the CA that is here if it will do."""
        from partibus.listener import certificates

        now_ms = self._clock.now_ms()
        until_ms = now_ms + VALIDITY_DAYS * DAY_MS
        self._directory.mkdir(parents=True, exist_ok=True)
        authority = None
        if self.ca_path.exists() and self.ca_key_path.exists():
            authority = certificates.load_authority(self.ca_path, self.ca_key_path)
        if authority is None or authority.until_ms <= self._renewal_ms():
            authority = certificates.make_authority(now_ms, until_ms)
            _write_secret(self.ca_key_path, authority.key_pem())
            _write(self.ca_path, authority.certificate_pem())
        until_ms = min(until_ms, authority.until_ms)
        certificate, key = authority.issue(self._names, now_ms, until_ms)
        _write_secret(self.server_key_path, key)
        _write(self.server_path, certificate)
        note = {"until_ms": until_ms, "names": list(self._names)}
        _write(self._issued_path, json.dumps(note, indent=2).encode())


def _write_secret(path: Path, content: bytes) -> None:
    _write(path, content, lambda partial: partial.touch(mode=0o600, exist_ok=False))


def _write(path: Path, content: bytes, prepare: Callable[[Path], None] | None = None) -> None:
    """Write beside and rename, so that no reader meets half a file."""
    partial = path.with_name(path.name + ".partial")
    partial.unlink(missing_ok=True)
    if prepare is not None:
        prepare(partial)
    partial.write_bytes(content)
    partial.replace(path)
