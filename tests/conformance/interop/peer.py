"""The peer on Qpid Proton for Python: sends or receives messages in the form of `values`.

    python peer.py send PORT USER PASSWORD QUEUE < messages
    python peer.py receive PORT USER PASSWORD QUEUE COUNT > messages

Started by `suite` as a process of its own, like the other peers; it knows nothing of the bus.
"""

import struct
import sys
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from proton import (
    UNDESCRIBED,
    Array,
    Data,
    Described,
    Message,
    byte,
    char,
    decimal32,
    decimal64,
    decimal128,
    float32,
    int32,
    short,
    symbol,
    timestamp,
    ubyte,
    uint,
    ulong,
    ushort,
)
from proton.handlers import MessagingHandler
from proton.reactor import Container

Words = Iterator[str]

READERS: dict[str, Callable[[str], Any]] = {
    "boolean": lambda word: word == "true",
    "ubyte": lambda word: ubyte(int(word)),
    "ushort": lambda word: ushort(int(word)),
    "uint": lambda word: uint(int(word)),
    "ulong": lambda word: ulong(int(word)),
    "byte": lambda word: byte(int(word)),
    "short": lambda word: short(int(word)),
    "int": lambda word: int32(int(word)),
    "long": int,
    "float": lambda word: float32(struct.unpack(">f", bytes.fromhex(word))[0]),
    "double": lambda word: struct.unpack(">d", bytes.fromhex(word))[0],
    "decimal32": lambda word: decimal32(int(word, 16)),
    "decimal64": lambda word: decimal64(int(word, 16)),
    "decimal128": lambda word: decimal128(bytes.fromhex(word)),
    "char": lambda word: char(chr(int(word))),
    "timestamp": lambda word: timestamp(int(word)),
    "uuid": lambda word: uuid.UUID(hex=word),
    "binary": lambda word: bytes.fromhex(word[1:]),
    "string": lambda word: bytes.fromhex(word[1:]).decode(),
    "symbol": lambda word: symbol(bytes.fromhex(word[1:]).decode()),
}
WRITERS: dict[type, tuple[str, Callable[[Any], str]]] = {
    bool: ("boolean", lambda value: str(value).lower()),
    ubyte: ("ubyte", lambda value: str(int(value))),
    ushort: ("ushort", lambda value: str(int(value))),
    uint: ("uint", lambda value: str(int(value))),
    ulong: ("ulong", lambda value: str(int(value))),
    byte: ("byte", lambda value: str(int(value))),
    short: ("short", lambda value: str(int(value))),
    int32: ("int", lambda value: str(int(value))),
    int: ("long", str),
    float32: ("float", lambda value: struct.pack(">f", value).hex()),
    float: ("double", lambda value: struct.pack(">d", value).hex()),
    decimal32: ("decimal32", lambda value: f"{int(value):08x}"),
    decimal64: ("decimal64", lambda value: f"{int(value):016x}"),
    decimal128: ("decimal128", lambda value: bytes(value).hex()),
    char: ("char", lambda value: str(ord(value))),
    timestamp: ("timestamp", lambda value: str(int(value))),
    uuid.UUID: ("uuid", lambda value: value.hex),
    bytes: ("binary", lambda value: "x" + value.hex()),
    memoryview: ("binary", lambda value: "x" + bytes(value).hex()),
    str: ("string", lambda value: "x" + value.encode().hex()),
    symbol: ("symbol", lambda value: "x" + value.encode().hex()),
}
DATA_TYPES: dict[str, int] = {
    name: getattr(Data, name.upper() if name != "boolean" else "BOOL")
    for name in (*READERS, "list", "map")
}
FIELDS = (
    "durable",
    "priority",
    "ttl",
    "first_acquirer",
    "id",
    "user_id",
    "address",
    "subject",
    "reply_to",
    "correlation_id",
    "content_type",
    "content_encoding",
    "creation_time",
    "group_id",
    "group_sequence",
    "reply_to_group_id",
)
DEFAULTS = {"priority": 4}
NAMES = {"id": "message-id", "address": "to"}
FIELD_TYPES = {
    "durable": bool,
    "priority": ubyte,
    "ttl": uint,
    "first_acquirer": bool,
    "user_id": bytes,
    "content_type": symbol,
    "content_encoding": symbol,
    "creation_time": timestamp,
    "group_sequence": uint,
}


