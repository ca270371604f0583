"""The certificates that a node presents to the others, reloaded when their files change.

Owns the TLS contexts for both ends of a connection between nodes and when the files are checked:
when a handshake begins, at most once a second, as for the certificate that clients see. A set that
does not match (half of it replaced so far) is reported, and the last valid one stays in use; open
connections are never touched. The file of authorities may contain several, so that one can be
replaced while nodes still have certificates of the other. Makes no certificates.
"""

import logging
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from partibus.domain.errors import ConfigError

CA_FILE: Final = "ca.pem"
CA_KEY_FILE: Final = "ca-key.pem"
CERTIFICATE_FILE: Final = "node.pem"
KEY_FILE: Final = "node-key.pem"
LOOK_S: Final = 1.0
"""The minimum time between two checks of the files."""

Stamp = tuple[tuple[int, int, int], ...]

log = logging.getLogger(__name__)


def peer_context(directory: Path, purpose: ssl.Purpose) -> ssl.SSLContext:
    """A context that presents the certificate in the directory, and accepts only those of its
    CA."""
    context = ssl.SSLContext(
        ssl.PROTOCOL_TLS_SERVER if purpose is ssl.Purpose.CLIENT_AUTH else ssl.PROTOCOL_TLS_CLIENT
    )
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # A node is identified by its number and the name in its certificate, not by its address.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_verify_locations(directory / CA_FILE)
        context.load_cert_chain(directory / CERTIFICATE_FILE, directory / KEY_FILE)
    except OSError as error:
        raise ConfigError(
            f"{directory} does not hold the certificates of a node ({error}). Make them with "
            "`partibus cluster init` on the first node and `partibus cluster join` for the others."
        ) from error
    return context


class PeerCertificates:
    """The files of one node, as contexts for the handshakes that begin now."""

    def __init__(self, directory: Path, now_s: Callable[[], float] = time.monotonic) -> None:
        self._directory = directory
        self._now_s = now_s
        self._looked_s = now_s()
        self._stamp = self._look()
        self._load()

    def to_accept(self) -> ssl.SSLContext:
        """For a connection that another node makes."""
        self._follow()
        return self._accepting

    def to_connect(self) -> ssl.SSLContext:
        """For a connection to another node."""
        self._follow()
        return self._connecting

    def _follow(self) -> None:
        now_s = self._now_s()
        if now_s - self._looked_s < LOOK_S:
            return
        self._looked_s = now_s
        stamp = self._look()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._load()
            log.info("%s has changed: new connections between nodes use it", self._directory)
        except ConfigError as error:
            log.warning("the previous certificates of this node stay in use: %s", error.text)

    def _load(self) -> None:
        accepting = peer_context(self._directory, ssl.Purpose.CLIENT_AUTH)
        self._connecting = peer_context(self._directory, ssl.Purpose.SERVER_AUTH)
        self._accepting = accepting

    def _look(self) -> Stamp | None:
        """Identifies a version of the files; None when one is missing."""
        names = (CA_FILE, CERTIFICATE_FILE, KEY_FILE)
        try:
            found = [(self._directory / name).stat() for name in names]
        except OSError:
            return None
        return tuple((entry.st_ino, entry.st_mtime_ns, entry.st_size) for entry in found)
