"""The options of the source and the sink: what they mean, and every complaint at once."""

import pickle
from pathlib import Path

import pytest

from pyspark_servicebus.given_options import OptionsError
from pyspark_servicebus.options import SourceOptions, sink_options, source_columns, source_options
from pyspark_servicebus.schema import COLUMNS

KEY = "c2VjcmV0LWtleQ"
STRING = f"Endpoint=sb://bus.test;SharedAccessKeyName=p;SharedAccessKey={KEY}"
QUEUE = {"connectionString": STRING, "queue": "q"}


def stream(**given: str) -> SourceOptions:
    return source_options({**QUEUE, "cursor": "job", **given}, is_stream=True)


def test_defaults_of_a_batch_and_of_a_stream() -> None:
    batch = source_options(QUEUE, is_stream=False)
    assert (batch.mode, batch.entity, batch.sub_queue) == ("peek", "q", "waiting")
    assert batch.columns == tuple(COLUMNS)
    assert stream().mode == "cursor"
    assert sink_options(QUEUE).deliver == "atLeastOnce"


def test_names_are_read_in_any_case() -> None:
    lowered = {name.lower(): value for name, value in QUEUE.items()}
    given = {**lowered, "MAXMESSAGESPERTRIGGER": "7", "mode": "PEEK"}
    options = source_options(given, is_stream=True)
    assert (options.messages_per_trigger, options.mode) == (7, "peek")


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("claimDuration", "90s", "claim_ms", 90_000),
        ("claimDuration", "2m", "claim_ms", 120_000),
        ("claimDuration", "1", "claim_ms", 1000),
        ("retention", "12h", "retention_ms", 43_200_000),
        ("retryDuration", "1500ms", "retry_s", 1.5),
        ("maxBytesPerTrigger", "3MiB", "bytes_per_trigger", 3 << 20),
        ("maxBytesPerTrigger", "2g", "bytes_per_trigger", 2 << 30),
        ("maxBytesPerTrigger", "100", "bytes_per_trigger", 100),
        ("retentionBytes", "5kb", "retention_bytes", 5 << 10),
        ("minPartitions", "12", "partitions_min", 12),
        ("fragments", "0, 3,7", "fragments", (0, 3, 7)),
        ("startingPosition", "Latest", "starting_position", "latest"),
        ("startingTimestamp", "1970-01-01T00:00:02Z", "starting_timestamp_ms", 2000),
        ("startingTimestamp", "1970-01-01T00:00:02", "starting_timestamp_ms", 2000),
        ("startingPositionsByFragment", '{"0": 17}', "starting_positions", {0: 17}),
        ("failOnDataLoss", "FALSE", "fails_on_data_loss", False),
        ("columns", "body,subject", "columns", ("body", "subject")),
        ("includeBody", "false", "columns", tuple(c for c in COLUMNS if c[:4] != "body")),
        ("includeAmqp", "true", "columns", (*COLUMNS, "raw_amqp")),
    ],
)
def test_values(name: str, text: str, field: str, value: object) -> None:
    assert getattr(stream(**{name: text}), field) == value


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"queue": ""}, "queue, topic: give exactly one"),
        ({"topic": "t"}, "queue, topic: give exactly one"),
        ({"subscription": "s"}, "topic, subscription:"),
        ({"mode": "gulp"}, "mode: 'gulp' is not one of cursor, claim, peek, deferclaim, peeklock"),
        ({"mode": "peeklock"}, "transport=flight does not offer peeklock to streams: write mode"),
        ({"mode": "deferclaim"}, "does not offer deferclaim to streams: write mode=claim"),
        ({"transport": "http"}, "transport: 'http' is not one of flight, amqp"),
        ({"claimLocation": "/x"}, "claimLocation: it belongs to mode=deferclaim"),
        ({"mode": "claim"}, "claimOwner: mode=claim needs a name"),
        ({"cursor": ""}, "cursor: mode=cursor needs a name"),
        ({"subQueue": "deadletter"}, "subQueue: dead letters are read with mode=peek"),
        (
            {"maxMessagesPerTrigger": "0"},
            "maxMessagesPerTrigger: '0' is not a whole number of at least 1",
        ),
        ({"maxMessagesPerTrigger": "many"}, "maxMessagesPerTrigger: 'many'"),
        (
            {"maxBytesPerTrigger": "64 apples"},
            "maxBytesPerTrigger: '64 apples' is not a valid size",
        ),
        ({"claimDuration": "soon"}, "claimDuration: 'soon' is not a valid duration"),
        ({"startingTimestamp": "noon"}, "startingTimestamp: 'noon' is not a valid time"),
        ({"startingPositionsByFragment": "[1]"}, "startingPositionsByFragment: expected JSON"),
        ({"startingPosition": "middle"}, "startingPosition: 'middle' is not one of"),
        (
            {"startingPosition": "latest", "startingTimestamp": "1970-01-01"},
            "startingPosition, startingTimestamp, startingPositionsByFragment: give one",
        ),
        ({"fragments": "a"}, "fragments: write the indexes"),
        ({"columns": "body,nope"}, "columns: there is no column 'nope'"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss: 'maybe' is not one of true, false"),
        ({"maxMessagePerTriger": "1"}, "did you mean maxMessagesPerTrigger?"),
    ],
)
def test_complaints_of_a_source(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(OptionsError, match="the options cannot be used") as caught:
        stream(**given)
    assert complaint in str(caught.value)


OVER_AMQP = {"transport": "amqp", "claimOwner": "job", "claimLocation": "/claims"}


def test_over_amqp() -> None:
    options = source_options({**QUEUE, **OVER_AMQP}, is_stream=True)
    assert (options.mode, options.claim_location) == ("deferclaim", "/claims")
    batch = source_options({**QUEUE, "transport": "AMQP"}, is_stream=False)
    assert (batch.mode, batch.transport, batch.columns) == ("peek", "amqp", tuple(COLUMNS))
    dead = {**QUEUE, **OVER_AMQP, "subQueue": "deadletter"}
    assert source_options(dead, is_stream=True).sub_queue == "deadletter"
    locked = {**QUEUE, "transport": "amqp", "mode": "peeklock"}
    assert source_options(locked, is_stream=False).columns == (*COLUMNS, "lock_token")
    few = source_options({**locked, "columns": "body,lock_token"}, is_stream=True)
    assert few.columns == ("body", "lock_token")
    assert sink_options({**QUEUE, "transport": "amqp"}).transport == "amqp"


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"mode": "cursor"}, "transport=amqp does not offer cursor to streams: a bus over AMQP"),
        ({"mode": "claim"}, "does not offer claim to streams: a bus over AMQP has no claims"),
        ({"mode": "peek"}, "does not offer peek to streams: write mode=deferclaim or peeklock"),
        ({"claimOwner": ""}, "claimOwner: mode=deferclaim needs a name"),
        ({"claimLocation": ""}, "claimLocation: mode=deferclaim needs its own directory"),
        ({"mode": "peeklock"}, "claimLocation: it belongs to mode=deferclaim"),
        ({"cursor": "c"}, "cursor: only transport=flight has it"),
        ({"retention": "1d"}, "retention: only transport=flight has it"),
        ({"claimDuration": "1m"}, "claimDuration: only transport=flight has it"),
        ({"startingPosition": "latest"}, "startingPosition: only transport=flight has it"),
        ({"startingTimestamp": "1970-01-01"}, "filter by enqueued_time instead"),
        ({"fragments": "0"}, "fragments: only transport=flight has it: filter by the column"),
        ({"columns": "lock_token"}, "columns: there is no column 'lock_token'"),
    ],
)
def test_complaints_of_a_source_over_amqp(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(OptionsError) as caught:
        source_options({**QUEUE, **OVER_AMQP, **given}, is_stream=True)
    assert complaint in str(caught.value)


@pytest.mark.parametrize("mode", ["deferclaim", "cursor"])
def test_complaints_of_a_batch_over_amqp(mode: str) -> None:
    with pytest.raises(OptionsError, match=f"mode: .*{mode}"):
        source_options({**QUEUE, **OVER_AMQP, "mode": mode}, is_stream=False)


def test_all_complaints_come_at_once() -> None:
    with pytest.raises(OptionsError) as caught:
        source_options({"mode": "claim", "fragments": "x"}, is_stream=False)
    text = str(caught.value)
    for name in ("connectionString,", "queue,", "mode: claim is for streams", "fragments:"):
        assert name in text


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"deliver": "exactlyOnce"}, "deliver: 'exactlyOnce' is not one of"),
        ({"deliver": "staged"}, "writer: deliver=staged needs a name for this writer"),
        ({"deliver": "staged", "transport": "amqp"}, "deliver: staged needs transport=flight"),
        ({"writer": "job"}, "writer, batchId: they are for deliver=staged"),
        ({"deliver": "staged", "writer": "w" * 200}, "at most 180 characters"),
        ({"onBadRow": "deadletter"}, "onBadRow, badRowQueue:"),
        ({"onBadRow": "fail", "badRowQueue": "bad"}, "onBadRow, badRowQueue:"),
        ({"extraColumns": "drop"}, "extraColumns: 'drop' is not one of refuse, properties"),
        ({"batchBytes": "0"}, "batchBytes: '0' is not a valid size"),
        ({"cursor": "c"}, "cursor: unknown option"),
    ],
)
def test_complaints_of_a_sink(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(OptionsError) as caught:
        sink_options({**QUEUE, **given})
    assert complaint in str(caught.value)


def test_a_staged_sink() -> None:
    staged = {**QUEUE, "deliver": "Staged", "writer": "job"}
    options = sink_options({**staged, "batchId": "monday"})
    assert (options.deliver, options.writer, options.batch_id) == ("staged", "job", "monday")
    assert sink_options(staged, is_stream=True).batch_id == ""
    with pytest.raises(OptionsError, match="Spark numbers the batches"):
        sink_options({**staged, "batchId": "monday"}, is_stream=True)


def test_a_queue_for_bad_rows_is_enough_to_want_it() -> None:
    assert sink_options({**QUEUE, "badRowQueue": "bad"}).bad_row_queue == "bad"


def test_columns_are_known_whatever_else_is_wrong() -> None:
    assert source_columns({"columns": "body", "mode": "nope"}) == ("body",)


# --- secrets --------------------------------------------------------------------------------------


def test_the_connection_string_can_be_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "connection"
    path.write_text(STRING + "\n")
    monkeypatch.setenv("BUS", STRING)
    for reference in (f"file:{path}", "env:BUS"):
        given = {"connectionStringRef": reference, "queue": "q"}
        credentials = source_options(given, is_stream=False).credentials
        assert credentials.place().key == KEY
        assert KEY.encode() not in pickle.dumps(credentials)


@pytest.mark.parametrize("reference", ["env:NOT_SET_ANYWHERE", "file:/not/there"])
def test_a_reference_that_leads_nowhere_is_told(reference: str) -> None:
    given = {"connectionStringRef": reference, "queue": "q"}
    with pytest.raises(OptionsError, match="connectionStringRef"):
        source_options(given, is_stream=False).credentials.place()


@pytest.mark.parametrize(
    "given",
    [
        {"connectionStringRef": STRING, "queue": "q"},
        {"connectionString": STRING, "connectionStringRef": "env:X", "queue": "q"},
        {**QUEUE, "mode": "nope"},
    ],
)
def test_no_complaint_shows_the_key(given: dict[str, str]) -> None:
    with pytest.raises(OptionsError) as caught:
        source_options(given, is_stream=False)
    assert KEY not in str(caught.value)


def test_options_do_not_show_the_key() -> None:
    assert KEY not in repr(stream())
    assert KEY not in repr(sink_options(QUEUE))
