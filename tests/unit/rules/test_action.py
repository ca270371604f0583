"""Actions: statements, conversions, what may be changed, and what is refused."""

import datetime
from uuid import UUID

import pytest

from partibus.rules.action import REMOVED, Action, Edit
from partibus.rules.errors import EvaluationError, RuleActionError
from partibus.rules.view import MappingView

NOON = datetime.datetime(2024, 6, 1, 12, tzinfo=datetime.UTC)
VIEW = MappingView(
    {
        "color": "red",
        "Quantity": 10,
        "price": 2.5,
        "express": True,
        "when": NOON,
        "id": UUID(int=7),
        "note": None,
        "list": [1],
    },
    {"Label": "bus", "MessageId": "m", "EnqueuedTimeUtc": NOON},
)


def edits(text: str, **parameters: str | float | bool) -> list[tuple[str, str, object]]:
    return [tuple(edit) for edit in Action(text, parameters).apply(VIEW)]


@pytest.mark.rule("ACT-1")
@pytest.mark.parametrize(
    "text",
    [
        "SET a = 1; SET b = 2; REMOVE c",
        "SET a = 1; SET b = 2; REMOVE c;",
        "set a=1,set b=2,remove c",
        "SET a = 1 SET b = 2 REMOVE c",
        "SET a = 1, SET b = 2; REMOVE c",
        "\nSET user.a = 1;\n\tSET [b] = 2;\n REMOVE user.c\n",
    ],
)
def test_statements_are_separated_or_follow_each_other(text: str) -> None:
    assert edits(text) == [("user", "a", 1), ("user", "b", 2), ("user", "c", REMOVED)]


@pytest.mark.rule("ACT-2")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SET new = 1", 1),
        ("SET new = 1.5", 1.5),
        ("SET new = 'x'", "x"),
        ("SET new = TRUE", True),
        ("SET new = NULL", None),
        ("SET quantity = 5", 5),
        ("SET quantity = 5.0", 5),
        ("SET quantity = 5.5", 5.5),
        ("SET quantity = '7'", 7),
        ("SET quantity = 'seven'", "seven"),
        ("SET quantity = '99999999999999999999'", "99999999999999999999"),
        ("SET quantity = TRUE", True),
        ("SET quantity = quantity / 4", 2),
        ("SET price = 3", 3.0),
        ("SET price = '3.5'", 3.5),
        ("SET color = 5", "5"),
        ("SET color = 5.0", "5"),
        ("SET color = FALSE", "False"),
        ("SET color = id", "00000000-0000-0000-0000-000000000007"),
        ("SET color = when", "2024-06-01T12:00:00Z"),
        ("SET express = 'false'", False),
        ("SET express = 1", 1),
        ("SET when = '2024-06-02'", NOON.replace(day=2, hour=0)),
        ("SET id = '00000000-0000-0000-0000-000000000008'", UUID(int=8)),
        ("SET note = 5", 5),
        ("SET color = NULL", None),
    ],
)
def test_a_value_takes_the_type_of_the_property_where_nothing_is_lost(
    text: str, expected: object
) -> None:
    ((_, _, value),) = edits(text)
    assert (type(value), value) == (type(expected), expected)


@pytest.mark.rule("ACT-3")
def test_an_unknown_user_property_is_unknown_and_an_unknown_system_property_refused() -> None:
    assert edits("SET a = missing + 1") == [("user", "a", None)]
    for text in ("SET a = sys.Nothing", "SET sys.Nothing = 1", "REMOVE sys.Nothing"):
        with pytest.raises(RuleActionError, match="no system property Nothing"):
            Action(text, {})


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("SET sys.Label = 'x' + color", "label", "xred"),
        ("SET sys.Subject = 'x'", "label", "x"),
        ("SET sys.To = 5", "to", "5"),
        ("SET sys.SessionId = color", "sessionid", "red"),
        ("SET sys.TimeToLive = 'PT5M'", "timetolive", datetime.timedelta(minutes=5)),
        ("SET sys.TimeToLive = '00:05:00'", "timetolive", datetime.timedelta(minutes=5)),
        ("SET sys.ScheduledEnqueueTimeUtc = when", "scheduledenqueuetimeutc", NOON),
        ("SET sys.ScheduledEnqueueTimeUtc = '2024-06-01 12:00'", "scheduledenqueuetimeutc", NOON),
        ("SET sys.ReplyTo = NULL", "replyto", None),
        ("SET sys.ReplyTo = missing", "replyto", None),
        ("REMOVE sys.Label", "label", REMOVED),
    ],
)
def test_a_system_property_keeps_its_type(text: str, name: str, expected: object) -> None:
    assert edits(text) == [("sys", name, expected)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SET sys.TimeToLive = 5", "a whole number cannot be converted to a duration"),
        ("SET sys.TimeToLive = 'soon'", "text cannot be converted to a duration"),
        ("SET sys.TimeToLive = '-00:00:01'", "cannot be negative"),
        ("SET sys.ScheduledEnqueueTimeUtc = color", "text cannot be converted to a time"),
        ("SET sys.Label = list", "cannot be converted to text"),
        ("SET sys.MessageId = '" + "x" * 129 + "'", "at most 128 characters"),
        ("SET a = quantity / 0", "division by zero"),
        ("SET a = color + 1", "does not work on text and a whole number"),
    ],
)
def test_an_action_can_fail_on_a_message(text: str, reason: str) -> None:
    with pytest.raises(EvaluationError, match=reason):
        Action(text, {}).apply(VIEW)


