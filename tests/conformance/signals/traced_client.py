"""A program of a user with the stock client's tracing switched on, in a process of its own.

Tracing is a setting of the whole process, which must not reach other tests. Called with a
connection string, the entity to send to, the one to receive from, and how to settle; prints the
id of the trace.
"""

import sys

from azure.core.settings import settings
from azure.core.tracing.ext.opentelemetry_span import OpenTelemetrySpan

settings.tracing_implementation = OpenTelemetrySpan

from azure.servicebus import ServiceBusClient, ServiceBusMessage  # noqa: E402
from opentelemetry import trace  # noqa: E402
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: E402
from opentelemetry.sdk.trace import TracerProvider  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON  # noqa: E402


def main(connection: str, target: str, source: str, settlement: str) -> None:
    sampler = ALWAYS_OFF if settlement == "unsampled" else ALWAYS_ON
    provider = TracerProvider(sampler=sampler)
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    tracer = trace.get_tracer("shop")
    topic, _, subscription = source.partition("/")
    with ServiceBusClient.from_connection_string(connection) as client:
        with tracer.start_as_current_span("checkout") as span:
            with client.get_queue_sender(target) as sender:
                sender.send_messages(ServiceBusMessage("order", message_id="order-1"))
            print(f"{span.get_span_context().trace_id:032x}")
        receiver = (
            client.get_subscription_receiver(topic, subscription)
            if subscription
            else client.get_queue_receiver(source)
        )
        with receiver:
            (message,) = receiver.receive_messages(1, max_wait_time=30)
            if settlement == "dead_letter":
                receiver.dead_letter_message(message, reason="test")
            else:
                receiver.complete_message(message)
    provider.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
