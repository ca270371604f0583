"""Random SQL filters as trees, and random messages for them, for property tests.

The names and values are few, so that filters and messages often have to do with each other.
"""

import datetime
from typing import Final
from uuid import UUID

from hypothesis import strategies as st

from support.filters.reference import Tree

NAMES: Final = ("a", "b", "c", "with ]", "größe")
SYSTEM: Final = ("label", "messageid", "enqueuedtimeutc", "timetolive", "sequencenumber")
_NOON: Final = datetime.datetime(2024, 6, 1, 12, tzinfo=datetime.UTC)

texts = st.one_of(
    st.sampled_from(["", "a", "b", "ab", "a%", "_b", "%", "a'b", "ü", "2024-06-01", "PT5M"]),
    st.text("ab%_'!\u00fc", max_size=6),
)
integers = st.one_of(
    st.integers(-3, 3), st.sampled_from([-(2**63), 2**63 - 1, 2**53 + 1]), st.integers(-99, 99)
)
doubles = st.one_of(
    st.sampled_from([0.0, 0.5, -2.5, 1e308, 9007199254740992.0]),
    st.floats(allow_nan=False, allow_infinity=False),
)
literals = st.one_of(texts, integers, doubles, st.booleans(), st.none())
values = st.one_of(
    literals,
    st.sampled_from(
        [
            float("nan"),
            float("inf"),
            2**64 - 1,
            b"ab",
            UUID(int=7),
            _NOON,
            _NOON + datetime.timedelta(days=1),
            datetime.timedelta(minutes=5),
            datetime.datetime.max.replace(tzinfo=datetime.UTC),
            datetime.timedelta.max,
            [1],
        ]
    ),
)
user_properties = st.dictionaries(st.sampled_from(NAMES), values)
system_properties = st.fixed_dictionaries(
    {},
    optional={
        "label": texts,
        "messageid": texts,
        "enqueuedtimeutc": st.just(_NOON),
        "timetolive": st.just(datetime.timedelta(minutes=5)),
        "sequencenumber": st.integers(1, 5),
    },
)

user_names = st.tuples(st.just("user"), st.sampled_from(NAMES))
named = st.one_of(user_names, st.tuples(st.just("sys"), st.sampled_from(SYSTEM)))
leaves: st.SearchStrategy[Tree] = st.one_of(st.tuples(st.just("lit"), literals), named, named)


def _larger(parts: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    return st.one_of(
        st.tuples(st.just("arith"), st.sampled_from("+-*/%"), parts, parts),
        st.tuples(st.just("neg"), parts),
        st.tuples(st.just("lookup"), parts),
    )


def _calculated(parts: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    return st.tuples(st.just("arith"), st.sampled_from("+-*/%"), parts, parts)


# Without these, most arithmetic would end in types that do not fit.
calculations: st.SearchStrategy[Tree] = st.recursive(
    st.tuples(st.just("lit"), st.one_of(integers, integers, doubles)), _calculated, max_leaves=4
)
expressions: st.SearchStrategy[Tree] = st.one_of(
    st.recursive(leaves, _larger, max_leaves=5), calculations
)
tests: st.SearchStrategy[Tree] = st.one_of(
    st.tuples(
        st.just("cmp"), st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), expressions, expressions
    ),
    st.tuples(
        st.just("in"), st.booleans(), expressions, st.lists(expressions, min_size=1, max_size=3)
    ),
    st.tuples(
        st.just("like"),
        st.booleans(),
        expressions,
        expressions,
        st.none() | st.tuples(st.just("lit"), st.just("!")) | leaves,
    ),
    st.tuples(st.just("null"), st.booleans(), named),
    st.tuples(st.just("exists"), named),
    user_names,
    st.tuples(st.just("lit"), st.booleans()),
)


def _joined(parts: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    return st.one_of(
        st.tuples(st.sampled_from(["and", "or"]), parts, parts), st.tuples(st.just("not"), parts)
    )


conditions: st.SearchStrategy[Tree] = st.recursive(tests, _joined, max_leaves=6)
