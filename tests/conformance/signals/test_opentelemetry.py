"""A stock client with tracing, the server and a collector: one trace, producer to settlement."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from conformance.rest.http_bus import HttpBus
from partibus.ops.metrics import LABELS
from support.otlp import Collector, ReceivedSpan, collector
from support.server import ServerProcess, environment

NAMESPACE = """
[[queue]]
name = "orders"

[[queue]]
name = "inbox"
forward_to = "shelf"

[[queue]]
name = "shelf"

[[queue]]
name = "desk"

[[queue]]
name = "web"

[[topic]]
name = "news"

[[topic.subscription]]
name = "all"
"""
PROGRAM = Path(__file__).with_name("traced_client.py")
SERVER, PRODUCER, INTERNAL = 2, 4, 1


@pytest.fixture(scope="module")
def gathered() -> Iterator[Collector]:
    with collector() as kept:
        yield kept


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, gathered: Collector
) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("otel")
    config = directory / "namespace.toml"
    config.write_text(NAMESPACE, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", gathered.endpoint)
        patch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "200")
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
        patch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
        with ServerProcess(directory, config, "--otel", "--stores", "2") as process:
            yield process


def run_client(
    server: ServerProcess, gathered: Collector, target: str, source: str, settlement: str
) -> str:
    """The user's program; answers the id of its trace."""
    found = subprocess.run(
        [sys.executable, str(PROGRAM), server.connection_string, target, source, settlement],
        env=environment()
        | {"OTEL_EXPORTER_OTLP_ENDPOINT": gathered.endpoint, "OTEL_SERVICE_NAME": "shop"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout.strip()


def of_trace(gathered: Collector, trace_id: str, *names: str) -> dict[str, ReceivedSpan]:
    """The spans of a trace by name, once those named have come."""

    def spans() -> dict[str, ReceivedSpan]:
        return {span.name: span for span in gathered.spans if span.trace_id == trace_id}

    gathered.wait(lambda: set(names) <= spans().keys(), f"spans {names} of {trace_id}")
    return spans()


def test_one_trace_from_the_producer_to_the_settlement(
    server: ServerProcess, gathered: Collector
) -> None:
    trace_id = run_client(server, gathered, "orders", "orders", "complete")
    spans = of_trace(
        gathered,
        trace_id,
        "checkout",
        "ServiceBus.message",
        "send orders",
        "store orders",
        "deliver orders",
        "complete orders",
    )
    assert spans["checkout"].service == "shop"
    producer = spans["ServiceBus.message"]
    for name in ("send orders", "deliver orders", "complete orders"):
        assert spans[name].parent_id == producer.span_id, name
        assert spans[name].service == "partibus"
    assert spans["store orders"].parent_id == spans["send orders"].span_id
    sent, stored, given = (spans[f"{name} orders"] for name in ("send", "store", "deliver"))
    assert sent.start_ns <= stored.start_ns <= stored.end_ns <= sent.end_ns
    assert given.end_ns <= spans["complete orders"].end_ns
    assert (sent.kind, stored.kind, given.kind) == (SERVER, INTERNAL, PRODUCER)
    for name, kind in (("send", "send"), ("store", "store"), ("complete", "settle")):
        facts = spans[f"{name} orders"].attributes
        assert facts["messaging.system"] == "servicebus"
        assert facts["messaging.destination.name"] == "orders"
        assert facts["messaging.message.id"] == "order-1"
        assert facts["messaging.operation.type"] == kind
        assert facts["messaging.operation.name"] == name
    assert given.attributes["messaging.servicebus.message.delivery_count"] == 1
    assert stored.attributes["messaging.destination.partition.id"] == "0"
    settled = spans["complete orders"].attributes
    assert settled["messaging.servicebus.disposition_status"] == "complete"


def test_a_forwarded_message_stays_in_its_trace(server: ServerProcess, gathered: Collector) -> None:
    trace_id = run_client(server, gathered, "inbox", "shelf", "dead_letter")
    spans = of_trace(
        gathered, trace_id, "send inbox", "forward shelf", "deliver shelf", "dead_letter shelf"
    )
    facts = spans["forward shelf"].attributes
    assert facts["partibus.forward.source"] == "inbox"
    assert facts["messaging.destination.name"] == "shelf"
    assert spans["forward shelf"].parent_id == spans["ServiceBus.message"].span_id


def test_a_subscription_is_named_by_the_conventions(
    server: ServerProcess, gathered: Collector
) -> None:
    trace_id = run_client(server, gathered, "news", "news/all", "complete")
    spans = of_trace(gathered, trace_id, "send news", "deliver news/Subscriptions/all")
    facts = spans["deliver news/Subscriptions/all"].attributes
    assert facts["messaging.destination.name"] == "news"
    assert facts["messaging.destination.subscription.name"] == "all"


def test_a_message_that_its_sender_does_not_sample_has_no_spans(
    server: ServerProcess, gathered: Collector
) -> None:
    unsampled = run_client(server, gathered, "orders", "orders", "unsampled")
    # What is traced after it has come: what was before it would have come too.
    sampled = run_client(server, gathered, "orders", "orders", "complete")
    of_trace(gathered, sampled, "complete orders")
    assert unsampled not in {span.trace_id for span in gathered.spans}


def test_a_context_in_diagnostic_id_alone_is_followed(
    server: ServerProcess, gathered: Collector
) -> None:
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    context = f"00-{trace_id}-b7ad6b7169203331-01"
    with ServiceBusClient.from_connection_string(server.connection_string) as client:
        message = ServiceBusMessage("x", application_properties={"Diagnostic-Id": context})
        with client.get_queue_sender("orders") as sender:
            sender.send_messages(message)
        with client.get_queue_receiver("orders") as receiver:
            (received,) = receiver.receive_messages(1, max_wait_time=30)
            receiver.complete_message(received)
    spans = of_trace(gathered, trace_id, "send orders", "complete orders")
    assert spans["send orders"].parent_id == "b7ad6b7169203331"


def context(trace_id: str) -> dict[str, str]:
    """What the vendor's SDKs write into a message of a trace."""
    return {"traceparent": f"00-{trace_id}-b7ad6b7169203331-01"}


def test_a_scheduled_message_has_spans(server: ServerProcess, gathered: Collector) -> None:
    trace_id = "1" * 32
    with (
        ServiceBusClient.from_connection_string(server.connection_string) as client,
        client.get_queue_sender("orders") as sender,
    ):
        message = ServiceBusMessage("later", application_properties=context(trace_id))  # type: ignore[arg-type]
        when = datetime.now(UTC) + timedelta(hours=1)
        numbers = sender.schedule_messages(message, when)
        sender.cancel_scheduled_messages(numbers)
    spans = of_trace(gathered, trace_id, "schedule orders", "store orders")
    assert spans["schedule orders"].attributes["messaging.operation.type"] == "send"
    assert spans["store orders"].parent_id == spans["schedule orders"].span_id


def test_a_deferred_message_is_settled_by_its_lock_alone(
    server: ServerProcess, gathered: Collector
) -> None:
    trace_id = "2" * 32
    with ServiceBusClient.from_connection_string(server.connection_string) as client:
        with client.get_queue_sender("desk") as sender:
            sender.send_messages(
                ServiceBusMessage("aside", application_properties=context(trace_id))  # type: ignore[arg-type]
            )
        with client.get_queue_receiver("desk") as receiver:
            (received,) = receiver.receive_messages(1, max_wait_time=30)
            assert received.sequence_number is not None
            receiver.defer_message(received)
            (again,) = receiver.receive_deferred_messages(received.sequence_number)
            receiver.complete_message(again)
    spans = of_trace(gathered, trace_id, "defer desk", "complete desk")
    settled = spans["complete desk"]
    assert settled.parent_id == "b7ad6b7169203331"
    assert settled.attributes["messaging.servicebus.disposition_status"] == "complete"
    delivered = [s for s in gathered.spans if (s.trace_id, s.name) == (trace_id, "deliver desk")]
    assert len(delivered) == 2


def test_messages_over_http_have_spans(server: ServerProcess, gathered: Collector) -> None:
    trace_id = "3" * 32
    bus = HttpBus(server.ready.http_port)
    # The header traceparent is of the request; this one is of the message.
    carried = {"Diagnostic-Id": f'"{context(trace_id)["traceparent"]}"'}
    assert bus.send("web", b"order", headers=carried).status == 201
    assert bus.complete(bus.lock("web")) == 200
    spans = of_trace(gathered, trace_id, "send web", "deliver web", "complete web")
    assert spans["complete web"].kind == SERVER


def test_the_metrics_are_those_of_a_scrape(server: ServerProcess, gathered: Collector) -> None:
    with (
        ServiceBusClient.from_connection_string(server.connection_string) as client,
        client.get_queue_sender("shelf") as sender,
    ):
        sender.send_messages([ServiceBusMessage(str(n)) for n in range(3)])

    def active() -> int:
        points = gathered.metrics.get("partibus_entity_active_messages", [])
        return sum(int(p.as_int) for labels, p in points if labels["entity"] == "shelf")

    gathered.wait(lambda: active() == 3, "three messages in the metrics")
    names = {series.name for series in LABELS}
    assert gathered.metrics.keys() <= names
    # All but those that have no rows here: entities of several fragments, and errors.
    assert {"partibus_store_up", "partibus_send_seconds", "partibus_worker_up"} <= set(
        gathered.metrics
    )
    (labels, point), *_ = gathered.metrics["partibus_store_append_seconds"]
    assert labels["worker"] == "0"
    assert point.count == sum(point.bucket_counts) > 0
    assert len(point.bucket_counts) == len(point.explicit_bounds) + 1


def test_a_collector_that_refuses_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with collector() as refusing:
        refusing.refuses = True
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", refusing.endpoint)
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "100")
        config = tmp_path / "namespace.toml"
        config.write_text(NAMESPACE, encoding="utf-8")
        with ServerProcess(tmp_path, config, "--otel") as process:
            run_client(process, refusing, "orders", "orders", "complete")
            refusing.wait(lambda: refusing.refused_count > 2, "refused exports")
            assert process.stop() == 0
        assert process.log_text().count("metrics are not exported") == 1


@pytest.mark.parametrize(
    ("variable", "value", "text"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "'grpc' is not supported; give http/protobuf"),
        ("OTEL_TRACES_EXPORTER", "zipkin", "'zipkin' is not supported; give otlp or none"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "often", "'often' is not a valid time"),
    ],
)
def test_a_variable_that_cannot_be_followed_stops_the_start(
    tmp_path: Path, variable: str, value: str, text: str
) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "partibus", "serve", "--memory", "--port", "0", "--otel"],
        env=environment() | {variable: value, "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert found.returncode != 0
    assert variable in found.stderr and text in found.stderr
