"""The certificate that is served, reloaded when its files change.

Owns the TLS context and when the files are checked: when a client begins a handshake, at most once
a second. A pair that does not match (half of it replaced so far) is reported and the last valid one
stays in use; open connections are never touched. No timer and no signal is needed, so every worker
follows by itself. Used by the listener through `context`; made by the server for the user's files
and by `tls` for its own.
"""

import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

from partibus.domain.clock import Clock
from partibus.domain.errors import ConfigError

LOOK_MS: Final = 1_000
"""The minimum time between two checks; a certificate is replaced every few weeks."""
DAY_MS: Final = 24 * 60 * 60 * 1000
WARNING_DAYS: Final = 30
"""Days before its expiry from which a certificate causes a warning, once a day."""

Stamp = tuple[tuple[int, int, int], ...]

log = logging.getLogger(__name__)


class ServedCertificate:
    """A certificate with its chain, and its key."""

    def __init__(
        self,
        certificate_path: Path,
        key_path: Path,
        clock: Clock,
        *,
        until_ms: Callable[[Path], int] | None = None,
        remedy: str = "check --tls-cert and --tls-key",
    ) -> None:
        self._certificate_path = certificate_path
        self._key_path = key_path
        self._clock = clock
        self._read_until_ms = until_ms if until_ms is not None else until_ms_of
        self._remedy = remedy
        self._context: ssl.SSLContext | None = None
        self._stamp: Stamp | None = None
        self._looked_ms = 0
        self._until_ms = 0
        self._warned_ms: int | None = None

    @property
    def ca_path(self) -> Path:
        """What a client can trust: the chain itself."""
        return self._certificate_path

    def ensure(self) -> None:
        """Load the files; ConfigError says what is wrong with them. Blocks."""
        self._looked_ms = self._clock.monotonic_ms()
        self._stamp = self._look()
        self._load()
        self._warn_if_ending()

    def context(self) -> ssl.SSLContext:
        """The context for a new handshake."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._looked_ms >= LOOK_MS:
            self._looked_ms = now_ms
            self._follow()
        assert self._context is not None, "ensure() comes first"
        return self._context

    def server_pair(self) -> tuple[bytes, bytes]:
        """The certificate and its key, for TLS servers that do not use this context."""
        return self._certificate_path.read_bytes(), self._key_path.read_bytes()

    def _follow(self) -> None:
        stamp = self._look()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._load()
                self._warned_ms = None
                log.info("%s has changed: new connections use it", self._certificate_path)
            except ConfigError as error:
                log.warning("the previous certificate stays in use: %s", error.text)
        self._warn_if_ending()

    def _look(self) -> Stamp | None:
        """Identifies a version of the files; None when one is missing."""
        try:
            found = [path.stat() for path in (self._certificate_path, self._key_path)]
        except OSError:
            return None
        return tuple((entry.st_ino, entry.st_mtime_ns, entry.st_size) for entry in found)

    def _load(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            # Without an answer to give, OpenSSL would ask for the passphrase on the terminal.
            context.load_cert_chain(self._certificate_path, self._key_path, _no_passphrase)
            self._until_ms = self._read_until_ms(self._certificate_path)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"{self._certificate_path} cannot be served with {self._key_path}:"
                f" {_reason(error)}; {self._remedy}"
            ) from error
        self._context = context

    def _warn_if_ending(self) -> None:
        now_ms = self._clock.now_ms()
        days_left = (self._until_ms - now_ms) // DAY_MS
        if days_left >= WARNING_DAYS:
            return
        ran_ms = self._clock.monotonic_ms()
        if self._warned_ms is None or ran_ms - self._warned_ms >= DAY_MS:
            self._warned_ms = ran_ms
            what = "has ended" if days_left < 0 else f"ends in {days_left} days"
            log.warning("%s %s: replace it, and its key", self._certificate_path, what)


def _no_passphrase() -> str:
    raise ValueError("the key is protected by a passphrase; store it without one")


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return {
            "KEY_VALUES_MISMATCH": "the key belongs to another certificate",
            "NO_START_LINE": "one of them contains no PEM data",
            "PEM_LIB": "one of them is not valid PEM",
        }.get(error.reason or "", str(error))
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error)


def until_ms_of(path: Path) -> int:
    """When the first certificate of a file expires."""
    from partibus.listener.certificates import read_facts

    return read_facts(path).until_ms
