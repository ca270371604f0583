"""Messages that let time pass for a stream that counts by the time of enqueueing."""

from typing import Any

from azure.servicebus import ServiceBusMessage

from spark.bus import Bus


def tick(bus: Bus, queue: str) -> Any:
    """Send a message; the whole second in which it was enqueued."""
    bus.send(queue, ServiceBusMessage("tick"))
    newest = max(message.enqueued_time_utc for message in bus.peek(queue))
    return newest.replace(microsecond=0)
