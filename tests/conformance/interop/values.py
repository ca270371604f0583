"""The messages of the interoperability suite: every type of AMQP, headers, and large bodies.

Owns the form in which the peers are told what to send and report what they received. A message
is some lines `FIELD VALUE` (and `property xNAME VALUE`) up to the line `end`. A value is words: its
type and itself, so that no peer needs more than a tokenizer.

    null | boolean true | ulong 5 | float 3f800000 (the bits) | uuid HEX | char 65 (the code point)
    string xHEX | symbol xHEX | binary xHEX | decimal32 HEX | timestamp MS
    list N VALUES | map N KEYS-AND-VALUES | array TYPE N VALUES | described DESCRIPTOR VALUE
"""

from collections.abc import Callable
from typing import Final


def text(value: str) -> str:
    return f"string x{value.encode().hex()}"


def symbol(value: str) -> str:
    return f"symbol x{value.encode().hex()}"


def binary(value: bytes) -> str:
    return f"binary x{value.hex()}"


def many(*values: str) -> str:
    return " ".join(("list", str(len(values)), *values))


def pairs(*values: str) -> str:
    return " ".join(("map", str(len(values) // 2), *values))


def array(kind: str, *values: str) -> str:
    return " ".join(("array", kind, str(len(values)), *(f"{kind} {value}" for value in values)))


def _each(kind: str, *values: object) -> list[str]:
    return [f"{kind} {value}" for value in values]


UUIDS: Final = ("00" * 16, "00112233445566778899aabbccddeeff", "ff" * 16)
FLOATS: Final = ("00000000", "80000000", "3f800000", "c0490fdb", "7f7fffff", "00000001")
FLOATS_WITHOUT_END: Final = ("7f800000", "ff800000")
DOUBLES: Final = ("0" * 16, "8" + "0" * 15, "400921fb54442d18", "7fefffffffffffff", "0" * 15 + "1")
TEXTS: Final = ("", "a", "Hello, world", "größe 色 😀", "x" * 255, "y" * 256, "z" * 70_000)

TYPES: Final[dict[str, list[str]]] = {
    "null": ["null"],
    "boolean": _each("boolean", "true", "false"),
    "ubyte": _each("ubyte", 0, 1, 127, 128, 255),
    "ushort": _each("ushort", 0, 1, 32767, 32768, 65535),
    "uint": _each("uint", 0, 1, 255, 256, 2**31 - 1, 2**31, 2**32 - 1),
    "ulong": _each("ulong", 0, 1, 255, 256, 2**53, 2**54 + 1, 2**63 - 1, 2**63, 2**64 - 1),
    "byte": _each("byte", -128, -1, 0, 1, 127),
    "short": _each("short", -32768, -1, 0, 1, 32767),
    "int": _each("int", -(2**31), -129, -128, -1, 0, 127, 128, 2**31 - 1),
    "long": _each("long", -(2**63), -(2**54) - 1, -129, -1, 0, 128, 2**54 + 1, 2**63 - 1),
    "float": _each("float", *FLOATS, *FLOATS_WITHOUT_END),
    "double": _each("double", *DOUBLES, "7ff" + "0" * 13, "fff" + "0" * 13),
    "decimal32": _each("decimal32", "00000000", "22500001", "ffffffff"),
    "decimal64": _each("decimal64", "0" * 16, "2238000000000001", "f" * 16),
    "decimal128": _each("decimal128", "0" * 32, "2208" + "0" * 27 + "1", "f" * 32),
    "char": _each("char", 0, 65, 0xE9, 0x8272, 0x1F600),
    "timestamp": _each("timestamp", 0, 1, 1_700_000_000_123, 253_402_300_799_999),
    "uuid": _each("uuid", *UUIDS),
    "binary": [binary(data) for data in (b"", b"\0\xff", bytes(range(256)), b"b" * 70_000)],
    "string": [text(value) for value in TEXTS],
    "symbol": [symbol(value) for value in ("", "a", "amqp:accepted:list", "s" * 255, "t" * 300)],
    "list": [
        "list 0",
        many("int 1", text("two"), "null", "boolean true", "double 400921fb54442d18"),
        many(many("list 0", many("ulong 5")), pairs(text("k"), binary(b"v"))),
        many(*(f"uint {number}" for number in range(300))),
    ],
    "map": [
        "map 0",
        pairs(text("a"), "int 1", text("b"), many("int 2"), text("c"), "null"),
        pairs(symbol("s"), "long 1", "int 5", text("five"), "ulong 6", "boolean false"),
        pairs(text("deep"), pairs(text("deeper"), pairs(text("deepest"), f"uuid {UUIDS[1]}"))),
    ],
    "array": [
        array("int", "1", "-2", "2147483647"),
        array("boolean", "true", "false", "true"),
        array("ulong", "0", "18446744073709551615"),
        array("long", "-9223372036854775808", "5"),
        array("double", *DOUBLES),
        array("timestamp", "0", "1700000000123"),
        array("uuid", *UUIDS),
        array("string", *(f"x{word.encode().hex()}" for word in ("one", "", "größe"))),
        array("symbol", *(f"x{word.encode().hex()}" for word in ("amqp:a", "amqp:b"))),
        array("binary", "x00ff", "x"),
        array("ubyte", *map(str, range(256))),
    ],
    "described": [
        many(f"described {symbol('com.microsoft:timespan')} long 600000000"),
        many(f"described ulong 5 {many(text('inner'), 'null')}"),
    ],
}
"""A described value stands in a list: rhea drops the descriptor of one that is the body itself."""

PROPERTIES: Final[dict[str, list[str]]] = {
    "durable": ["boolean true"],
    "priority": _each("ubyte", 0, 1, 9, 255),
    "first-acquirer": ["boolean true"],
    "message-id": [text("id-1"), f"uuid {UUIDS[1]}", "ulong 7", binary(b"\x01\x02")],
    "user-id": [binary(b"user")],
    "to": [text("somewhere/else")],
    "subject": [text("größe")],
    "reply-to": [text("there")],
    "correlation-id": [text("c-1"), f"uuid {UUIDS[2]}", "ulong 18446744073709551615"],
    "content-type": [symbol("application/json")],
    "content-encoding": [symbol("gzip")],
    "creation-time": ["timestamp 1700000000123"],
    "group-id": [text("session")],
    "group-sequence": ["uint 5"],
    "reply-to-group-id": [text("back")],
}
"""Of the header and the properties; a time to live is the bus's to rewrite, see TTL-2."""

APPLICATION: Final = {
    kind: TYPES[kind][-1]
    for kind in TYPES
    if kind not in ("null", "list", "map", "array", "described", "string", "symbol", "binary")
} | {"string": text("größe"), "symbol": symbol("amqp:x"), "binary": binary(b"\x00\xff")}
"""A property of each simple type."""

MEGABYTE: Final = 1_000_000


def _noise(size: int) -> bytes:
    """Bytes that no frame border leaves alike, the same for every peer."""
    return b"".join(number.to_bytes(4, "big") for number in range(size // 4))


def _words(size: int) -> str:
    return "".join(f"{number:08d}" for number in range(size // 8))


# Proton holds some 65,000 values in a message, so what is large here is not their number. Made when
# a test asks for it: every process of the test runner loads this module.
LARGE: Final[dict[str, Callable[[], str]]] = {
    "binary 1 MB": lambda: binary(_noise(MEGABYTE)),
    "binary 10 MB": lambda: binary(_noise(10 * MEGABYTE)),
    "string 1 MB": lambda: text(_words(MEGABYTE)),
    "string 10 MB": lambda: text(_words(10 * MEGABYTE)),
    "symbol 1 MB": lambda: symbol(_words(MEGABYTE)),
    "list of 1 MB": lambda: many(*[text(_words(10_000))] * 100),
    "map of 1 MB": lambda: pairs(*_named(text(_words(10_000)), 100)),
    "array of 1 MB": lambda: array("string", *[f"x{_words(10_000).encode().hex()}"] * 100),
}


def _named(value: str, count: int) -> list[str]:
    return [part for number in range(count) for part in (text(f"k{number}"), value)]


def lines(body: str) -> list[str]:
    """A message with nothing but a body."""
    return [f"body {body}"]


def identified(messages: list[list[str]]) -> list[list[str]]:
    """The same, each with an id where it has none: the bus would give it one."""
    return [
        message
        if any(line.startswith("message-id ") for line in message)
        else [f"message-id {text(f'm-{number}')}", *message]
        for number, message in enumerate(messages)
    ]
