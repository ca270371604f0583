"""Writing XML: elements as text, and the namespaces that the vendor's clients look for.

Owns escaping and the spelling of namespaces and prefixes. Clients compare some prefixes literally
(amqp-contract 12.5, 12.6), so documents are written here and not by a serializer that chooses its
own. It knows nothing of entities. Called by the other modules of this package.
"""

import html
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

ATOM: Final = "http://www.w3.org/2005/Atom"
SERVICE_BUS: Final = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
INSTANCE: Final = "http://www.w3.org/2001/XMLSchema-instance"
COUNTS: Final = "http://schemas.microsoft.com/netservices/2011/06/servicebus"
SCHEMA: Final = "http://www.w3.org/2001/XMLSchema"

DECLARATION: Final = '<?xml version="1.0" encoding="utf-8"?>'
# The JavaScript client reads the attribute by this very prefix (amqp-contract 12.6).
TYPE: Final = "i:type"

Attributes = Mapping[str, str]
_NONE: Final[Attributes] = MappingProxyType({})
# What XML 1.0 cannot represent at all; such a name must not make a document invalid.
_UNWRITABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def escaped(text: str) -> str:
    """Escaped text; a carriage return would be read as a line feed."""
    return html.escape(_UNWRITABLE.sub("\ufffd", text), quote=False).replace("\r", "&#13;")


def leaf(name: str, text: str, attributes: Attributes = _NONE) -> str:
    """An element that contains text."""
    return _element(name, escaped(text), attributes)


def branch(name: str, children: Iterable[str], attributes: Attributes = _NONE) -> str:
    """An element that contains elements, which are already markup."""
    return _element(name, "".join(children), attributes)


def _element(name: str, inner: str, attributes: Attributes) -> str:
    opening = name + "".join(f' {key}="{_quoted(value)}"' for key, value in attributes.items())
    return f"<{opening}>{inner}</{name}>" if inner else f"<{opening} />"


def _quoted(value: str) -> str:
    return escaped(value).replace('"', "&quot;").replace("\n", "&#10;").replace("\t", "&#9;")
