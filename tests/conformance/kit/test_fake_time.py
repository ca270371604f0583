"""Fake time over the wire: what falls due has happened when an advance is answered."""

import datetime
from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import MessageLockLostError, SessionLockLostError

from cli.command import Partibus
from partibus.testing import BusRefused, Namespace, Server, expect
from support.server import ServerProcess

DAY = datetime.timedelta(days=1)


@pytest.fixture
def client(namespace: Namespace) -> Iterator[ServiceBusClient]:
    with ServiceBusClient.from_connection_string(
        namespace.connection_string, retry_total=0
    ) as connected:
        yield connected


def send(client: ServiceBusClient, queue: str, *messages: ServiceBusMessage) -> None:
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(list(messages))


@pytest.mark.rule("LCK-5")
def test_a_lock_ends(namespace: Namespace, client: ServiceBusClient) -> None:
    namespace.create_queue("orders", lock_duration="PT30S")
    send(client, "orders", ServiceBusMessage("a"))
    with client.get_queue_receiver("orders", max_wait_time=10) as receiver:
        (message,) = receiver.receive_messages()
        namespace.clock.advance("29s")
        assert namespace.counts("orders")["locked"] == 1
        namespace.clock.advance("2s")
        assert namespace.counts("orders")["locked"] == 0
        with pytest.raises(MessageLockLostError):
            receiver.complete_message(message)
        (again,) = receiver.receive_messages()
        assert again.delivery_count == 1
        receiver.complete_message(again)
    namespace.assert_empty("orders")


def test_a_session_is_lost(namespace: Namespace, client: ServiceBusClient) -> None:
    namespace.create_queue("orders", requires_session=True, lock_duration="PT1M")
    send(client, "orders", ServiceBusMessage("a", session_id="s"))
    receiver = client.get_queue_receiver(
        "orders", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=10
    )
    with receiver:
        (message,) = receiver.receive_messages()
        namespace.clock.advance("61s")
        with pytest.raises(SessionLockLostError):
            receiver.complete_message(message)


def test_scheduled_messages_arrive_in_their_order(
    namespace: Namespace, client: ServiceBusClient
) -> None:
    namespace.create_queue("orders")
    now = namespace.clock.now()
    with client.get_queue_sender("orders") as sender:
        for days in (5, 2, 9):
            sender.schedule_messages(ServiceBusMessage(f"day {days}"), now + days * DAY)
    namespace.assert_messages("orders", [])
    namespace.assert_messages("orders", ["day 5", "day 2", "day 9"], state="scheduled")
    namespace.clock.advance(datetime.timedelta(days=7))
    namespace.assert_messages("orders", ["day 2", "day 5"])
    found = namespace.messages("orders")
    moments = [message.enqueued_at for message in found if message.state == "active"]
    assert moments[0] is not None
    assert moments[1] is not None
    # Each arrived at its own moment, not at the end of the week.
    assert abs(moments[0] - (now + 2 * DAY)) < datetime.timedelta(minutes=1)
    assert abs(moments[1] - (now + 5 * DAY)) < datetime.timedelta(minutes=1)
    namespace.clock.advance("P2D")
    namespace.assert_messages("orders", ["day 2", "day 5", "day 9"])


def test_a_receiver_that_waits_gets_what_falls_due(
    namespace: Namespace, client: ServiceBusClient
) -> None:
    namespace.create_queue("orders")
    with (
        client.get_queue_sender("orders") as sender,
        client.get_queue_receiver("orders", prefetch_count=5) as receiver,
    ):
        sender.schedule_messages(ServiceBusMessage("a"), namespace.clock.now() + 7 * DAY)
        namespace.clock.advance("7d")
        (message,) = receiver.receive_messages(max_wait_time=10)
        receiver.complete_message(message)


@pytest.mark.parametrize(("dead_letters", "left"), [(True, 1), (False, 0)])
def test_messages_do_not_live_for_ever(
    namespace: Namespace, client: ServiceBusClient, dead_letters: bool, left: int
) -> None:
    namespace.create_queue(
        "orders",
        default_message_time_to_live="P6D",
        dead_lettering_on_message_expiration=dead_letters,
    )
    send(client, "orders", ServiceBusMessage("a"), ServiceBusMessage("b", time_to_live=DAY))
    namespace.clock.advance("1d")
    namespace.assert_messages("orders", ["a"])
    namespace.clock.advance("6d")
    counts = namespace.counts("orders")
    assert (counts["active"], counts["dead_letter"]) == (0, 2 * left)


def test_an_idle_queue_goes_and_a_used_one_stays(
    namespace: Namespace, client: ServiceBusClient
) -> None:
    for name in ("used", "idle"):
        namespace.create_queue(name, auto_delete_on_idle="PT10M")
    namespace.clock.advance("9m")
    send(client, "used", ServiceBusMessage("a"))
    namespace.clock.advance("9m")
    assert namespace.entities() == ["used"]
    namespace.clock.advance("10m")
    assert namespace.entities() == []


