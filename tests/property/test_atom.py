"""Descriptions: what is written is read as the same, whatever it holds."""

import contextlib
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from partibus.atom.descriptions import described_kind, read_spec, read_update, write_description
from partibus.atom.policies import read_policies, write_policies
from partibus.atom.reading import read_entry
from partibus.atom.resource import parse_resource, url_path
from partibus.atom.rules import read_rule, write_rule
from partibus.control.access.policies import AccessPolicy
from partibus.domain.duration import DURATION_MAX_MS
from partibus.domain.entity import (
    CorrelationFilter,
    EntityKind,
    EntitySpec,
    EntityStatus,
    FilterType,
    QueueSpec,
    RuleSpec,
    SubscriptionSpec,
    TopicSpec,
    kind_of,
)
from partibus.domain.errors import ArgumentError
from partibus.domain.limits import SELFHOST
from partibus.domain.rights import ALL_RIGHTS, Rights
from support.management import ATOM

# What XML can carry; line ends are written so that they survive.
TEXTS: Final = st.text(
    st.characters(
        exclude_categories=("Cs",),
        exclude_characters=[chr(n) for n in range(32) if n not in (9, 10, 13)]
        + ["\ufffe", "\uffff"],
    ),
    max_size=40,
)
NAMES: Final = st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1, max_size=20)
PATHS: Final = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,20}[A-Za-z0-9])?", fullmatch=True)
DURATIONS: Final = st.integers(0, 10**12) | st.just(DURATION_MAX_MS)
COUNTS: Final = st.integers(-(10**15), 10**15)
STATUSES: Final = st.sampled_from(EntityStatus)
FLAGS: Final = st.booleans()
FIELDS: Final = {
    "lock_duration_ms": DURATIONS,
    "max_delivery_count": COUNTS,
    "max_size_in_megabytes": COUNTS,
    "max_message_size_in_kilobytes": st.none() | COUNTS,
    "default_message_time_to_live_ms": DURATIONS,
    "dead_lettering_on_message_expiration": FLAGS,
    "dead_lettering_on_filter_evaluation_exceptions": FLAGS,
    "requires_duplicate_detection": FLAGS,
    "duplicate_detection_history_time_window_ms": DURATIONS,
    "requires_session": FLAGS,
    "enable_partitioning": FLAGS,
    "auto_delete_on_idle_ms": DURATIONS,
    "enable_batched_operations": FLAGS,
    "enable_express": FLAGS,
    "enable_filtering_messages_before_publishing": FLAGS,
    "support_ordering": FLAGS,
    "forward_to": TEXTS,
    "forward_dead_lettered_messages_to": TEXTS,
    "status": STATUSES,
    "user_metadata": TEXTS,
}


def specs(kind: type[EntitySpec]) -> st.SearchStrategy[EntitySpec]:
    """Specs of a kind; fragments and rules are not told by descriptions."""
    told = {name: values for name, values in FIELDS.items() if name in kind.__dataclass_fields__}
    return st.builds(kind, **told)


VALUES: Final = (
    TEXTS | FLAGS | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False, allow_infinity=False)
)
TABLES: Final = st.dictionaries(NAMES, VALUES, max_size=4)
MAYBE: Final = st.none() | TEXTS
CORRELATIONS: Final = st.builds(
    CorrelationFilter,
    **{name: MAYBE for name in CorrelationFilter.__dataclass_fields__ if name != "properties"},
    properties=TABLES,
)
SQL: Final = st.builds(
    RuleSpec,
    name=NAMES,
    filter_type=st.just(FilterType.SQL),
    sql_expression=TEXTS,
    parameters=TABLES,
)
CORRELATION: Final = st.builds(
    RuleSpec,
    name=NAMES,
    filter_type=st.just(FilterType.CORRELATION),
    sql_expression=st.just(""),
    correlation=CORRELATIONS,
    action=TEXTS.filter(bool),
    action_parameters=TABLES,
)
ALWAYS: Final = st.builds(RuleSpec, name=NAMES) | st.builds(
    RuleSpec,
    name=NAMES,
    filter_type=st.just(FilterType.FALSE),
    sql_expression=st.just("1=0"),
)
POLICIES: Final = st.builds(
    AccessPolicy,
    st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,20}[A-Za-z0-9])?", fullmatch=True),
    TEXTS.filter(bool),
    TEXTS.filter(bool),
    st.sampled_from([ALL_RIGHTS, Rights.SEND, Rights.LISTEN, Rights.SEND | Rights.LISTEN]),
)


def entry_of(description: str) -> bytes:
    return f'<entry xmlns="{ATOM}"><content>{description}</content></entry>'.encode()


@given(st.one_of(specs(QueueSpec), specs(TopicSpec), specs(SubscriptionSpec)))
@settings(deadline=None)
def test_specs(spec: EntitySpec) -> None:
    description = read_entry(entry_of(write_description(spec, {})))
    assert described_kind(description, EntityKind) is kind_of(spec)
    assert read_spec(description, kind_of(spec)) == spec
    assert read_update(description, spec) == spec


@given(SQL | CORRELATION | ALWAYS)
@settings(deadline=None)
def test_rules(rule: RuleSpec) -> None:
    description = read_entry(entry_of(write_rule(rule, "2026-01-01T00:00:00Z")))
    # By their text: true is 1 to Python, and not to a filter (COR-2).
    assert repr(read_rule(description, "")) == repr(rule)
    assert read_rule(description, rule.name) == rule


@given(st.lists(POLICIES, max_size=12, unique_by=lambda policy: policy.name))
@settings(deadline=None)
def test_policies(policies: list[AccessPolicy]) -> None:
    facts = {"AuthorizationRules": write_policies(policies, "now", "now")}
    description = read_entry(entry_of(write_description(QueueSpec(), facts)))
    assert read_policies(description, SELFHOST) == tuple(policies)


@given(PATHS)
@settings(deadline=None)
def test_paths(path: str) -> None:
    assert parse_resource(f"/{url_path(path)}".encode()).path == path


@given(st.binary(max_size=200))
@settings(deadline=None)
def test_any_path_is_read_or_refused(raw: bytes) -> None:
    with contextlib.suppress(ArgumentError):
        parse_resource(b"/" + raw)
