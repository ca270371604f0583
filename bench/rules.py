"""What rules cost: nanoseconds of CPU for an evaluation, and for the choice of a topic.

Owns the expressions, the sets of subscriptions and their comparison: a set of 3 against one
of 2,000 of which as many match. Nothing is asserted: a reader looks at the ratios. The view
is that of two dictionaries, so decoding is not part of it. `python -m bench --rules`.
"""

import gc
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Final

from partibus.domain.entity import CorrelationFilter, FilterType, RuleSpec
from partibus.rules.action import Action
from partibus.rules.ruleset import RuleSet, SubscriptionRules
from partibus.rules.sql_filter import SqlFilter
from partibus.rules.view import MappingView

ROUNDS: Final = 15
FEW: Final = 3
MANY: Final = 2_000

VIEW: Final = MappingView(
    {"color": "red", "quantity": 20, "price": 2.5, "store": "S1", "kind": "order"},
    {"label": "urgent: bus", "messageid": "m-1", "correlationid": "c-1"},
)
EXPRESSIONS: Final = (
    "color = 'red'",
    "quantity > 10",
    "sys.Label = 'urgent: bus'",
    "color = 'red' AND quantity > 10",
    "color IN ('blue', 'green', 'red')",
    "sys.Label LIKE 'urgent%'",
    "sys.Label LIKE '%bus%' AND NOT EXISTS(missing)",
    "quantity * price + 1 > 50",
    "color = 'blue' OR quantity > 100 OR price < 1 OR store = 'S1'",
)
ACTION: Final = "SET quantity = quantity / 2; REMOVE color; SET sys.CorrelationId = 'low'"


def nanoseconds(call: Callable[[], object]) -> float:
    """CPU time of one call: the median of rounds of about ten milliseconds."""
    calls = max(1, round(0.01 / max(_seconds(call, 10) / 10, 1e-8)))
    gc.collect()
    return median(_seconds(call, calls) / calls for _ in range(ROUNDS)) * 1e9


def _seconds(call: Callable[[], object], calls: int) -> float:
    start = time.process_time()
    for _ in range(calls):
        call()
    return time.process_time() - start


# --- sets of subscriptions ------------------------------------------------------------------


def _sql(text: str) -> RuleSpec:
    return RuleSpec(name="r", filter_type=FilterType.SQL, sql_expression=text)


def _correlation(**conditions: object) -> RuleSpec:
    made = CorrelationFilter(**conditions)  # type: ignore[arg-type]
    return RuleSpec(name="r", filter_type=FilterType.CORRELATION, correlation=made)


def _set(make: Callable[[int], RuleSpec], count: int) -> RuleSet:
    return RuleSet([SubscriptionRules(key, (make(key),)) for key in range(count)])


SETS: Final[dict[str, Callable[[int], RuleSpec]]] = {
    "correlation, one field": lambda n: _correlation(properties={"store": f"S{n}"}),
    "correlation, three fields": lambda n: _correlation(
        label="urgent: bus", properties={"kind": "order", "store": f"S{n}"}
    ),
    "correlation, each its own field": lambda n: _correlation(
        properties={"kind": "order", "store" if n == 1 else f"field{n}": "S1"}
    ),
    "SQL, text = 'a'": lambda n: _sql(f"store = 'S{n}'"),
    "SQL, text = 'a' AND more": lambda n: _sql(f"store = 'S{n}' AND quantity > 10"),
    "SQL, all the same": lambda n: _sql("quantity > 100"),
    "SQL, each its own": lambda n: _sql(f"quantity > {n + 100}"),
}


def main() -> None:
    """Print both tables."""
    print(f"{'expression':62} ns")
    for text in EXPRESSIONS:
        print(f"{text:62} {nanoseconds(partial(SqlFilter(text, {}).matches, VIEW)):6.0f}")
    print(f"{ACTION:74} {nanoseconds(partial(Action(ACTION, {}).apply, VIEW)):6.0f}")
    print(f"\n{'select, by the filter of each subscription':42} {FEW:>10} {MANY:>10}  ratio")
    for name, make in SETS.items():
        few, many = (nanoseconds(partial(_set(make, count).select, VIEW)) for count in (FEW, MANY))
        print(f"{name:42} {few:10.0f} {many:10.0f} {many / few:6.1f}")
    print("\nns of CPU; a ratio of 1 means that the subscriptions that do not match cost nothing")
