"""Messages with ids, and what a queue shows of them, through the stock Python client."""

from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage

from conformance.settlement.bus import Bus

SHOWN_MAX = 250


def letter(message_id: str | None, body: str = "x", **fields: object) -> ServiceBusMessage:
    """A message with an id."""
    return ServiceBusMessage(body, message_id=message_id, **fields)  # type: ignore[arg-type]


def shown(bus: Bus, queue: str) -> list[ServiceBusReceivedMessage]:
    """All that the queue holds, in the order of peek."""
    found: list[ServiceBusReceivedMessage] = []
    with bus.receiver(queue) as receiver:
        while more := receiver.peek_messages(
            SHOWN_MAX, sequence_number=found[-1].sequence_number + 1 if found else 0
        ):
            found += more
    return found


def shown_ids(bus: Bus, queue: str) -> list[str | None]:
    """The ids of all that the queue holds."""
    return [message.message_id for message in shown(bus, queue)]
