"""What a peer means as text, whichever type it was written in.

Owns the one rule by which a decoded value becomes text before the bus uses it: keys, ids, session
ids, names, and the values that rules compare. Clients write the same text as string, symbol or
binary: a received message that the vendor's Python client sends on carries its partition key and
its ids as binary. Must never be applied to what is only passed on: bodies, and properties that the
bus does not read. Hot, and compiled.
"""


def is_text(value: object) -> bool:
    """Whether a value is of a type in which clients write text."""
    return isinstance(value, str | bytes)


def text_of_binary(value: bytes) -> str | None:
    """Binary as UTF-8 text; None when it is not UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def text_of(value: object) -> str | None:
    """The text of a value; None for null.

    A string or symbol is its own text. Binary that is not UTF-8 is an id of bytes [3.2.13] and
    becomes its hexadecimal digits; a uuid or number its usual text.
    """
    if value is None or type(value) is str:
        return value
    if isinstance(value, bytes):
        text = text_of_binary(value)
        return value.hex() if text is None else text
    return str(value)
