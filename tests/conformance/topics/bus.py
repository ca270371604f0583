"""The stock Python client with what tests of topics do again and again."""

from typing import Any

from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiver,
    ServiceBusSender,
)

from conformance.settlement.bus import DEAD_LETTER, Bus
from support.receiving import bodies, collect


class TopicBus(Bus):
    """Senders to topics and receivers of subscriptions of one stock client."""

    def topic_sender(self, topic: str) -> ServiceBusSender:
        return self.client.get_topic_sender(topic)

    def send(self, topic: str, *messages: ServiceBusMessage | str) -> None:
        """Send messages one by one."""
        sender = self.topic_sender(topic)
        for message in messages:
            made = ServiceBusMessage(message) if isinstance(message, str) else message
            sender.send_messages(made)

    def subscriber(self, topic: str, name: str, **options: Any) -> ServiceBusReceiver:
        return self.client.get_subscription_receiver(topic, name, **options)

    def buried(self, topic: str, name: str, **options: Any) -> ServiceBusReceiver:
        return self.subscriber(topic, name, sub_queue=DEAD_LETTER, **options)

    def accept(self, topic: str, name: str, session_id: str | None = None) -> ServiceBusReceiver:
        wanted: Any = NEXT_AVAILABLE_SESSION if session_id is None else session_id
        receiver = self.subscriber(topic, name, session_id=wanted, max_wait_time=10)
        receiver.__enter__()
        return receiver

    def take(self, topic: str, name: str, count: int) -> list[ServiceBusReceivedMessage]:
        """Receive exactly so many messages and complete them; nothing more is there."""
        receiver = self.subscriber(topic, name)
        messages = collect(receiver, count) if count else []
        for message in messages:
            receiver.complete_message(message)
        assert not receiver.peek_messages(10, sequence_number=1)
        return messages

    def texts(self, topic: str, name: str, count: int) -> list[str]:
        """Their bodies, sorted: partitions keep no order among each other."""
        return sorted(bodies(self.take(topic, name, count)))