@pytest.mark.parametrize("name", ["SequenceNumber", "EnqueuedTimeUtc", "Size", "DeliveryCount"])
def test_what_the_broker_gives_cannot_be_changed(name: str) -> None:
    for text in (f"SET sys.{name} = 1", f"REMOVE sys.{name}"):
        with pytest.raises(RuleActionError, match="cannot be changed"):
            Action(text, {})


def test_later_statements_see_earlier_ones_and_a_property_is_edited_once() -> None:
    text = "SET a = 1; SET A = a + 1; SET b = a * 10; REMOVE color; SET c = color; SET sys.To = 'x'"
    assert edits(text + "; SET d = sys.To") == [
        ("user", "a", 2),
        ("user", "b", 20),
        ("user", "color", REMOVED),
        ("user", "c", None),
        ("sys", "to", "x"),
        ("user", "d", "x"),
    ]


def test_a_new_guid_is_made_for_every_message() -> None:
    action = Action("SET sys.MessageId = newid(); SET a = newid()", {})
    first, second = action.apply(VIEW), action.apply(VIEW)
    assert isinstance(first[0].value, str)
    assert isinstance(first[1].value, UUID)
    assert first[0].value != second[0].value
    assert isinstance(first[0], Edit)


def test_parameters_are_bound_values() -> None:
    assert edits("SET a = @x; SET b = @Y", x=5, y="z") == [("user", "a", 5), ("user", "b", "z")]
    assert edits("SET a = @x", **{"@X": 5}) == [("user", "a", 5)]


@pytest.mark.rule("ACT-6", "QTA-13")
def test_an_action_is_bounded() -> None:
    Action(";".join(["SET a=1"] * 32), {})
    with pytest.raises(RuleActionError, match="at most 32 statements") as refused:
        Action(";".join(["SET a=1"] * 33), {})
    assert refused.value.start == 32 * len("SET a=1;")
    Action("SET a = '" + "x" * 1014 + "'", {})
    with pytest.raises(RuleActionError, match="At most 1024 characters"):
        Action("SET a = '" + "x" * 1015 + "'", {})


@pytest.mark.rule("FLT-8")
@pytest.mark.parametrize(
    "text",
    [
        " ",
        "SET",
        "SET a",
        "SET a =",
        "SET a = ",
        "SET = 1",
        "SET 'a' = 1",
        "SET a == 1",
        "a = 1",
        "REMOVE",
        "REMOVE 'a'",
        "REMOVE a b",
        "UPDATE a = 1",
        "DELETE a",
        "SET a = 1;;",
        "; SET a = 1",
        "SET a = (b = 1)",
        "SET a = NOT TRUE",
        "SET a = b LIKE 'x'",
        "SET a = 1 / 0",
        "SET a = 'x",
        "SET a = @x",
        "SET sys.Label = 'x' AND TRUE",
        "SET p('a') = 1",
    ],
)
def test_a_bad_action_is_refused(text: str) -> None:
    with pytest.raises(RuleActionError) as refused:
        Action(text, {})
    assert refused.value.property_name == "action"
    assert refused.value.http_status == 400


def test_text_cannot_grow_without_end() -> None:
    action = Action("; ".join(["SET a = a + a"] * 32), {})
    with pytest.raises(EvaluationError, match="more than 32768 characters"):
        action.apply(MappingView({"a": "x"}))
