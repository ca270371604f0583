"""SAS tokens made by hand, independent of the product's own signing (SAS-5).

Tests sign with this, so that a mistake in the product cannot hide behind itself.
"""

import base64
import hashlib
import hmac
import time
import urllib.parse

from support.namespace import ROOT_KEY, ROOT_POLICY


def sas_token(
    resource: str,
    *,
    policy: str = ROOT_POLICY,
    key: str = ROOT_KEY,
    lifetime_seconds: int = 3600,
) -> str:
    """A token for the resource; a negative lifetime makes one that has expired."""
    expires = int(time.time()) + lifetime_seconds
    encoded = urllib.parse.quote_plus(resource)
    digest = hmac.new(key.encode(), f"{encoded}\n{expires}".encode(), hashlib.sha256).digest()
    signature = urllib.parse.quote_plus(base64.b64encode(digest))
    return f"SharedAccessSignature sr={encoded}&sig={signature}&se={expires}&skn={policy}"


def with_key(connection_string: str, policy: str, key: str) -> str:
    """The same endpoint under another policy and key."""
    endpoint = connection_string.split(";", 1)[0]
    access = f"SharedAccessKeyName={policy};SharedAccessKey={key}"
    return f"{endpoint};{access};UseDevelopmentEmulator=true;"


def with_token(connection_string: str, token: str) -> str:
    """The same endpoint with a ready-made token."""
    endpoint = connection_string.split(";", 1)[0]
    return f"{endpoint};SharedAccessSignature={token};UseDevelopmentEmulator=true;"
