"""Tokens: making a SAS token and putting it to the bus's `$cbs` node.

Owns the token's text and the one request with its answer. Must never keep a key. For HTTP, and for
connections that did not authenticate with SASL PLAIN.
"""

import base64
import hashlib
import hmac
import time
import urllib.parse
from typing import Final

from partibus.amqp.errors import AmqpError
from partibus.client.connection_string import ConnectionString
from partibus.client.errors import RemoteError
from partibus.client.requests import RequestLinks
from partibus.domain import conditions

CBS: Final = "$cbs"
_SAS_TYPE: Final = "servicebus.windows.net:sastoken"


def sas_token(audience: str, policy: str, key: str, expires_at: int) -> str:
    """A token for an audience (`sb://host/entity`), valid until `expires_at` (Unix seconds)."""
    resource = urllib.parse.quote_plus(audience)
    signed = f"{resource}\n{expires_at}".encode()
    digest = hmac.new(key.encode(), signed, hashlib.sha256).digest()
    signature = urllib.parse.quote_plus(base64.b64encode(digest))
    name = urllib.parse.quote_plus(policy)
    return f"SharedAccessSignature sr={resource}&sig={signature}&se={expires_at}&skn={name}"


def token_for(place: ConnectionString, audience: str, lifetime_s: int) -> str:
    """The ready-made token of a connection string, or one that its key signs for an audience."""
    if place.token is not None:
        return place.token
    return sas_token(audience, place.policy, place.key, int(time.time()) + lifetime_s)


async def put_token(links: RequestLinks, audience: str, token: str) -> None:
    """Authorize this connection for an audience; raises RemoteError when refused."""
    application = {"operation": "put-token", "type": _SAS_TYPE, "name": audience}
    answer = (await links.ask(application, token)).properties
    status = answer.get("status-code")
    if not isinstance(status, int) or not 200 <= status < 300:
        text = str(answer.get("status-description"))
        condition = str(answer.get("error-condition") or conditions.UNAUTHORIZED_ACCESS)
        raise RemoteError(AmqpError(condition, text), f"put-token for {audience}")
