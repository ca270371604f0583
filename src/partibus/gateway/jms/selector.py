"""A JMS selector as an SQL filter.

Owns the translation: names of JMS headers become properties of the system, every other name one of
the message, `BETWEEN` becomes two comparisons, and the suffixes of Java's numbers go. The result is
a filter of `partibus.rules`, which validates the rest. Called once per link (JMS-5).
"""

import re
from typing import Final

from partibus.amqp.codec.types import Described
from partibus.amqp.terminus import Source
from partibus.domain.errors import ArgumentError, NotImplementedHere

SELECTOR_NAMES: Final = ("jms-selector", "apache.org:selector-filter:string")
SELECTOR_CODE: Final = 0x0000_468C_0000_0004
_NO_LOCAL_NAMES: Final = ("no-local", "apache.org:no-local-filter:list")

_HEADERS: Final = {
    "JMSMessageID": "sys.MessageId",
    "JMSCorrelationID": "sys.CorrelationId",
    "JMSType": "sys.Label",
    "JMSReplyTo": "sys.ReplyTo",
    "JMSDestination": "sys.To",
    "JMSXGroupID": "sys.SessionId",
}
"""The headers that stand in the properties of a message [3.2.4]."""
_UNKNOWN_HEADERS: Final = (
    "JMSPriority",
    "JMSDeliveryMode",
    "JMSTimestamp",
    "JMSExpiration",
    "JMSRedelivered",
    "JMSDeliveryTime",
)
_KEYWORDS: Final = frozenset(
    ["AND", "OR", "NOT", "IN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE", "BETWEEN"]
)
_TOKEN: Final = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')"
    r"|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[lLdDfF]?(?![\w$])"
    r"|(?P<name>[^\W\d][\w$.]*|\$[\w$.]*)"
    r"|(?P<symbol><>|<=|>=|[=<>()+\-*/,]))"
)


def selector_of(source: Source) -> str | None:
    """The selector among the filters of an attach, as an SQL filter; None when there is none."""
    if any(name in source.filters for name in _NO_LOCAL_NAMES):
        raise NotImplementedHere(
            "noLocal is not supported; use a selector on a property that identifies the sender "
            "of a message."
        )
    for name, value in source.filters.items():
        descriptor = value.descriptor if isinstance(value, Described) else None
        if name in SELECTOR_NAMES or descriptor == SELECTOR_CODE:
            text = value.value if isinstance(value, Described) else value
            if not isinstance(text, str):
                raise ArgumentError("A selector must be a string.")
            return to_sql(str(text))
    return None


def to_sql(selector: str) -> str:
    """The SQL filter that is equivalent to a JMS selector."""
    return " ".join(_without_between(_tokens(selector)))


def _tokens(selector: str) -> list[str]:
    """The tokens of a selector, with names already those of the filter language."""
    tokens: list[str] = []
    at = 0
    end = len(selector.rstrip())
    while at < end:
        match = _TOKEN.match(selector, at)
        if match is None:
            rest = selector[at : at + 20]
            raise ArgumentError(f"The selector is not well-formed at character {at + 1}: '{rest}'.")
        name = match["name"]
        tokens.append(_name(name) if name else match["text"] or match["number"] or match["symbol"])
        at = match.end()
    return tokens


def _name(name: str) -> str:
    if name.upper() in _KEYWORDS:
        return name.upper()
    if name in _UNKNOWN_HEADERS:
        raise ArgumentError(
            f"A selector cannot use the header {name}; allowed: {', '.join(_HEADERS)} and the "
            "properties of the message."
        )
    return _HEADERS.get(name) or f"[{name}]"


def _without_between(tokens: list[str]) -> list[str]:
    """`a BETWEEN b AND c` as two comparisons, wherever it occurs."""
    while "BETWEEN" in tokens:
        at = tokens.index("BETWEEN")
        is_negated = tokens[at - 1] == "NOT" and at > 0
        left_end = at - 1 if is_negated else at
        left_at = _operand_start(tokens, left_end)
        middle = _operand_end(tokens, at + 1)
        if middle >= len(tokens) or tokens[middle] != "AND":
            raise ArgumentError("BETWEEN needs two values with AND between them.")
        right = _operand_end(tokens, middle + 1)
        value, low = tokens[left_at:left_end], tokens[at + 1 : middle]
        high = tokens[middle + 1 : right]
        if not (value and low and high):
            raise ArgumentError("BETWEEN needs a value on each side.")
        both = ["(", *value, ">=", *low, "AND", *value, "<=", *high, ")"]
        tokens = tokens[:left_at] + (["NOT"] if is_negated else []) + both + tokens[right:]
    return tokens


def _operand_start(tokens: list[str], end: int) -> int:
    """Where the arithmetic expression before a position begins."""
    depth, at = 0, end
    while at > 0:
        word = tokens[at - 1]
        depth += (word == ")") - (word == "(")
        if depth < 0 or (depth == 0 and word in ("AND", "OR", "NOT")):
            break
        at -= 1
    return at


def _operand_end(tokens: list[str], start: int) -> int:
    """Where the arithmetic expression from a position on ends."""
    depth, at = 0, start
    while at < len(tokens):
        word = tokens[at]
        depth += (word == "(") - (word == ")")
        if depth < 0 or (depth == 0 and word in ("AND", "OR")):
            break
        at += 1
    return at
