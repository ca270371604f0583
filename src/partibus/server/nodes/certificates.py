"""The certificates by which the nodes of a cluster authenticate each other.

Owns the files of the cluster's authority and of a node: an authority of the cluster alone, which
signs nothing else, and one certificate for each node, with its name. The key of the authority stays
where the cluster was made; a node needs only its own. Called by `partibus cluster`.
"""

import re
from pathlib import Path
from typing import Final

from partibus.cluster.peer_certificates import (
    CA_FILE,
    CA_KEY_FILE,
    CERTIFICATE_FILE,
    KEY_FILE,
)
from partibus.domain.clock import Clock
from partibus.domain.errors import ArgumentError, ConfigError
from partibus.files.private import make_private_directory, write_private
from partibus.listener.certificates import (
    Authority,
    bundle,
    load_authority,
    make_authority,
    read_facts,
)
from partibus.listener.served_certificate import DAY_MS
from partibus.listener.tls import CA_VALIDITY_DAYS, VALIDITY_DAYS

AUTHORITY_NAME: Final = "Partibus cluster CA"
_NODE_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)


def make_cluster(directory: Path, name: str, clock: Clock) -> None:
    """A new authority, and the certificate of the first node."""
    if (directory / CA_FILE).exists():
        raise ConfigError(
            f"{directory} already holds the authority of a cluster, which its nodes trust. Make "
            "the certificate of a further node with `partibus cluster join`, or use another one."
        )
    check_name(name)
    now_ms = clock.now_ms()
    authority = make_authority(now_ms, now_ms + CA_VALIDITY_DAYS * DAY_MS, AUTHORITY_NAME)
    make_private_directory(directory)
    write_private(directory / CA_KEY_FILE, authority.key_pem())
    _write_node(directory, name, authority, now_ms)


def make_node(authority_directory: Path, directory: Path, name: str, clock: Clock) -> None:
    """The certificate of another node, or a new one of the same node."""
    check_name(name)
    authority, trusted = cluster_authority(authority_directory)
    _write_node(directory, name, authority, clock.now_ms(), trusted)


def cluster_authority(directory: Path) -> tuple[Authority, bytes]:
    """The authority in a directory, and the authorities that nodes trust; ConfigError when
    certificates cannot be made there."""
    ca, key = directory / CA_FILE, directory / CA_KEY_FILE
    if not has_authority(directory):
        raise ConfigError(
            f"{directory} does not hold the authority of a cluster ({CA_FILE} and "
            f"{CA_KEY_FILE}). Run this where `partibus cluster init` was run."
        )
    return load_authority(ca, key), ca.read_bytes()


def has_authority(directory: Path) -> bool:
    """Whether certificates can be made here."""
    return (directory / CA_FILE).exists() and (directory / CA_KEY_FILE).exists()


def node_name(directory: Path) -> str:
    """The name of the node whose certificate is in the directory."""
    try:
        names = read_facts(directory / CERTIFICATE_FILE).names
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{directory} does not hold the certificate of a node ({error}). Make it with "
            "`partibus cluster join`."
        ) from error
    if not names:
        raise ConfigError(
            f"{directory / CERTIFICATE_FILE} does not name a node; use `partibus cluster join`."
        )
    return names[0]


def _write_node(
    directory: Path, name: str, authority: Authority, now_ms: int, trusted: bytes = b""
) -> None:
    until_ms = node_until_ms(authority, now_ms)
    certificate, key = authority.issue((name,), now_ms, until_ms, is_peer=True)
    write_signed(directory, certificate, key, authority.certificate_pem() + trusted, now_ms)


def node_until_ms(authority: Authority, now_ms: int) -> int:
    """When a certificate that is made now expires: never after that of its authority."""
    return min(now_ms + VALIDITY_DAYS * DAY_MS, authority.until_ms)


def write_signed(
    directory: Path, certificate: bytes, key: bytes, authorities: bytes, now_ms: int
) -> None:
    """Write a node's files. It keeps trusting the authorities that it has: while one is replaced,
    other nodes still have certificates of the old one."""
    make_private_directory(directory)
    before = directory / CA_FILE
    authorities += before.read_bytes() if before.exists() else b""
    write_private(directory / KEY_FILE, key)
    write_private(directory / CERTIFICATE_FILE, certificate)
    write_private(before, bundle(authorities, now_ms))


def check_name(name: str) -> None:
    """Raises ArgumentError when it is not a valid node name."""
    if not _NODE_NAME.fullmatch(name):
        raise ArgumentError(
            f"'{name}' is not a valid node name: use up to 63 lower-case letters, digits and "
            "hyphens, with a letter or digit at both ends."
        )