def test_a_queue_that_goes_before_a_message_falls_due_does_not_get_it(
    namespace: Namespace, client: ServiceBusClient
) -> None:
    namespace.create_queue("target", auto_delete_on_idle="P1D")
    namespace.create_queue("source", forward_to="target")
    with client.get_queue_sender("source") as sender:
        sender.schedule_messages(ServiceBusMessage("late"), namespace.clock.now() + 3 * DAY)
    namespace.clock.advance("7d")
    assert namespace.entities() == ["source"]
    namespace.assert_dead_letters("source", ["late"])


def test_what_falls_due_goes_its_way(namespace: Namespace, client: ServiceBusClient) -> None:
    namespace.create_queue("target")
    namespace.create_queue("source", forward_to="target")
    with client.get_queue_sender("source") as sender:
        sender.schedule_messages(ServiceBusMessage("a"), namespace.clock.now() + 3 * DAY)
    namespace.clock.advance("3d")
    namespace.assert_messages("target", ["a"])


def test_duplicates_are_forgotten(namespace: Namespace, client: ServiceBusClient) -> None:
    namespace.create_queue(
        "orders",
        requires_duplicate_detection=True,
        duplicate_detection_history_time_window="PT10M",
    )
    message = {"body": "a", "message_id": "1"}
    send(client, "orders", ServiceBusMessage(**message))
    namespace.clock.advance("9m")
    send(client, "orders", ServiceBusMessage(**message))
    namespace.assert_messages("orders", ["a"])
    namespace.clock.advance("10m")
    send(client, "orders", ServiceBusMessage(**message))
    namespace.assert_messages("orders", ["a", "a"])


def test_connections_and_tokens_outlive_a_year(
    namespace: Namespace, client: ServiceBusClient
) -> None:
    namespace.create_queue("orders")
    with client.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage("a"))
        for _ in range(52):
            namespace.clock.advance("7d")
        sender.send_messages(ServiceBusMessage("b"))
    namespace.assert_messages("orders", ["a", "b"])


def test_a_fault_ends_in_its_own_time(namespace: Namespace) -> None:
    namespace.faults.store_down(lasting="30s")
    namespace.clock.advance("10s")
    (active,) = namespace.faults.active()
    assert active["left_ms"] <= 20_000
    namespace.clock.advance("20s")
    assert namespace.faults.active() == []


def test_a_week_of_one_namespace_is_nothing_to_another(
    kit_server: Server, namespace: Namespace
) -> None:
    with kit_server.namespace() as other:
        before = other.clock.now()
        namespace.clock.advance("7d")
        assert other.clock.advanced == datetime.timedelta()
        assert other.clock.now() - before < DAY
        assert namespace.clock.advanced >= 7 * DAY


@pytest.mark.parametrize(
    ("by", "said"),
    [
        ("a week", "'a week' is not a valid duration"),
        ("0s", "at most 3650d"),
        ("4000d", "at most 3650d"),
        ("PX", "is not an ISO 8601 duration"),
    ],
)
def test_an_advance_that_makes_no_sense(namespace: Namespace, by: str, said: str) -> None:
    with pytest.raises(BusRefused, match=said):
        namespace.clock.advance(by)


def test_dead_letters_say_why(namespace: Namespace, client: ServiceBusClient) -> None:
    namespace.create_queue("orders", max_delivery_count=1)
    send(client, "orders", ServiceBusMessage("a", subject="s"))
    with client.get_queue_receiver("orders", max_wait_time=10) as receiver:
        (message,) = receiver.receive_messages()
        receiver.abandon_message(message)
    namespace.assert_dead_letters(
        "orders", [expect("a", subject="s", dead_letter_reason="MaxDeliveryCountExceeded")]
    )


# --- the command line --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def testing_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("testing")
    config = directory / "entities.toml"
    config.write_text('[[queue]]\nname = "declared"\n')
    with ServerProcess(directory, config, "--testing") as process:
        yield process


def test_by_command_line(testing_process: ServerProcess) -> None:
    own = Partibus(testing_process.connection_string)
    made = own("namespace", "create").out.strip()
    partibus = Partibus(made)
    assert "SharedAccessKeyName=test-" in made
    assert partibus("entity", "list").out.count("declared") == 1
    partibus("queue", "create", "orders", "--ttl", "6d")
    partibus("send", "orders", "hello")
    assert "7d" not in partibus("clock", "show").out
    assert "168h" in partibus("clock", "advance", "7d").out
    assert partibus("clock", "show", "--json").json["advanced_ms"] == 7 * 86_400_000
    assert partibus("peek", "orders").out == ""
    partibus("namespace", "reset")
    assert "orders" not in partibus("entity", "list").out
    assert "declared" in partibus("entity", "list").out
    name = made.partition("SharedAccessKeyName=")[2].partition(";")[0]
    assert own("namespace", "list").out.split() == [name]
    own("namespace", "delete", name)
    assert own("namespace", "list").out == ""


def test_another_server_refuses(server: ServerProcess) -> None:
    partibus = Partibus(server.connection_string)
    for verb in (
        ("clock", "advance", "7d"),
        ("clock", "show"),
        ("namespace", "create"),
        ("namespace", "list"),
        ("namespace", "reset"),
    ):
        done = partibus.try_(*verb)
        assert done.code == 1
        assert "--testing" in done.err
        assert len(done.err.splitlines()) == 1
