"""Atom documents: an entity or rule as an entry, many of them as a feed with links.

Owns the envelope around descriptions (amqp-contract 12.4), the addresses in it, and the form of
timestamps. The JavaScript client takes names from the address, the Python client from the title, so
both are exact. Called by the operations.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from partibus.atom.markup import ATOM, DECLARATION, branch, leaf
from partibus.atom.resource import url_path
from partibus.domain.quantities import moment_text

NAMESPACE_NAME: Final = "partibus"
_NAMESPACE_HOST: Final = re.compile(
    r"(.+)\.servicebus\.(?:windows\.net|usgovcloudapi\.net|chinacloudapi\.cn)(?::[0-9]+)?",
    re.IGNORECASE,
)
NEVER: Final = "0001-01-01T00:00:00Z"
"""A time that has not come yet, as the vendor writes it."""


@dataclass(slots=True, frozen=True)
class Caller:
    """How the client reached us: addresses in answers have the form of its own requests."""

    scheme: str
    host: str
    version: str = ""
    path_end: str = ""
    """A slash, if the path ended in one: azure-sb looks for it in the id of a feed."""

    @property
    def namespace_name(self) -> str:
        """The name in front of the vendor's domains, where the client used one of them."""
        match = _NAMESPACE_HOST.fullmatch(self.host)
        return NAMESPACE_NAME if match is None else match[1]

    def url(self, path: str, **query: object) -> str:
        """The address of a path."""
        reported = [f"${name}={value}" for name, value in query.items()]
        if self.version:
            reported.append(f"api-version={url_path(self.version)}")
        address = f"{self.scheme}://{self.host}/{url_path(path)}"
        return f"{address}?{'&'.join(reported)}" if reported else address

    def entity_address(self, path: str) -> str:
        """An entity as clients write it in `ForwardTo`."""
        return f"sb://{self.host}/{path}"


@dataclass(slots=True, frozen=True)
class Entry:
    """The content of an entry: a path, the name of its last part, timestamps, a description."""

    path: str
    title: str
    created_ms: int
    updated_ms: int
    description: str


@dataclass(slots=True, frozen=True)
class Page:
    """Which part of a list is requested."""

    skip: int
    top: int


def entry_document(entry: Entry, caller: Caller) -> str:
    """A single entry."""
    return DECLARATION + _entry(entry, caller, {"xmlns": ATOM})


def feed_document(
    path: str, entries: Iterable[Entry], page: Page, has_more: bool, caller: Caller, now_ms: int
) -> str:
    """A page of a list; a second link leads to the next page, if there is one."""
    here = caller.url(path + caller.path_end, skip=page.skip, top=page.top)
    links = [_link("self", here)]
    if has_more:
        links.append(_link("next", caller.url(path, skip=page.skip + page.top, top=page.top)))
    parts = (
        leaf("title", path, {"type": "text"}),
        leaf("id", here),
        leaf("updated", moment_text(now_ms)),
        *links,
        *(_entry(entry, caller, {}) for entry in entries),
    )
    return DECLARATION + branch("feed", parts, {"xmlns": ATOM})


def _entry(entry: Entry, caller: Caller, attributes: dict[str, str]) -> str:
    parts = (
        leaf("id", caller.url(entry.path)),
        leaf("title", entry.title, {"type": "text"}),
        leaf("published", moment_text(entry.created_ms)),
        leaf("updated", moment_text(entry.updated_ms)),
        branch("author", (leaf("name", NAMESPACE_NAME),)),
        _link("self", caller.url(entry.path)),
        branch("content", (entry.description,), {"type": "application/xml"}),
    )
    return branch("entry", parts, attributes)


def _link(relation: str, address: str) -> str:
    return branch("link", (), {"rel": relation, "href": address})
