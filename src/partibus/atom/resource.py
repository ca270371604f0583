"""What the path of a request names: an entity, a rule, a list of them, or the namespace.

Owns the grammar of paths (ENT-10, amqp-contract 12.2). It must never check whether something
exists: an invalid path names an entity that cannot exist. Called by the application.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from partibus.domain.address import subscription_path
from partibus.domain.errors import ArgumentError

_SUBSCRIPTIONS: Final = "subscriptions"
_RULES: Final = "rules"


class ResourceKind(Enum):
    """The kinds of resource."""

    NAMESPACE = auto()
    QUEUES = auto()
    TOPICS = auto()
    ENTITY = auto()
    SUBSCRIPTIONS = auto()
    SUBSCRIPTION = auto()
    RULES = auto()
    RULE = auto()


LISTS: Final = (
    ResourceKind.QUEUES,
    ResourceKind.TOPICS,
    ResourceKind.SUBSCRIPTIONS,
    ResourceKind.RULES,
)
_COLLECTIONS: Final = {"queues": ResourceKind.QUEUES, "topics": ResourceKind.TOPICS}


@dataclass(slots=True, frozen=True)
class Resource:
    """A parsed path; `entity` is the queue or topic, `path` all of it as received."""

    kind: ResourceKind
    path: str
    entity: str = ""
    subscription: str = ""
    rule: str = ""

    @property
    def entity_path(self) -> str:
        """The path under which the catalog knows the queue, topic or subscription."""
        if not self.subscription:
            return self.entity
        return subscription_path(self.entity, self.subscription)


def rule_path(topic: str, subscription: str, rule: str) -> str:
    """The path of a rule, in the vendor's spelling."""
    return f"{subscription_path(topic, subscription)}/Rules/{rule}"


def url_path(path: str) -> str:
    """A path as written in an address; clients expect `$Default` unescaped."""
    return quote(path, safe="/$~")


def parse_resource(raw_path: bytes) -> Resource:
    """Parse a path; keywords are recognised in any case."""
    try:
        path = unquote_to_bytes(raw_path).decode().strip("/")
    except UnicodeDecodeError as error:
        raise ArgumentError("The path is not valid UTF-8; percent-encode it as UTF-8.") from error
    if not path.isprintable():
        raise ArgumentError("The path contains control characters.")
    parts = path.split("/")
    words = [part.lower() for part in parts]
    if words == ["$namespaceinfo"]:
        return Resource(ResourceKind.NAMESPACE, path)
    if len(words) == 2 and words[0] == "$resources" and words[1] in _COLLECTIONS:
        return Resource(_COLLECTIONS[words[1]], path)
    return _below_an_entity(path, parts, words)


def _below_an_entity(path: str, parts: list[str], words: list[str]) -> Resource:
    if len(words) > 4 and words[-2] == _RULES and words[-4] == _SUBSCRIPTIONS:
        return Resource(ResourceKind.RULE, path, "/".join(parts[:-4]), parts[-3], parts[-1])
    if len(words) > 3 and words[-1] == _RULES and words[-3] == _SUBSCRIPTIONS:
        return Resource(ResourceKind.RULES, path, "/".join(parts[:-3]), parts[-2])
    if len(words) > 2 and words[-2] == _SUBSCRIPTIONS:
        return Resource(ResourceKind.SUBSCRIPTION, path, "/".join(parts[:-2]), parts[-1])
    if len(words) > 1 and words[-1] == _SUBSCRIPTIONS:
        return Resource(ResourceKind.SUBSCRIPTIONS, path, "/".join(parts[:-1]))
    return Resource(ResourceKind.ENTITY, path, path)
