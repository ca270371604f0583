"""The management API of a bus: queues, topics, subscriptions and rules over HTTP.

Owns the requests (amqp-contract 12.1, 12.2): signed, one connection for many of them, pages
followed to the end. Documents are in `client.atom_documents`. Refusals are AtomErrors with the
status and the server's text. Works against Partibus and against the vendor's cloud.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Self
from urllib.parse import quote

from partibus.client.atom_documents import (
    Entry,
    Feed,
    Fields,
    entity_document,
    entity_fields,
    error_detail,
    read_document,
    rule_document,
    rule_fields,
    updated_document,
)
from partibus.client.cbs import token_for
from partibus.client.connection_string import ConnectionString
from partibus.client.errors import AtomError
from partibus.client.http_connection import http_connection
from partibus.domain.address import subscription_path
from partibus.domain.entity_properties import Kind

API_VERSION: Final = "2021-05"
PAGE: Final = 100
TIMEOUT_SECONDS: Final = 60.0
TOKEN_SECONDS: Final = 300
_TYPE: Final = "application/atom+xml;type=entry;charset=utf-8"
_NOISE: Final = re.compile(
    r"^SubCode=\d+\.\s*(?:Not Found|Conflict|Bad Request|Unauthorized)?\.?\s*"
)


class AtomClient:
    """A connection to the management API; use it as a context manager."""

    def __init__(
        self, place: ConnectionString, url: str | None = None, *, ca_file: str | None = None
    ) -> None:
        self._place = place
        self._url = url or place.http_url
        self._connection = http_connection(self._url, TIMEOUT_SECONDS, ca_file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._connection.close()

    # --- entities -----------------------------------------------------------------------------

    def create(
        self,
        kind: Kind,
        path: str,
        fields: Mapping[str, object],
        default_rule: Mapping[str, Any] | None = None,
    ) -> Fields:
        """Create an entity; AtomError 409 when it already exists.

        A subscription selects every message, unless a first rule is given.
        """
        document = entity_document(kind, fields, default_rule)
        answer = self._send("PUT", path, document, self._forwards(fields))
        return entity_fields(self._one(answer), kind)

    def get(self, kind: Kind, path: str) -> Fields:
        """An entity with its properties and counts; AtomError 404 when there is none."""
        return entity_fields(self._found(path), kind)

    def update(self, kind: Kind, path: str, fields: Mapping[str, object]) -> Fields:
        """Change properties of an entity; the others stay."""
        entry = self._found(path)
        reported = entity_fields(entry, kind) | dict(fields)
        headers = {"If-Match": "*", **self._forwards(reported)}
        document = updated_document(entry, kind, fields)
        return entity_fields(self._one(self._send("PUT", path, document, headers)), kind)

    def delete(self, path: str) -> None:
        """Delete an entity or a rule; AtomError 404 when there is none."""
        self._send("DELETE", path)

    def list(self, kind: Kind, topic: str = "") -> Iterator[Fields]:
        """All queues, all topics, or all subscriptions of a topic."""
        path = f"{topic}/Subscriptions" if kind == "subscription" else f"$Resources/{kind}s"
        for entry in self._entries(path):
            yield entity_fields(entry, kind)

    # --- rules --------------------------------------------------------------------------------

    def put_rule(self, topic: str, subscription: str, fields: Mapping[str, Any]) -> Fields:
        """Create a rule; AtomError 409 when it already exists."""
        path = f"{subscription_path(topic, subscription)}/Rules/{fields['name']}"
        return rule_fields(self._one(self._send("PUT", path, rule_document(fields))))

    def change_rule(self, topic: str, subscription: str, fields: Mapping[str, Any]) -> Fields:
        """Replace the filter and action of a rule."""
        path = f"{subscription_path(topic, subscription)}/Rules/{fields['name']}"
        answer = self._send("PUT", path, rule_document(fields), {"If-Match": "*"})
        return rule_fields(self._one(answer))

    def get_rule(self, topic: str, subscription: str, name: str) -> Fields:
        return rule_fields(self._found(f"{subscription_path(topic, subscription)}/Rules/{name}"))

    def delete_rule(self, topic: str, subscription: str, name: str) -> None:
        self.delete(f"{subscription_path(topic, subscription)}/Rules/{name}")

    def rules(self, topic: str, subscription: str) -> Iterator[Fields]:
        for entry in self._entries(f"{subscription_path(topic, subscription)}/Rules"):
            yield rule_fields(entry)

    def namespace(self) -> dict[str, str]:
        """The properties of the namespace: Name, MessagingSKU and so on."""
        entry = self._found("$namespaceinfo")
        return {e.tag.rpartition("}")[2]: e.text or "" for e in entry.description}

    # --- requests -----------------------------------------------------------------------------

    def _entries(self, path: str) -> Iterator[Entry]:
        skip: int | None = 0
        while skip is not None:
            feed = self._send("GET", path, query=f"&$skip={skip}&$top={PAGE}")
            yield from feed.entries
            skip = feed.next_skip

    def _found(self, path: str) -> Entry:
        """An entry; the cloud answers 200 with an empty feed if it does not exist."""
        feed = self._send("GET", path)
        if not feed.entries:
            raise AtomError(404, f"'{path}' could not be found.")
        return feed.entries[0]

    @staticmethod
    def _one(feed: Feed) -> Entry:
        if not feed.entries:
            raise AtomError(500, "the answer contains no entry.")
        return feed.entries[0]

    def _forwards(self, fields: Mapping[str, object]) -> dict[str, str]:
        """Tokens for where messages are forwarded to (HTP-6)."""
        headers: dict[str, str] = {}
        if fields.get("forward_to"):
            headers["ServiceBusSupplementaryAuthorization"] = self._token()
        if fields.get("forward_dead_lettered_messages_to"):
            headers["ServiceBusDlqSupplementaryAuthorization"] = self._token()
        return headers

    def _token(self) -> str:
        return token_for(self._place, self._url, TOKEN_SECONDS)

    def _send(
        self,
        method: str,
        path: str,
        body: str | None = None,
        headers: Mapping[str, str] | None = None,
        query: str = "",
    ) -> Feed:
        address = f"/{quote(path, safe='/$~')}?api-version={API_VERSION}{query}"
        sent = {"Authorization": self._token(), "Content-Type": _TYPE, **(headers or {})}
        content = None if body is None else body.encode()
        self._connection.request(method, address, content, sent)
        answer = self._connection.getresponse()
        raw = answer.read()
        if answer.status >= 300:
            raise AtomError(answer.status, _NOISE.sub("", error_detail(raw)) or answer.reason)
        if method == "DELETE" or not raw:
            return Feed([], None)
        try:
            return read_document(raw)
        except Exception as error:
            text = "the answer is not an Atom document; is this the management port?"
            raise AtomError(502, text) from error
