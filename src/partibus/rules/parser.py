"""From the text of a filter or an action to its tree.

Owns what the grammar alone cannot express: which terms are conditions, which names exist (SQL-2),
how long and how deep a text may be (SQL-12, ACT-6), and the text of every error. Whatever is wrong
with a text becomes a `RuleRefused` with its position, never another error. The parser is built at
the first use. Called by `rules.compiler`.
"""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NoReturn, cast

from partibus.domain.limits import ACTION_EXPRESSIONS_MAX, FILTER_LENGTH_MAX
from partibus.rules.complaint import Complaint, describe_character, describe_token
from partibus.rules.errors import FilterError, RuleActionError, RuleRefused
from partibus.rules.grammar import GRAMMAR, KEYWORDS
from partibus.rules.tree import Node, Statement

if TYPE_CHECKING:
    from lark import Lark, Token

_CACHED_MAX: Final = 4096


@functools.lru_cache(maxsize=_CACHED_MAX)
def parse_filter(text: str) -> Node:
    """The condition of a filter's text."""
    return cast(Node, _parse(text, "filter_text", FilterError))


@functools.lru_cache(maxsize=_CACHED_MAX)
def parse_action(text: str) -> tuple[Statement, ...]:
    """The statements of an action's text."""
    statements = cast(tuple[Statement, ...], _parse(text, "action_text", RuleActionError))
    if len(statements) > ACTION_EXPRESSIONS_MAX:
        extra = statements[ACTION_EXPRESSIONS_MAX]
        raise RuleActionError(
            f"An action has at most {ACTION_EXPRESSIONS_MAX} statements, "
            f"this one has {len(statements)}.",
            text,
            extra.start,
            extra.end,
        )
    return statements


def _parse(text: str, start: str, refusal: type[RuleRefused]) -> object:
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken, VisitError

    from partibus.rules.builder import TreeBuilder

    if len(text) > FILTER_LENGTH_MAX:
        raise refusal(
            f"At most {FILTER_LENGTH_MAX} characters are allowed; this has {len(text)}.",
            text,
            FILTER_LENGTH_MAX,
        )
    try:
        return TreeBuilder().transform(_parser().parse(text, start))
    except UnexpectedCharacters as error:
        _refuse(text, refusal, describe_character(text, error.pos_in_stream or 0))
    except UnexpectedToken as error:
        _refuse(text, refusal, describe_token(text, error.token, error.expected))
    except VisitError as error:
        if not isinstance(error.orig_exc, Complaint):
            raise
        _refuse(text, refusal, error.orig_exc)


def _refuse(text: str, refusal: type[RuleRefused], complaint: Complaint) -> NoReturn:
    raise refusal(complaint.reason, text, complaint.start, complaint.end) from None


@functools.cache
def _parser() -> "Lark":
    from lark import Lark

    return Lark(
        GRAMMAR,
        start=["filter_text", "action_text"],
        parser="lalr",
        # Keywords are recognised by a callback, which a contextual lexer would never call.
        lexer="basic",
        lexer_callbacks={"NAME": cast("Callable[[Token], Token]", _keyword)},
        propagate_positions=True,
        maybe_placeholders=False,
    )


def _keyword(token: "Token") -> "Token":
    keyword = KEYWORDS.get(token.lower())
    if keyword is not None:
        token.type = keyword
    return token
