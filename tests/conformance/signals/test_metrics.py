"""`/metrics` says what stock clients did."""

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.exceptions import ServiceBusError

from adversity.waiting import wait_until
from conformance.signals.scrape import read, scrape
from partibus.ops.metrics import LABELS
from support.repository import ROOT
from support.sas import sas_token
from support.server import ServerProcess

REFERENCE = ROOT / "docs" / "reference" / "metrics.md"


def test_messages_are_counted_by_what_became_of_them(
    server: ServerProcess, client: ServiceBusClient, queue: str
) -> None:
    with client.get_queue_sender(queue) as sender, client.get_queue_receiver(queue) as receiver:
        sender.send_messages([ServiceBusMessage(str(n)) for n in range(6)])
        held = receiver.receive_messages(6, max_wait_time=30)
        while len(held) < 6:
            held += receiver.receive_messages(6 - len(held), max_wait_time=30)
        receiver.complete_message(held[0])
        receiver.complete_message(held[1])
        receiver.dead_letter_message(held[2], reason="test")
        receiver.defer_message(held[3])
        receiver.abandon_message(held[4])
        found = scrape(server)
        assert found.value("partibus_connections", transport="amqp") >= 1

    def of(name: str) -> float:
        return found.value(f"partibus_entity_{name}", entity=queue, kind="queue")

    assert of("incoming_messages_total") == 6
    assert of("outgoing_messages_total") >= 6
    assert of("completed_messages_total") == 2
    assert of("dead_lettered_messages_total") == 1
    assert of("deferred_messages_total") == 1
    assert of("abandoned_messages_total") == 1
    assert of("dead_letter_messages") == 1
    assert of("deferred_waiting_messages") == 1
    assert of("active_messages") == 2
    assert of("messages") == 4
    assert of("size_bytes") > 0
    for name in ("send", "settlement", "delivery_wait", "store_append", "store_fsync"):
        assert found.value(f"partibus_{name}_seconds_count") > 0, name


def test_receive_and_delete_counts_as_outgoing(
    server: ServerProcess, client: ServiceBusClient, queue: str
) -> None:
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("x"))
    with client.get_queue_receiver(
        queue, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE
    ) as receiver:
        assert receiver.receive_messages(1, max_wait_time=30)
    found = scrape(server)
    assert found.value("partibus_entity_outgoing_messages_total", entity=queue) == 1
    assert found.value("partibus_entity_completed_messages_total", entity=queue) == 0


def test_errors_are_counted_by_whose_they_are(
    server: ServerProcess, client: ServiceBusClient
) -> None:
    def missing() -> float:
        name, condition = "partibus_errors_total", "amqp:not-found"
        found = scrape(server)
        if condition not in found.labels(name, "condition"):
            return 0
        return found.value(name, kind="user", condition=condition)

    before = missing()
    with pytest.raises(ServiceBusError), client.get_queue_sender("no-such-queue") as sender:
        sender.send_messages(ServiceBusMessage("x"))
    wait_until(lambda: missing() > before, "the refusal is counted")


def test_every_metric_is_in_a_scrape_and_in_the_reference(server: ServerProcess) -> None:
    text = read(server)[1]
    reference = REFERENCE.read_text(encoding="utf-8")
    for series, labels in LABELS.items():
        assert f"# TYPE {series.shown} {series.kind}" in text, series.name
        row = f"| `{series.shown}` | {series.kind} | {', '.join(labels)} | {series.azure} | "
        assert f"{row}{series.text} |" in reference, row
    families = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert families == {series.shown for series in LABELS}


def test_who_may_read(server: ServerProcess) -> None:
    assert read(server)[0] == 200
    forwarded = {"X-Forwarded-For": "192.0.2.1"}
    assert read(server, forwarded)[0] == 401
    authority = f"http://{server.ready.http_host}:{server.ready.http_port}/"
    assert read(server, {**forwarded, "Authorization": sas_token(authority)})[0] == 200
    assert read(server, {**forwarded, "Authorization": "nonsense"})[0] == 401
