"""A scrape of any worker reports all of them."""

from azure.servicebus import ServiceBusClient, ServiceBusMessage

from conformance.signals.scrape import scrape
from support.workers import STORES, WORKERS, WorkersServer


def test_a_scrape_of_any_worker_reports_all(
    shared: WorkersServer, client: ServiceBusClient
) -> None:
    with client.get_queue_sender("parts-3") as sender:
        for number in range(40):
            sender.send_messages(ServiceBusMessage(str(number)))
    for _ in range(6):  # each over a new connection, so by any worker
        found = scrape(shared)
        assert found.labels("partibus_worker_up", "worker") == {str(n) for n in range(WORKERS)}
        assert found.value("partibus_worker_up") == WORKERS
        assert found.value("partibus_store_up") == STORES
        name = "incoming_messages_total"
        assert found.value(f"partibus_entity_{name}", entity="parts-3") == 40
        assert found.value(f"partibus_fragment_{name}", entity="parts-3") == 40
        assert len(found.labels(f"partibus_fragment_{name}", "worker")) == WORKERS


def test_a_worker_that_came_back_is_reported(server: WorkersServer) -> None:
    offset = server.kill_worker(1)
    server.wait_worker(1, offset)
    assert scrape(server).value("partibus_worker_up", worker="1") == 1
