"""Sources, targets and coordinators: what the two ends of a link are [3.5, 4.5.1].

Owns their reading and writing. A terminus is kept as the peer encoded it and echoed byte for byte;
the decoded form is for the owner. Must never judge an address. Used by attach frames, the owner of
the links, and the client.
"""

from dataclasses import dataclass
from typing import Final

from partibus.amqp.codec.decode import DecodeError, decode_value, skip_value
from partibus.amqp.codec.encode import ENCODED_NULL, encode_described_list, encode_list, encode_str
from partibus.amqp.codec.fields import FieldReader, symbols_from_value
from partibus.amqp.codec.types import Described
from partibus.amqp.errors import encode_symbol_map, string_keyed

SOURCE: Final = 0x28
TARGET: Final = 0x29
COORDINATOR: Final = 0x30

_CODES: Final = {
    "amqp:source:list": SOURCE,
    "amqp:target:list": TARGET,
    "amqp:coordinator:list": COORDINATOR,
}

_SOURCE_FIELDS: Final = 11
_TARGET_FIELDS: Final = 7
_ADDRESS: Final = 0
_DISTRIBUTION_MODE: Final = 6
_FILTER: Final = 7


@dataclass(eq=False, repr=False)
class Source:
    """Where messages come from; `filters` maps a filter's name to its typed value."""

    address: str | None
    durable: int
    dynamic: bool
    filters: dict[str, object]
    capabilities: list[str]
    distribution_mode: str | None = None
    """`move`, `copy` or whatever the peer wrote [3.5.7]."""

    def __repr__(self) -> str:
        return f"Source({self.address!r}, {self.filters!r})"


@dataclass(eq=False, repr=False)
class Target:
    """Where messages go."""

    address: str | None
    durable: int
    dynamic: bool
    capabilities: list[str]

    def __repr__(self) -> str:
        return f"Target({self.address!r})"


class Coordinator:
    """The target of a transaction's control link [4.5.1]."""

    __slots__ = ("capabilities",)

    def __init__(self, capabilities: list[str]) -> None:
        self.capabilities = capabilities

    def __repr__(self) -> str:
        return f"Coordinator({self.capabilities!r})"


def decode_source(raw: bytes) -> Source | None:
    code, fields = _decode(raw)
    if code != SOURCE:
        return None
    return Source(
        _text(fields, _ADDRESS),
        _number(fields, 1),
        _at(fields, 4) is True,
        string_keyed(_at(fields, _FILTER)),
        symbols_from_value(_at(fields, 10)),
        _text(fields, _DISTRIBUTION_MODE),
    )


def decode_target(raw: bytes) -> "Target | Coordinator | None":
    code, fields = _decode(raw)
    if code == COORDINATOR:
        return Coordinator(symbols_from_value(_at(fields, 0)))
    if code != TARGET:
        return None
    return Target(
        _text(fields, _ADDRESS),
        _number(fields, 1),
        _at(fields, 4) is True,
        symbols_from_value(_at(fields, 6)),
    )


def encode_source(address: str | None, filters: dict[str, object] | None = None) -> bytes:
    fields = [ENCODED_NULL] * _SOURCE_FIELDS
    if address is not None:
        fields[0] = encode_str(address)
    if filters is not None:
        fields[_FILTER] = encode_symbol_map(filters)
    return encode_described_list(SOURCE, fields)


def encode_target(address: str | None) -> bytes:
    fields = [ENCODED_NULL] * _TARGET_FIELDS
    if address is not None:
        fields[0] = encode_str(address)
    return encode_described_list(TARGET, fields)


def encode_coordinator() -> bytes:
    """The target of a control link; it requests only local transactions [4.5.1]."""
    return encode_described_list(COORDINATOR, [])


def source_with_filter(raw: bytes, filters: dict[str, object]) -> bytes:
    """A peer's source with other filters; every other field stays as it was encoded.

    For the session filter of an attach reply, which names the granted session in the form of the
    request (amqp-contract rule 6).
    """
    return _with_field(raw, _SOURCE_FIELDS, _FILTER, encode_symbol_map(filters))


def target_with_address(raw: bytes, address: str) -> bytes:
    """A peer's target with the address of the node that was created for it [3.5.4]."""
    return _with_field(raw, _TARGET_FIELDS, _ADDRESS, encode_str(address))


def _with_field(raw: bytes, count: int, index: int, field: bytes) -> bytes:
    at = skip_value(raw, 1, len(raw))
    reader = FieldReader(raw, at, len(raw))
    fields = [reader.raw(place) for place in range(count)]
    fields[index] = field
    return raw[:at] + encode_list(fields)


def _decode(raw: bytes) -> tuple[int, list[object]]:
    """The descriptor's code, 0 for null and for a terminus we do not know."""
    value, _ = decode_value(raw, 0, len(raw))
    if value is None:
        return 0, []
    if not isinstance(value, Described) or not isinstance(value.value, list):
        raise DecodeError("a terminus is not a described list")
    descriptor = value.descriptor
    if isinstance(descriptor, str):
        return _CODES.get(str(descriptor), 0), value.value
    return (int(descriptor) if isinstance(descriptor, int) else 0), value.value


def _at(fields: list[object], index: int) -> object:
    return fields[index] if index < len(fields) else None


def _text(fields: list[object], index: int) -> str | None:
    text = _at(fields, index)
    return str(text) if isinstance(text, str) else None


def _number(fields: list[object], index: int) -> int:
    number = _at(fields, index)
    return int(number) if isinstance(number, int) else 0