def read(words: Words) -> Any:
    kind = next(words)
    if kind == "null":
        return None
    if kind == "list":
        return [read(words) for _ in range(int(next(words)))]
    if kind == "map":
        return {read(words): read(words) for _ in range(int(next(words)))}
    if kind == "array":
        element = next(words)
        items = [read(words) for _ in range(int(next(words)))]
        return Array(UNDESCRIBED, DATA_TYPES[element], *items)
    if kind == "described":
        return Described(read(words), read(words))
    return READERS[kind](next(words))


def write(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, Described):
        return f"described {write(value.descriptor)} {write(value.value)}"
    if isinstance(value, Array):
        element = next(name for name, code in DATA_TYPES.items() if code == value.type)
        return " ".join(["array", element, str(len(value.elements)), *map(write, value.elements)])
    if isinstance(value, list):
        return " ".join(["list", str(len(value)), *map(write, value)])
    if isinstance(value, dict):
        return " ".join(
            ["map", str(len(value)), *(write(part) for pair in value.items() for part in pair)]
        )
    kind, text = WRITERS[type(value)]
    return f"{kind} {text(value)}"


def from_lines(lines: list[str]) -> Message:
    message = Message()
    message.inferred = False
    properties = {}
    for line in lines:
        name, *rest = line.split(" ")
        if name == "property":
            properties[bytes.fromhex(rest[0][1:]).decode()] = read(iter(rest[1:]))
            continue
        value = read(iter(rest))
        field = name.replace("-", "_")
        field = {"message_id": "id", "to": "address"}.get(field, field)
        if field in ("ttl", "creation_time"):
            value = int(value) / 1000
        setattr(message, field, value)
    message.properties = properties or None
    return message


def to_lines(message: Message) -> list[str]:
    lines = []
    for field in FIELDS:
        value = getattr(message, field)
        if field in ("ttl", "creation_time"):
            value = round((value or 0) * 1000)
        # Proton for Python reads an unset symbol as the text "None".
        if value in (None, "", "None", b"") or value == DEFAULTS.get(field, 0):
            continue
        kind = FIELD_TYPES.get(field, ulong if isinstance(value, int) else None)
        typed = value if kind is None else kind(value)
        lines.append(f"{NAMES.get(field, field.replace('_', '-'))} {write(typed)}")
    for name, value in (message.properties or {}).items():
        lines.append(f"property x{name.encode().hex()} {write(value)}")
    lines.append(f"body {write(message.body)}")
    return lines


class Peer(MessagingHandler):
    """One connection."""

    def __init__(self, port: str, user: str, password: str, queue: str) -> None:
        super().__init__(prefetch=0 if sys.argv[1] == "send" else 10)
        self._access = {"user": user, "password": password, "allow_insecure_mechs": True}
        self._url = f"amqp://127.0.0.1:{port}"
        self._queue = queue
        self._waiting = messages() if sys.argv[1] == "send" else []
        self._left = len(self._waiting) or int(sys.argv[6])

    def on_start(self, event: Any) -> None:
        connection = event.container.connect(self._url, allowed_mechs="PLAIN", **self._access)
        if self._waiting:
            event.container.create_sender(connection, self._queue)
        else:
            event.container.create_receiver(connection, self._queue)

    def on_sendable(self, event: Any) -> None:
        while event.sender.credit and self._waiting:
            event.sender.send(self._waiting.pop(0))

    def on_accepted(self, event: Any) -> None:
        self._one_done(event)

    def on_rejected(self, event: Any) -> None:
        sys.exit(f"rejected: {event.delivery.remote.condition}")

    def on_message(self, event: Any) -> None:
        print("\n".join([*to_lines(event.message), "end"]))
        self._one_done(event)

    def _one_done(self, event: Any) -> None:
        self._left -= 1
        if not self._left:
            event.connection.close()

    def on_transport_error(self, event: Any) -> None:
        sys.exit(f"transport: {event.transport.condition}")


def messages() -> list[Message]:
    found, lines = [], []
    for line in sys.stdin.read().splitlines():
        if line == "end":
            found.append(from_lines(lines))
            lines = []
        else:
            lines.append(line)
    return found


if __name__ == "__main__":
    Container(Peer(*sys.argv[2:6])).run()
