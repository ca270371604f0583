"""A batch of messages in one request: a JSON array (HTP-1).

Owns the form of that array: each message is an object with `Body`, `BrokerProperties` and
`UserProperties`; `IsBodyBase64Encoded` says that the body is not text. Headers of the request
are not properties of its messages.
"""

import base64
import json
from typing import Final

from partibus.domain.errors import ArgumentError
from partibus.gateway.links.inbound import BATCH_MESSAGES_MAX
from partibus.rest.broker_properties import SentProperties, read_properties
from partibus.rest.message import encode_message

BATCH_TYPE: Final = "application/vnd.microsoft.servicebus.json"


def is_batch(content_type: str | None) -> bool:
    """Whether a request contains a batch; with parameters the type is refused, as documented."""
    name, parameters, _ = (content_type or "").partition(";")
    if name.strip().lower() != BATCH_TYPE:
        return False
    if parameters:
        raise ArgumentError(f"A batch must have the content type {BATCH_TYPE} without parameters.")
    return True


def read_batch(raw: bytes) -> list[bytes]:
    """The encoded messages of a batch, in order."""
    try:
        items = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"The batch is not JSON: {error}.") from error
    if not isinstance(items, list):
        raise ArgumentError("The batch must be a JSON array of messages.")
    if not 0 < len(items) <= BATCH_MESSAGES_MAX:
        raise ArgumentError(
            f"The batch holds {len(items)} messages; 1 to {BATCH_MESSAGES_MAX} are allowed."
        )
    return [_message(item, f"Message {number} of the batch") for number, item in enumerate(items)]


def _message(item: object, where: str) -> bytes:
    if not isinstance(item, dict):
        raise ArgumentError(f"{where} must be a JSON object.")
    properties = SentProperties()
    if item.get("BrokerProperties") is not None:
        properties = read_properties(item["BrokerProperties"], f"{where}: BrokerProperties")
    return encode_message(_body(item, where), properties, _application(item, where))


def _body(item: dict[str, object], where: str) -> bytes:
    body = item.get("Body", "")
    if not isinstance(body, str):
        raise ArgumentError(f"{where}: Body must be a string.")
    try:
        if item.get("IsBodyBase64Encoded") is True:
            return base64.b64decode(body, validate=True)
        return body.encode()
    # base64 with non-ASCII letters raises a plain ValueError.
    except ValueError as error:
        raise ArgumentError(f"{where}: Body cannot be read: {error}.") from error


def _application(item: dict[str, object], where: str) -> dict[str, object]:
    given = item.get("UserProperties")
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise ArgumentError(f"{where}: UserProperties must be a JSON object.")
    for name, value in given.items():
        if isinstance(value, dict | list):
            raise ArgumentError(
                f"{where}: the property '{name}' must be a string, a number or a boolean."
            )
    return given
