"""What a message is in a profile that stands for a tier, by the stock Python client."""

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode

from support.receiving import collect
from support.server import ServerProcess


@pytest.fixture(scope="module")
def standard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("standard")
    config = directory / "namespace.toml"
    config.write_text(
        '[[queue]]\nname = "plain"\n\n[[queue]]\nname = "sessions"\nrequires_session = true\n',
        encoding="utf-8",
    )
    with ServerProcess(directory, config, "--profile", "standard") as process:
        yield process


@pytest.fixture
def client(standard: ServerProcess) -> Iterator[ServiceBusClient]:
    with ServiceBusClient.from_connection_string(standard.connection_string) as client:
        yield client


@pytest.mark.rule("SEED-93")
@pytest.mark.filterwarnings("ignore:The `message` property:DeprecationWarning")
@pytest.mark.parametrize(("queue", "session_id"), [("plain", None), ("sessions", "s")])
def test_what_is_received_and_deleted_has_an_empty_delivery_tag(
    client: ServiceBusClient, queue: str, session_id: str | None
) -> None:
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("gone", session_id=session_id))
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with client.get_queue_receiver(
        queue, session_id=session_id, receive_mode=mode, max_wait_time=10
    ) as receiver:
        (message,) = collect(receiver, 1)
    assert message.message.delivery_tag is None
    assert message.lock_token is None


@pytest.mark.rule("MSG-5")
def test_a_decimal_can_be_received_by_the_client_that_sent_it(client: ServiceBusClient) -> None:
    """The client writes the standard's layout and reads that of the vendor's .NET library."""
    values: dict[Any, Any] = {
        "small": Decimal("1.2345"),
        "minus": Decimal("-0.5"),
        "whole": Decimal(7),
        "n": 1,
    }
    with client.get_queue_sender("plain") as sender:
        sender.send_messages(ServiceBusMessage("alone", application_properties=dict(values)))
        sender.send_messages([ServiceBusMessage("batch", application_properties=dict(values))])
        later = ServiceBusMessage("later", application_properties=dict(values))
        sender.schedule_messages(later, datetime.now(UTC))
    with client.get_queue_receiver("plain", max_wait_time=10) as receiver:
        for message in collect(receiver, 3):
            given = {key.decode(): value for key, value in message.application_properties.items()}
            assert given == values
            receiver.complete_message(message)
