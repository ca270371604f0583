"""Claims: making a SAS token and putting it to the bus's `$cbs` node.

Owns the token's text and the one request with its answer. Must never keep a key. For
connections that did not authenticate with SASL PLAIN.
"""

import base64
import hashlib
import hmac
import urllib.parse
import uuid
from typing import Final

from partibus.amqp.encode import encode_value
from partibus.amqp.errors import AmqpError
from partibus.amqp.properties import MessageProperties, encode_properties
from partibus.amqp.sections import (
    decode_application_properties,
    encode_application_properties,
    parse_sections,
)
from partibus.client.connection import BusClient
from partibus.client.errors import RemoteError

_AMQP_VALUE: Final = b"\x00\x53\x77"


def sas_token(audience: str, policy: str, key: str, expires_at: int) -> str:
    """A token for an audience (`sb://host/entity`), valid until `expires_at` (Unix seconds)."""
    resource = urllib.parse.quote_plus(audience)
    signed = f"{resource}\n{expires_at}".encode()
    digest = hmac.new(key.encode(), signed, hashlib.sha256).digest()
    signature = urllib.parse.quote_plus(base64.b64encode(digest))
    return f"SharedAccessSignature sr={resource}&sig={signature}&se={expires_at}&skn={policy}"


async def put_token(client: BusClient, audience: str, token: str) -> None:
    """Authorize this connection for an audience; raises RemoteError when refused."""
    replies = await client.receiver("$cbs", prefetch=1)
    requests = await client.sender("$cbs")
    assert replies.link is not None
    properties = MessageProperties(message_id=str(uuid.uuid4()), reply_to=replies.link.name)
    application = {
        "operation": "put-token",
        "type": "servicebus.windows.net:sastoken",
        "name": audience,
    }
    await requests.send(
        encode_properties(properties)
        + encode_application_properties(dict(application))
        + _AMQP_VALUE
        + encode_value(token)
    )
    (reply,) = await replies.receive()
    answer = decode_application_properties(reply.payload, parse_sections(reply.payload))
    await requests.close()
    await replies.close()
    status = answer.get("status-code")
    if not isinstance(status, int) or not 200 <= status < 300:
        text = str(answer.get("status-description"))
        condition = str(answer.get("error-condition") or "amqp:unauthorized-access")
        raise RemoteError(AmqpError(condition, text), f"put-token for {audience}")
