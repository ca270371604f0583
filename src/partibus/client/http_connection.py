"""A connection to the HTTP side of a bus, plain or over TLS.

Owns how a connection is made from an address, a CA file and a time limit, and how a path of the
administration is written; nothing is sent yet. Used by the command line, the management client, the
test kit and the Spark connector.
"""

import http.client
import ssl
from collections.abc import Mapping
from urllib.parse import quote, urlencode, urlsplit

from partibus.domain.address import ADMINISTRATION


def http_connection(
    url: str, timeout_s: float, ca_file: str | None = None
) -> http.client.HTTPConnection:
    """The CA file is trusted in addition to the certificate authorities of the system."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    if parts.scheme == "http":
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    return http.client.HTTPSConnection(
        parts.hostname, parts.port, timeout=timeout_s, context=context
    )


def administration_path(path: str, query: Mapping[str, str] | None = None) -> str:
    """What a request for a path of the administration names."""
    return quote(ADMINISTRATION + path, safe="/$") + (f"?{urlencode(query)}" if query else "")
