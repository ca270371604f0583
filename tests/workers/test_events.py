"""One stream tells what happens in every worker."""

from azure.servicebus import ServiceBusClient, ServiceBusMessage

from conformance.signals.stream import events
from support.json_admin import JsonAdmin
from support.workers import WorkersServer


def test_a_restarted_worker_and_what_it_does_next(server: WorkersServer) -> None:
    admin = JsonAdmin(server)
    with events(server) as stream:
        admin.create("told-once")
        stream.until("entity-changed", entity="told-once")
        victim = 1 if stream.seen[-1]["worker"] == 0 else 0
        offset = server.kill_worker(victim)
        stream.until("worker-restarted", worker=victim)
        server.wait_worker(victim, offset)
        admin.create("told-again")
        stream.until("entity-changed", entity="told-again")
        told = [e["entity"] for e in stream.seen if e["kind"] == "entity-changed"]
        assert told == ["told-once", "told-again"], "each change is told once"


def test_dead_letters_of_all_workers(shared: WorkersServer, client: ServiceBusClient) -> None:
    with (
        events(shared, "?kind=dead-lettered") as stream,
        client.get_queue_sender("parts-2") as sender,
        client.get_queue_receiver("parts-2") as receiver,
    ):
        for number in range(20):
            sender.send_messages(ServiceBusMessage(str(number)))
        held = 0
        while held < 20:
            for message in receiver.receive_messages(20, max_wait_time=30):
                receiver.dead_letter_message(message, reason="test")
                held += 1
        count = 0
        while count < 20:
            count += stream.until("dead-lettered", entity="parts-2")["count"]
        assert count == 20
        assert {event["worker"] for event in stream.seen} == {0, 1}


def test_the_level_of_every_worker(shared: WorkersServer) -> None:
    admin = JsonAdmin(shared)
    try:
        told = admin.ask("PUT", "/log", {"level": "warning"})["workers"]
        assert told == [{"worker": n, "level": "warning"} for n in range(2)]
    finally:
        admin.ask("PUT", "/log", {"level": "info"})
