"""Options that choose what is read: what they mean, and what does not go together."""

import pytest

from pyspark_servicebus.entities import matches
from pyspark_servicebus.given_options import OptionsError
from pyspark_servicebus.options import SourceOptions, source_options

STRING = "Endpoint=sb://bus.test;SharedAccessKeyName=p;SharedAccessKey=c2VjcmV0"


def batch(**given: str) -> SourceOptions:
    return source_options({"connectionString": STRING, **given}, is_stream=False)


def stream(**given: str) -> SourceOptions:
    return source_options({"connectionString": STRING, **given}, is_stream=True)


def test_a_choice() -> None:
    options = batch(queue="q", filter="a = 1", sessionIds="x, y")
    assert options.selection.ticket()["choice"]["session_ids"] == ["x", "y"]
    assert options.selection.ticket()["choice"]["filter"] == "a = 1"
    assert batch(queue="q").selection.ticket() == {}


def test_ends_and_waits() -> None:
    options = batch(queue="q", endingTimestamp="1970-01-01T00:00:02Z")
    assert options.ending_timestamp_ms == 2000
    assert batch(queue="q", endingPositionsByFragment='{"1": 9}').ending_positions == {1: 9}
    found = stream(queue="q", cursor="c", minMessagesPerTrigger="100", maxTriggerDelay="30s")
    assert (found.messages_min, found.trigger_delay_ms) == (100, 30_000)


def test_patterns() -> None:
    options = batch(entityPattern="orders*, billing/subscriptions/*", subQueue="deadletter")
    assert (options.patterns, options.entity) == (("orders*", "billing/subscriptions/*"), "")
    assert matches(options.patterns, "Orders-eu")
    assert matches(options.patterns, "billing/Subscriptions/all")
    assert not matches(options.patterns, "billing")
    assert matches(("*",), "billing/Subscriptions/all")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"filter": "a = 1", "mode": "claim", "claimOwner": "o"}, "subscription with that filter"),
        ({"sessionIds": "a", "mode": "claim", "claimOwner": "o"}, "sessionIds: mode=claim takes"),
        ({"pushdown": "true", "cursor": "c"}, "pushdown: Spark does not push conditions"),
        ({"endingTimestamp": "2026-01-01", "cursor": "c"}, "endingTimestamp: a stream has no end"),
        ({"maxTriggerDelay": "5s", "cursor": "c"}, "give that, too"),
        ({"minMessagesPerTrigger": "few", "cursor": "c"}, "'few' is not a whole number"),
    ],
)
def test_complaints_about_streams(given: dict[str, str], text: str) -> None:
    with pytest.raises(OptionsError, match=text):
        stream(queue="q", **given)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"queue": "q", "minMessagesPerTrigger": "5"}, "it is for streams"),
        ({"queue": "q", "entityPattern": "q*"}, "replaces queue, topic"),
        ({"entityPattern": "q*", "mode": "cursor", "cursor": "c"}, "read with mode=peek"),
        ({"entityPattern": "q*", "fragments": "1"}, "fragments: it applies to a single entity"),
        (
            {"queue": "q", "endingTimestamp": "2026-01-01", "endingPositionsByFragment": "{}"},
            "give one of them",
        ),
        ({"queue": "q", "endingTimestamp": "soon"}, "endingTimestamp: 'soon' is not a valid time"),
        ({"queue": "q", "endingPositionsByFragment": "[]"}, "endingPositionsByFragment: expected"),
    ],
)
def test_complaints_about_batches(given: dict[str, str], text: str) -> None:
    with pytest.raises(OptionsError, match=text):
        batch(**given)


def test_a_stream_of_a_pattern_is_refused() -> None:
    with pytest.raises(OptionsError, match="start a query for each"):
        stream(entityPattern="q*", cursor="c")
