"""Requests to a node of the bus: a pair of links, a request and its answer.

Owns the pair of links for `$cbs` and `$management` (amqp-contract 3.1, 7.1): both links in one
session, answers without settlement, one request at a time. The caller knows what a request means.
Every wait is bounded, since a lost answer never comes.
"""

import asyncio
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from partibus.amqp.codec.decode import decode_value
from partibus.amqp.codec.encode import encode_value
from partibus.amqp.codec.properties import MessageProperties, encode_properties
from partibus.amqp.codec.section_walk import read_descriptor
from partibus.amqp.codec.sections import (
    AMQP_VALUE,
    decode_application_properties,
    encode_application_properties,
    parse_sections,
)
from partibus.client.connection import BusClient
from partibus.client.links import Receiver, Sender

ANSWER_SECONDS_MAX: Final = 65.0
"""The bus itself gives up after 60 s; shortly after that no answer will come."""
_CREDIT: Final = 10


@dataclass(slots=True, frozen=True)
class Response:
    """An answer: its status is in the properties, under names that differ by node."""

    properties: dict[str, object]
    body: object


class RequestLinks:
    """The two links to one node."""

    def __init__(self, requests: Sender, answers: Receiver) -> None:
        self._requests = requests
        self._answers = answers
        self._turn = asyncio.Lock()

    @property
    def is_usable(self) -> bool:
        """Whether both links are open."""
        return self._requests.error is None and self._answers.error is None

    async def ask(self, properties: Mapping[str, object], body: object) -> Response:
        """One request and its answer; TimeoutError when none comes."""
        link = self._answers.usable()
        ids = MessageProperties(message_id=str(uuid.uuid4()), reply_to=link.name)
        payload = (
            encode_properties(ids)
            + encode_application_properties(dict(properties))
            + bytes((0x00, 0x53, AMQP_VALUE))
            + encode_value(body)
        )
        async with self._turn, asyncio.timeout(ANSWER_SECONDS_MAX):
            await self._requests.send(payload)
            (answer,) = await self._answers.receive()
        return _response(answer.payload)

    async def close(self) -> None:
        await self._requests.close()
        await self._answers.close()


async def open_request_links(client: BusClient, node: str) -> RequestLinks:
    """Attach both links; the bus refuses here if access to the node is not allowed."""
    requests, answers = await client.request_pair(node, _CREDIT)
    return RequestLinks(requests, answers)


def _response(payload: bytes) -> Response:
    sections = parse_sections(payload)
    body: object = None
    if 0 <= sections.body_offset < sections.bare_end:
        section, at = read_descriptor(payload, sections.body_offset, sections.bare_end)
        if section == AMQP_VALUE:
            body, _ = decode_value(payload, at, sections.bare_end)
    return Response(decode_application_properties(payload, sections), body)
