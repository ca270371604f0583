"""Receiving through the stock clients without guessing at times.

A receive call returns as soon as anything came, so a wanted number of messages is collected
over several calls. The wait is a limit against hanging, not something a passing test sits out.
"""

from typing import Final

from azure.servicebus import ServiceBusReceivedMessage, ServiceBusReceiver
from azure.servicebus.aio import ServiceBusReceiver as AsyncServiceBusReceiver

WAIT_SECONDS_MAX: Final = 30


def collect(receiver: ServiceBusReceiver, count: int) -> list[ServiceBusReceivedMessage]:
    """Exactly this many messages, in order of delivery."""
    messages: list[ServiceBusReceivedMessage] = []
    while len(messages) < count:
        batch = receiver.receive_messages(
            max_message_count=count - len(messages), max_wait_time=WAIT_SECONDS_MAX
        )
        assert batch, f"only {len(messages)} of {count} messages came"
        messages += batch
    return messages


async def collect_async(
    receiver: AsyncServiceBusReceiver, count: int
) -> list[ServiceBusReceivedMessage]:
    """The same with the asynchronous client."""
    messages: list[ServiceBusReceivedMessage] = []
    while len(messages) < count:
        batch = await receiver.receive_messages(
            max_message_count=count - len(messages), max_wait_time=WAIT_SECONDS_MAX
        )
        assert batch, f"only {len(messages)} of {count} messages came"
        messages += batch
    return messages


def bodies(messages: list[ServiceBusReceivedMessage]) -> list[str]:
    """The bodies as text."""
    return [str(message) for message in messages]
