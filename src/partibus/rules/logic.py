"""Three-valued logic and pattern tests as closures (SQL-7 to SQL-10).

Owns how the truth of a whole follows from its parts: AND, OR, NOT, IN and LIKE, each made once for
a term and called for each message. None is unknown. Made by `rules.compiler`.
"""

from collections.abc import Callable

from partibus.rules.like import LikePattern, PatternError, like_pattern
from partibus.rules.values import compare, failure, kind_of
from partibus.rules.view import MessageView

Evaluator = Callable[[MessageView], object]
Truth = bool | None
Condition = Callable[[MessageView], Truth]


def decided_by(deciding: bool, parts: list[Callable[[MessageView], Truth]]) -> Evaluator:
    """AND is decided by False, OR by True; else unknown beats the rest (SQL-9)."""
    rest = not deciding
    if len(parts) == 2:
        first, second = parts

        def run_two(view: MessageView) -> Truth:
            left = first(view)
            if left is deciding:
                return deciding
            right = second(view)
            if right is deciding:
                return deciding
            return None if left is None or right is None else rest

        return run_two

    def run(view: MessageView) -> Truth:
        answer: Truth = rest
        for part in parts:
            truth = part(view)
            if truth is deciding:
                return deciding
            if truth is None:
                answer = None
        return answer

    return run


def negated(part: Evaluator) -> Evaluator:
    def run(view: MessageView) -> Truth:
        truth = part(view)
        return None if truth is None else not truth

    return run


def among(operand: Evaluator, items: list[Evaluator], term: str) -> Evaluator:
    """IN, item by item; an unknown item may be the matching one."""

    def run(view: MessageView) -> Truth:
        value = operand(view)
        if value is None:
            return None
        answer: Truth = False
        for item in items:
            truth = compare("=", value, item(view), term)
            if truth:
                return True
            if truth is None:
                answer = None
        return answer

    return run


def among_constants(operand: Evaluator, constants: list[object], other: Evaluator) -> Evaluator:
    """IN by hash if the value has the type of all items; otherwise `other` decides."""
    kind, known = type(constants[0]), frozenset(constants)

    def run(view: MessageView) -> object:
        value = operand(view)
        if type(value) is kind:
            return value in known
        return other(view)

    return run


def like(operands: tuple[Evaluator, ...], term: str) -> Evaluator:
    def run(view: MessageView) -> Truth:
        value, *pattern = [operand(view) for operand in operands]
        if value is None or None in pattern:
            return None
        made = made_pattern(pattern, term)
        return made.matches(_text(value, term))

    return run


def like_constant(operand: Evaluator, pattern: LikePattern, term: str) -> Evaluator:
    def run(view: MessageView) -> Truth:
        value = operand(view)
        if type(value) is str:
            return pattern.matches(value)
        return None if value is None else pattern.matches(_text(value, term))

    return run


def made_pattern(values: list[object], term: str) -> LikePattern:
    pattern, *escape = [_text(value, term) for value in values]
    try:
        return like_pattern(pattern, escape[0] if escape else None)
    except PatternError as error:
        raise failure(term, str(error)) from None


def _text(value: object, term: str) -> str:
    if type(value) is not str:
        raise failure(term, f"LIKE works on strings, not on {kind_of(value)}")
    return value
