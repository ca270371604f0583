"""A second, slow evaluator of SQL filters, written from the rules and not from the product.

Expressions are nested tuples. `render` writes one with as few parentheses as precedence
allows, `evaluate` says what it is for a message, value by value and without any shortcut but
those that the language promises. Nothing of the product's evaluation is used here.
"""

import datetime
import math
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

Tree = tuple[Any, ...]

LEAST, MOST = -(2**63), 2**63 - 1
TEXT_MAX: Final = 32 * 1024


class Failed(Exception):
    """The expression has no value."""


# --- text -------------------------------------------------------------------------------------

_LEVELS: Final = {"or": 1, "and": 2, "not": 3, "cmp": 4, "in": 4, "like": 4, "null": 4}
_ATOM: Final = 9


def level(tree: Tree) -> int:
    if tree[0] == "arith":
        return 5 if tree[1] in "+-" else 6
    if tree[0] == "neg" or (tree[0] == "lit" and is_number(tree[1]) and str(tree[1])[0] == "-"):
        return 7
    return _LEVELS.get(tree[0], _ATOM)


def render(tree: Tree, least: int = 0) -> str:
    text = _render(tree)
    return f"({text})" if level(tree) < least else text


def _render(tree: Tree) -> str:
    match tree:
        case ("lit", value):
            return literal(value)
        case ("user", name):
            return f"[{name.replace(']', ']]')}]"
        case ("sys", name):
            return f"sys.{name}"
        case ("lookup", name):
            return f"p({render(name)})"
        case ("neg", part):
            return f"-{render(part, 7)}"
        case ("arith", symbol, left, right):
            here = level(tree)
            return f"{render(left, here)} {symbol} {render(right, here + 1)}"
        case ("cmp", symbol, left, right):
            return f"{render(left, 5)} {symbol} {render(right, 5)}"
        case ("in", negated, part, items):
            told = ", ".join(render(item, 5) for item in items)
            return f"{render(part, 5)}{' NOT' if negated else ''} IN ({told})"
        case ("like", negated, part, pattern, escape):
            end = "" if escape is None else f" ESCAPE {render(escape, 5)}"
            return f"{render(part, 5)}{' NOT' if negated else ''} LIKE {render(pattern, 5)}{end}"
        case ("null", negated, part):
            return f"{render(part)} IS {'NOT ' if negated else ''}NULL"
        case ("exists", part):
            return f"EXISTS({render(part)})"
        case ("not", part):
            return f"NOT {render(part, 3)}"
        case (("and" | "or") as word, left, right):
            return f"{render(left, level(tree))} {word.upper()} {render(right, level(tree) + 1)}"
    raise AssertionError(tree)


