"""SQL filters and actions: parsed, evaluated against messages of every type, and explained."""

from typing import Final

from fuzz.target import Target
from partibus.domain.entity import FilterType, RuleSpec
from partibus.rules import parser
from partibus.rules.action import Action
from partibus.rules.check import check_rule
from partibus.rules.errors import EvaluationError, RuleRefused
from partibus.rules.explain import explain_rule
from partibus.rules.sql_filter import SqlFilter
from support.filters.messages import MESSAGES
from support.filters.table import COMPARISON

PARAMETERS: Final = {"@a": 1, "@b": "text", "@c": 2.5, "@d": True}
OUTCOMES: Final = {True: "true", False: "false", None: "unknown"}


def filters(data: bytes) -> None:
    """What selects a message, and what explains it, must say the same."""
    text = data.decode("utf-8", "replace")
    parser.parse_filter.cache_clear()
    rule = RuleSpec(
        name="r", filter_type=FilterType.SQL, sql_expression=text, parameters=PARAMETERS
    )
    check_rule(rule)
    compiled = SqlFilter(text, PARAMETERS)
    for view in MESSAGES.values():
        try:
            outcome = OUTCOMES[compiled.matches(view)]
        except EvaluationError:
            outcome = "error"
        assert explain_rule(rule, view).term.outcome == outcome


def actions(data: bytes) -> None:
    """Every message gets its edits, or a documented error."""
    text = data.decode("utf-8", "replace")
    parser.parse_action.cache_clear()
    compiled = Action(text, PARAMETERS)
    for view in MESSAGES.values():
        try:
            compiled.apply(view)
        except EvaluationError:
            continue


FILTERS: Final = (
    "color LIKE 'r%' ESCAPE '\\' AND NOT (quantity IN (1, 2, 10) OR price IS NULL)",
    "sys.Label = 'x' OR user.[with space] + 1 * -2 / 3 % 4 > @a",
    'EXISTS("a""b") AND note IS NOT NULL AND p(color) = @b',
    "newid() IS NOT NULL AND sys.EnqueuedTimeUtc < later",
)
ACTIONS: Final = (
    "SET sys.Label = 'x'; SET quantity = quantity + 1; REMOVE color",
    "SET [new one] = @b; SET sys.TimeToLive = age; REMOVE user.note",
)

TARGETS: Final = (
    Target(
        name="sql-filters",
        takes="the text of an SQL filter",
        execute=filters,
        answers=(RuleRefused,),
        seeds=lambda: [text.encode() for text in (*FILTERS, *(row[1] for row in COMPARISON))],
    ),
    Target(
        name="sql-actions",
        takes="the text of an SQL action",
        execute=actions,
        answers=(RuleRefused,),
        seeds=lambda: [text.encode() for text in ACTIONS],
    ),
)
