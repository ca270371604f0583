"""Reading untrusted XML: guarded parsing, elements by name, values by type.

Owns the guards (no document type, no entities, no unusual encodings) and the conversion of an
element's text to a value. Prefixes are ignored, namespaces count; unknown elements are skipped, as
newer clients send them. Every refusal is an `ArgumentError` or a `PropertyRefused` that names the
element. Called by the modules of this package that read descriptions.
"""

import re
from collections.abc import Iterator
from typing import Final
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

from partibus.atom.markup import ATOM, INSTANCE, SERVICE_BUS
from partibus.domain.duration import parse_duration
from partibus.domain.entity import EntityStatus
from partibus.domain.errors import ArgumentError
from partibus.domain.refusal import PropertyRefused

_TYPE: Final = f"{{{INSTANCE}}}type"
_NIL: Final = f"{{{INSTANCE}}}nil"
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_INT64_MAX: Final = 2**63 - 1
_BOOLEANS: Final = {"true": True, "1": True, "false": False, "0": False}
_SHOWN_LENGTH_MAX: Final = 64


class Description:
    """One element and its children by name, without nil ones."""

    def __init__(self, element: Element) -> None:
        self._element = element
        self.name = local_name(element)
        self._children: dict[str, list[Element]] = {}
        for child in element:
            if _is_ours(child) and child.get(_NIL, "").strip() not in ("true", "1"):
                self._children.setdefault(local_name(child), []).append(child)

    @property
    def type_name(self) -> str:
        """The local part of the element's type, "" when it has none."""
        return self._element.get(_TYPE, "").strip().rpartition(":")[2]

    @property
    def text(self) -> str:
        """The element's own text."""
        return self._element.text or ""

    def child(self, name: str) -> "Description | None":
        """The only child with that name; None when there is none."""
        found = self._children.get(name, ())
        if len(found) > 1:
            raise PropertyRefused(name, "the element appears more than once.")
        return Description(found[0]) if found else None

    def children(self, name: str) -> Iterator["Description"]:
        """All children with that name."""
        return map(Description, self._children.get(name, ()))

    def text_of(self, name: str) -> str | None:
        """The text of the only child with that name; None when there is none."""
        child = self.child(name)
        if child is None:
            return None
        if len(child._element):
            raise PropertyRefused(name, "expected text, got elements.")
        return child.text


def read_entry(body: bytes) -> Description:
    """The description in an Atom entry."""
    root = _parse(body)
    if root.tag != f"{{{ATOM}}}entry":
        raise ArgumentError("The request must be an Atom entry.")
    content = root.find(f"{{{ATOM}}}content")
    described = [] if content is None else [child for child in content if _is_ours(child)]
    if len(described) != 1:
        raise ArgumentError("The entry's content must hold one description.")
    return Description(described[0])


def _parse(body: bytes) -> Element:
    try:
        root: Element = fromstring(body, forbid_dtd=True)
    except DefusedXmlException as error:
        raise ArgumentError("Document types and entities are not allowed in the XML.") from error
    # Encodings unknown to the parser raise one of the last two.
    except (ParseError, LookupError, ValueError) as error:
        raise ArgumentError(f"The request is not well-formed XML: {error}.") from error
    return root


def local_name(element: Element) -> str:
    """The name of an element without its namespace."""
    return element.tag.rpartition("}")[2]


def _is_ours(element: Element) -> bool:
    return element.tag.startswith(f"{{{SERVICE_BUS}}}")


# --- values; each names the element in its refusal --------------------------------------------


def read_text(_name: str, text: str) -> str:
    """Text, unchanged."""
    return text


def read_boolean(name: str, text: str) -> bool:
    """true or false."""
    value = _BOOLEANS.get(text.strip().lower())
    if value is None:
        raise PropertyRefused(name, f"expected true or false, got '{shown(text)}'.")
    return value


def read_integer(name: str, text: str) -> int:
    """An integer; its range is checked where it is used."""
    match = _INTEGER.fullmatch(text.strip())
    value = None if match is None else int(match[0])
    if value is None or not -_INT64_MAX - 1 <= value <= _INT64_MAX:
        raise PropertyRefused(name, f"expected a whole number, got '{shown(text)}'.")
    return value


def read_duration(name: str, text: str) -> int:
    """Milliseconds of an ISO 8601 duration."""
    try:
        return parse_duration(text.strip())
    except ArgumentError as error:
        raise PropertyRefused(name, error.text) from error


def read_status(name: str, text: str) -> EntityStatus:
    """A status by its name."""
    for status in EntityStatus:
        if status.value.lower() == text.strip().lower():
            return status
    raise PropertyRefused(name, f"'{shown(text)}' is not a valid status.")


def shown(text: str) -> str:
    """A client's text, shortened for an error."""
    return text if len(text) <= _SHOWN_LENGTH_MAX else text[:_SHOWN_LENGTH_MAX] + "..."
