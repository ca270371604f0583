"""Addresses of nodes: parsing what a client writes (ENT-10).

Owns the address grammar and the comparison of paths. Host names are ignored, since a client behind
a custom endpoint sends the name of another host. It must never check whether an entity exists, and
it never raises: an invalid address names an entity that cannot exist. Called by the gateway, the
catalog and access control.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import unquote

Node = Literal["entity", "management", "cbs"]
SubQueue = Literal["", "$deadletterqueue", "$transfer/$deadletterqueue"]

DEAD_LETTER: Final = "$deadletterqueue"
TRANSFER_DEAD_LETTER: Final = "$transfer/$deadletterqueue"
MANAGEMENT: Final = "$management"
CBS: Final = "$cbs"
SUBSCRIPTIONS: Final = "Subscriptions"
ADMINISTRATION: Final = "/$partibus"
"""Where the administration is, among the paths of HTTP."""

_SCHEME_AND_AUTHORITY: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://[^/]*")

_MESSAGES: Final = re.compile(r"(.+)/messages(?:/head|/[^/]+/[^/]+)?", re.IGNORECASE)


@dataclass(slots=True, frozen=True)
class Address:
    """A parsed address. `entity` is the queue or topic, in its original case."""

    entity: str
    node: Node = "entity"
    sub_queue: SubQueue = ""
    subscription: str | None = None

    @property
    def entity_path(self) -> str:
        """The path under which the catalog knows the queue, topic or subscription."""
        if self.subscription is None:
            return self.entity
        return subscription_path(self.entity, self.subscription)

    @property
    def path(self) -> str:
        """The path that rights are checked for: the entity, its sub-queue, its node.

        JavaScript clients put a token only for the management node (amqp-contract 3.2).
        """
        path = f"{self.entity_path}/{self.sub_queue}" if self.sub_queue else self.entity_path
        return f"{path}/{MANAGEMENT}" if self.node == "management" else path


def subscription_path(topic: str, subscription: str) -> str:
    """The path of a subscription, in the vendor's spelling."""
    return f"{topic}/{SUBSCRIPTIONS}/{subscription}"


def strip_authority(raw: str) -> str:
    """The path of an address: no scheme, no authority, no escapes, no outer slashes."""
    match = _SCHEME_AND_AUTHORITY.match(raw)
    path = raw[match.end() :] if match else raw
    if "%" in path:
        path = unquote(path)
    return path.strip("/")


def path_key(path: str) -> str:
    """The form in which paths are compared (ENT-8)."""
    return path.lower()


def resource_path(uri: str) -> str:
    """The comparable path of a resource URI or audience; "" is the namespace."""
    return "/".join(part for part in path_key(strip_authority(uri)).split("/") if part)


def entity_of_messages(path: str) -> str | None:
    """The entity whose messages a request path names (HTP-1); None for a path of another form.

    `orders/messages`, `orders/messages/head` and `orders/messages/ID/LOCK` are of `orders`.
    """
    match = _MESSAGES.fullmatch(path)
    return None if match is None else match[1]


def covers(scope: str, path: str) -> bool:
    """Whether `path` is `scope` or below it by whole segments (SAS-6). Both are keys."""
    if not scope or path == scope:
        return True
    return path.startswith(scope) and path[len(scope)] == "/"


def parse_address(raw: str) -> Address:
    """Parse an address; keywords are recognised in any case."""
    segments = strip_authority(raw).split("/")
    lowered = [segment.lower() for segment in segments]
    if lowered == [CBS]:
        return Address("", "cbs")
    node: Node = "entity"
    end = len(segments)
    if lowered[end - 1] == MANAGEMENT:
        node = "management"
        end -= 1
    sub_queue: SubQueue = ""
    if end > 0 and lowered[end - 1] == DEAD_LETTER:
        sub_queue = DEAD_LETTER
        end -= 1
        if end > 0 and lowered[end - 1] == "$transfer":
            sub_queue = TRANSFER_DEAD_LETTER
            end -= 1
    subscription = None
    if end > 2 and lowered[end - 2] == "subscriptions":
        subscription = segments[end - 1]
        end -= 2
    return Address("/".join(segments[:end]), node, sub_queue, subscription)
