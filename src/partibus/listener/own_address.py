"""The address of this machine for others.

Owns one answer: the address for clients of a server that listens on every address. Nothing is sent:
the system is asked which of its addresses it would send from. Called when a server starts, for the
READY line and for the names of its certificate.
"""

import contextlib
import ipaddress
import socket
from typing import Final

EVERY_INTERFACE: Final = "*"
"""A host to listen on: every address of the machine, of IPv4 and of IPv6."""
# Addresses kept for documentation (RFC 5737, RFC 3849): no host has them, so the route to them is
# the default route. Connecting a datagram socket sends nothing.
_ELSEWHERE: Final = {socket.AF_INET: ("192.0.2.1", 9), socket.AF_INET6: ("2001:db8::1", 9)}


def is_every_address(host: str) -> bool:
    """Whether a server on `host` listens on every address of the machine, of at least one
    family."""
    if host == EVERY_INTERFACE:
        return True
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def own_address(host: str) -> str:
    """The address of this machine on the default route, else its name.

    A name is returned only if it resolves to an address that others can reach; with neither, the
    machine has no network and the result is `localhost`.
    """
    families = [socket.AF_INET, socket.AF_INET6]
    if ":" in host:
        families.reverse()
    for family in families:
        address = _default_route_address(family)
        if address is not None:
            return address
    name = socket.gethostname()
    return name if _is_reachable(name) else "localhost"


def _default_route_address(family: socket.AddressFamily) -> str | None:
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(_ELSEWHERE[family])
        address = ipaddress.ip_address(probe.getsockname()[0].partition("%")[0])
        if not (address.is_loopback or address.is_unspecified or address.is_link_local):
            return str(address)
    return None


def _is_reachable(name: str) -> bool:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    addresses = [ipaddress.ip_address(str(row[4][0]).partition("%")[0]) for row in found]
    return any(not (one.is_loopback or one.is_link_local) for one in addresses)