def literal(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


# --- values -----------------------------------------------------------------------------------


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def evaluate(tree: Tree, user: Mapping[str, Any], system: Mapping[str, Any]) -> Any:
    def of(part: Tree) -> Any:
        return evaluate(part, user, system)

    match tree:
        case ("lit", value):
            return value
        case ("user", name):
            return user.get(name)
        case ("sys", name):
            return system.get(name)
        case ("lookup", name):
            return _look_up(of(name), user)
        case ("neg", ("neg", ("lit", value))) if is_number(value):
            return value  # signs before a number are part of it
        case ("neg", part):
            return _negative(of(part))
        case ("arith", symbol, left, right):
            return _arithmetic(symbol, of(left), of(right))
        case ("cmp", symbol, left, right):
            return _compare(symbol, of(left), of(right))
        case ("in", negated, part, items):
            return _maybe_not(negated, _within(of(part), items, of))
        case ("like", negated, part, pattern, escape):
            operands = [of(x) for x in (part, pattern, *(() if escape is None else (escape,)))]
            return _maybe_not(negated, _like(operands))
        case ("null", negated, part):
            return (of(part) is None) is not negated
        case ("exists", ("user", name)):
            return name in user
        case ("exists", part):
            return of(part) is not None
        case ("not", part):
            return _maybe_not(True, _truth(of(part)))
        case ("and", left, right):
            return _and(lambda: _truth(of(left)), lambda: _truth(of(right)))
        case ("or", left, right):
            both = _and(
                lambda: _maybe_not(True, _truth(of(left))),
                lambda: _maybe_not(True, _truth(of(right))),
            )
            return _maybe_not(True, both)
    raise AssertionError(tree)


def fails_for_every_message(tree: Tree) -> bool:
    """Whether some part looks at no message and has no value, so that it may be refused."""
    parts = [part for part in tree if isinstance(part, tuple)]
    parts += [part for item in tree if isinstance(item, list) for part in item]
    if any(fails_for_every_message(part) for part in parts):
        return True
    if tree[0] == "like":  # the pattern is made without the value
        constant = tree[3:]
        if all(part is None or _is_constant(part) for part in constant):
            values = [evaluate(part, {}, {}) for part in constant if part is not None]
            try:
                None in values or _like(["", *values])
            except Failed:
                return True
    if not _is_constant(tree):
        return False
    try:
        evaluate(tree, {}, {})
    except Failed:
        return True
    return False


def _is_constant(tree: Tree) -> bool:
    if tree[0] in ("user", "sys", "lookup"):
        return False
    parts = [part for part in tree if isinstance(part, tuple)]
    parts += [part for item in tree if isinstance(item, list) for part in item]
    return all(map(_is_constant, parts))


def _truth(value: Any) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise Failed


def _maybe_not(negated: bool, truth: bool | None) -> bool | None:
    return truth if not negated or truth is None else not truth


def _and(left: Any, right: Any) -> bool | None:
    first = left()
    if first is False:
        return False
    second = right()
    if second is False:
        return False
    return None if first is None or second is None else True


def _look_up(name: Any, user: Mapping[str, Any]) -> Any:
    if name is None:
        return None
    if not isinstance(name, str):
        raise Failed
    return user.get(name.lower())


def _compare(symbol: str, left: Any, right: Any) -> bool | None:
    if left is None or right is None:
        return None
    if is_number(left) and is_number(right):
        if isinstance(left, float) or isinstance(right, float):
            left, right = float(left), float(right)
    elif type(left) is not type(right):
        left, right = _fit(left, right)
    if isinstance(left, bool | UUID | bytes) and symbol not in ("=", "<>"):
        raise Failed
    if isinstance(left, list):
        raise Failed
    results: dict[str, Any] = {
        "=": lambda: left == right,
        "<>": lambda: left != right,
        "<": lambda: left < right,
        "<=": lambda: left <= right,
        ">": lambda: left > right,
        ">=": lambda: left >= right,
    }
    return bool(results[symbol]())


def _fit(left: Any, right: Any) -> tuple[Any, Any]:
    if isinstance(right, str):
        made, other = _fit(right, left)
        return other, made
    if not isinstance(left, str):
        raise Failed
    try:
        if isinstance(right, UUID):
            return UUID(left), right
        if isinstance(right, datetime.datetime):
            moment = datetime.datetime.fromisoformat(left)
            zoned = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
            return zoned.astimezone(datetime.UTC), right
    except (ValueError, OverflowError):
        raise Failed from None
    if isinstance(right, datetime.timedelta) and left == "PT5M":  # the only one generated
        return datetime.timedelta(minutes=5), right
    raise Failed


def _negative(value: Any) -> Any:
    if value is None:
        return None
    if is_number(value):
        return _ranged(-value)
    if isinstance(value, datetime.timedelta):
        return _arithmetic("-", datetime.timedelta(0), value)
    raise Failed


def _ranged(value: Any) -> Any:
    if isinstance(value, int) and not LEAST <= value <= MOST:
        raise Failed
    return value


def _arithmetic(symbol: str, left: Any, right: Any) -> Any:
    if left is None or right is None:
        return None
    if is_number(left) and is_number(right):
        if isinstance(left, int) and isinstance(right, int):
            return _ranged(_integers(symbol, left, right))
        return _doubles(symbol, float(left), float(right))
    if isinstance(left, str) and isinstance(right, str) and symbol == "+":
        if len(left + right) > TEXT_MAX:
            raise Failed
        return left + right
    times = (datetime.datetime, datetime.timedelta)
    if isinstance(left, times) and isinstance(right, times) and symbol in "+-":
        try:
            return left + right if symbol == "+" else left - right  # type: ignore[operator]
        except (TypeError, OverflowError):
            raise Failed from None
    raise Failed


def _integers(symbol: str, left: int, right: int) -> int:
    if symbol in "/%" and right == 0:
        raise Failed
    if symbol == "/":
        return int(math.copysign(1, left) * math.copysign(1, right)) * (abs(left) // abs(right))
    if symbol == "%":
        return int(math.copysign(1, left)) * (abs(left) % abs(right))
    return {"+": left + right, "-": left - right, "*": left * right}[symbol]


def _doubles(symbol: str, left: float, right: float) -> float:
    if symbol == "%":
        try:
            return math.fmod(left, right)
        except ValueError:
            return math.nan
    if symbol == "/" and right == 0:
        if left == 0 or math.isnan(left):
            return math.nan
        return math.inf if (left > 0) == (math.copysign(1, right) > 0) else -math.inf
    if symbol == "/":
        return left / right
    return {"+": left + right, "-": left - right, "*": left * right}[symbol]


def _within(value: Any, items: list[Tree], of: Any) -> bool | None:
    if value is None:
        return None
    truths = []
    for item in items:
        truths.append(_compare("=", value, of(item)))
        if truths[-1] is True:
            return True
    return None if None in truths else False


def _like(operands: list[Any]) -> bool | None:
    if None in operands:
        return None
    if not all(isinstance(operand, str) for operand in operands):
        raise Failed
    text, pattern, *escapes = operands
    escape = escapes[0] if escapes else None
    if escape is not None and len(escape) != 1:
        raise Failed
    tokens, place = [], 0
    while place < len(pattern):
        if pattern[place] == escape:
            if place + 1 == len(pattern):
                raise Failed
            place += 1
            tokens.append(("char", pattern[place]))
        else:
            kind = {"%": "run", "_": "any"}.get(pattern[place], "char")
            tokens.append((kind, pattern[place]))
        place += 1
    return _fits(text, tokens)


def _fits(text: str, tokens: list[tuple[str, str]]) -> bool:
    """Row by row: after each token, at which places of the text one can stand."""
    places = {0}
    for kind, character in tokens:
        if kind == "run":
            places = set(range(min(places), len(text) + 1)) if places else places
        else:
            places = {
                place + 1
                for place in places
                if place < len(text) and (kind == "any" or text[place] == character)
            }
    return len(text) in places
