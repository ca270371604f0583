"""Transforms against a real bus: what is read, what arrives, and what is told before that."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage
from pyspark.sql import SparkSession

from conformance.settlement.steps import until
from pyspark_servicebus.pipelines.run.progress import SILENT, PipelineFailed, Progress
from pyspark_servicebus.pipelines.run.settings import SettingsError
from pyspark_servicebus.pipelines.transform import TransformReport, transform
from pyspark_servicebus.pipelines.transform.settings import TransformSettings
from spark.bus import Bus, once_each
from spark.pipelines.arrivals import arrived, bodies_arrive
from spark.pipelines.watchers import After, interrupt

pytestmark = [
    pytest.mark.group("spark"),
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(900),
]
HERE = Path(__file__).parent
NUMBER = "cast(cast(body as string) as int)"

Run = Callable[..., TransformReport]


@pytest.fixture
def run(spark: SparkSession, bus: Bus, tmp_path: Path) -> Run:
    def run(source: str, target: str, progress: Progress = SILENT, **given: Any) -> TransformReport:
        table = {
            "connection_string": bus.connection_string,
            "source": source,
            "target": target,
            "checkpoint": str(tmp_path / f"{source}-{target}"),
            **given,
        }
        return transform(spark, TransformSettings.from_table(table, beside=HERE), progress)

    return run


def bodies(bus: Bus, queue: str) -> list[str]:
    return [str(message) for message in bus.peek(queue)]


def properties(message: Any) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in message.application_properties.items()}


# --- what is done ---------------------------------------------------------------------------


def test_sql_routes_row_by_row(run: Run, bus: Bus) -> None:
    source, target, other = bus.queue(), bus.queue("plain"), bus.queue("plain")
    sent = bus.fill(source, 60)
    sql = f"select body, case when {NUMBER} % 3 = 0 then '{other}' end as target from messages"  # noqa: S608
    report = run(source, target, sql=sql, max_messages=40)
    assert (report.read, report.written, report.failed) == (60, 60, 0)
    assert report.batches >= 2
    bodies_arrive(bus, other, [body for body in sent if int(body) % 3 == 0])
    bodies_arrive(bus, target, [body for body in sent if int(body) % 3])
    assert bus.left(source) == (0, 0, 0)
    again = run(source, target, sql=sql)
    assert again.as_text().endswith(f"nothing waits in {source}.")


def test_a_cursor_copies(run: Run, bus: Bus) -> None:
    source, target = bus.queue("plain"), bus.queue("plain")
    sent = bus.fill(source, 20)
    report = run(source, target, python="work:doubled", mode="cursor")
    assert (report.read, report.written) == (20, 40)
    bodies_arrive(bus, target, sent * 2)
    assert bus.left(source)[0] == 20


def test_a_function_of_rows_and_its_failures(run: Run, bus: Bus) -> None:
    source, target, failures = bus.queue(), bus.queue("plain"), bus.queue("plain")
    sent = bus.fill(source, 40)
    report = run(source, target, rows="work.py:odd_fail", failure_queue=failures)
    assert (report.read, report.written, report.failed) == (40, 16, 20)
    bodies_arrive(bus, failures, [body for body in sent if int(body) % 2])
    bodies_arrive(bus, target, [f'{{"number": {n}}}' for n in range(0, 40, 2) if n % 10])
    told = {str(message): properties(message) for message in arrived(bus, failures, 20)}
    assert told["000007"] == {
        "DeadLetterReason": "TransformFailed",
        "DeadLetterErrorDescription": "ValueError: 7 is odd",
        "DeadLetterSource": source,
    }


def test_a_function_of_frames_and_its_failures(run: Run, bus: Bus) -> None:
    source, target, failures = bus.queue("plain"), bus.queue("plain"), bus.queue("plain")
    message = ServiceBusMessage("000017", application_properties={"size": 3}, message_id="17")
    bus.send(source, message)
    sent = bus.fill(source, 12, first=18)
    report = run(source, target, python="work:fragile", failure_queue=failures)
    assert (report.read, report.written, report.failed) == (13, 11, 2)
    bodies_arrive(bus, target, [body for body in sent if body != "000023"])
    found = {str(message): message for message in arrived(bus, failures, 2)}
    assert set(found) == {"000017", "000023"}
    failed = found["000017"]
    assert failed.message_id == "17"
    assert failed.application_properties[b"size"] == 3
    assert failed.application_properties[b"DeadLetterErrorDescription"].startswith(b"Division by")


def test_too_many_failures_end_the_run(run: Run, bus: Bus) -> None:
    source, target, failures = bus.queue("plain"), bus.queue("plain"), bus.queue("plain")
    bus.fill(source, 12, first=15)
    with pytest.raises(PipelineFailed, match="More than 1 messages of one batch fail"):
        run(source, target, python="work:fragile", failure_queue=failures, failures_max=1)
    assert (bodies(bus, target), bodies(bus, failures)) == ([], [])


def test_a_state_for_each_session(run: Run, bus: Bus) -> None:
    source, target = bus.queue("sessions"), bus.queue("plain")
    settings = {
        "step": [{"stateful": "work:counted", "key": "session_id", "arguments": {"start": 10}}],
        "mode": "cursor",
    }

    def send(*sessions: str) -> None:
        messages = [ServiceBusMessage(f"{n}", session_id=s) for n, s in enumerate(sessions)]
        bus.send(source, *messages)

    send("a", "b", "a", "a")
    assert run(source, target, **settings).written == 4
    send("a", "b")
    assert run(source, target, **settings).written == 2
    subjects = [message.subject for message in arrived(bus, target, 6)]
    once_each(subjects, ["a 11", "a 12", "a 13", "a 14", "b 11", "b 12"])


def test_a_state_that_is_emptied(run: Run, bus: Bus) -> None:
    source, target = bus.queue("plain"), bus.queue("plain")
    bus.fill(source, 7)
    report = run(source, target, stateful="work:forgets_after_three", key="entity")
    assert report.written == 2
    bodies_arrive(bus, target, ["000000,000001,000002", "000003,000004,000005"])


def test_steps_one_behind_the_other(run: Run, bus: Bus) -> None:
    source, target = bus.queue("plain"), bus.queue("plain")
    for number in range(4):
        bus.send(source, ServiceBusMessage(f'{{"id": {number}, "name": "n{number}"}}'))
    steps = [
        {"json": "id int, name string"},
        {"filter": "id > 0"},
        {"set": {"subject": "concat(name, '!')"}},
        {"rename": {"id": "number"}},
        {"select": ["body", "subject", "number"]},
    ]
    report = run(source, target, step=steps, extra_columns="properties")
    assert (report.read, report.written) == (4, 3)
    shown = {m.subject: m.application_properties for m in arrived(bus, target, 3)}
    assert shown == {f"n{n}!": {b"number": n} for n in (1, 2, 3)}


def test_a_batch_that_failed_is_sent_once_when_it_is_run_again(
    run: Run, bus: Bus, tmp_path: Path
) -> None:
    source, target = bus.queue(), bus.queue()
    sent = bus.fill(source, 40)
    broken = f"select body, 100 div ({NUMBER} - 31) as x from messages"  # noqa: S608
    with pytest.raises(PipelineFailed, match=r"^Division by zero"):
        run(source, target, sql=broken, extra_columns="properties")
    assert bodies(bus, target) == []
    assert bus.left(source)[0] == 40
    report = run(source, target, sql="select body from messages")
    assert report.written == 40
    bodies_arrive(bus, target, sent)
    assert bus.left(source) == (0, 0, 0)


def test_windows_are_sent_when_they_are_over(run: Run, bus: Bus) -> None:
    source, target = bus.queue("plain"), bus.queue("plain")
    sql = """
        select cast(count(*) as string) as body
        from messages group by window(enqueued_time, '1 second')
    """
    bus.fill(source, 5)
    over = time.time() + 2
    assert run(source, target, sql=sql, watermark="0s").read == 5
    until("the windows to be over", lambda: time.time() > over)
    bus.fill(source, 1)
    report = run(source, target, sql=sql, watermark="0s")
    found = arrived(bus, target, bus.totals(target)["active"])
    assert report.read == 1
    assert sum(int(str(message)) for message in found) == 5


def test_continuous_until_it_is_interrupted(run: Run, bus: Bus) -> None:
    source, target = bus.queue("plain"), bus.queue("plain")
    bus.fill(source, 5)
    report = run(source, target, After(interrupt), continuous=True, interval="200ms")
    assert (report.read, report.written) == (5, 5)
    arrived(bus, target, 5)


# --- what is told before a message is touched -----------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sql": "select body, subjct from messages"}, r"step 1 \(sql\): .*`subjct`.*`subject`"),
        ({"sql": "selec body from messages"}, r"step 1 \(sql\): Syntax error at or near 'selec'"),
        ({"sql": "select subject from messages"}, "body: a message needs a column 'body'"),
        ({"sql": "select body, 1 as size from messages"}, "size: messages have no such column"),
        ({"sql": "select body, count(*) n from messages group by body"}, "Set watermark, and"),
        ({"sql": "select body from messages order by body"}, "step: Sorting is not supported"),
        ({"python": "work:absent"}, "has no function 'absent'; it has .*doubled"),
        ({"python": "wrok:doubled"}, "wrok cannot be imported: ModuleNotFoundError"),
        ({"python": "work:no_frame"}, "returned a str; expected a DataFrame"),
        ({"stateful": "work:counted", "key": "sesion_id"}, "did you mean 'session_id'"),
        ({"step": [{"filtr": "true"}]}, r"step 1: filtr: .*did you mean filter\?"),
        ({"step": [{"drop": ["bdy"]}]}, r"step 1 \(drop\): there is no column 'bdy'.*'body'"),
        ({"target": "parted"}, "target: there is no entity 'parted'; did you mean 'parted-"),
        ({"failure_queue": "nowhere"}, "failure_queue: there is no entity 'nowhere'"),
        ({"deliver": "dedup"}, "does not detect duplicates"),
        ({"source_options": "fragmens=0"}, "did you mean fragments"),
        ({"owner": "a/b"}, "owner: 'a/b' is not a valid name"),
        ({"sql": "select 1", "rows": "work:odd_fail"}, "sql, rows: give one of them"),
    ],
)
def test_refused_before_anything_is_consumed(
    run: Run, bus: Bus, given: dict[str, Any], words: str
) -> None:
    source, target = bus.queue("plain"), bus.queue("plain")
    bus.fill(source, 3)
    with pytest.raises(SettingsError, match=words):
        run(source, **{"target": target, "deliver": "atLeastOnce", **given})
    assert bus.left(source) == (3, 0, 0)


def test_sessions_are_not_claimed(run: Run, bus: Bus) -> None:
    with pytest.raises(SettingsError, match="requires sessions, which cannot be claimed; write"):
        run(bus.queue("sessions"), bus.queue("plain"))
