"""Topics of the Spark tests: fresh ones, each with a subscription for everything and one for red.

Owns their declaration, messages into them by the bulk path, and the options of a read from a
subscription.
"""

import itertools
from typing import Final

from partibus.client.message import OutgoingMessage
from pyspark_servicebus.bus import discover
from spark.bus import FRAGMENTS, Bus

COUNT: Final = 12
_TOPIC: Final = """
[[topic]]
name = "topic-{number}"
enable_partitioning = true
partition_count = {fragments}
[[topic.subscription]]
name = "all"
[[topic.subscription]]
name = "red"
[[topic.subscription.rule]]
name = "red"
sql_filter = "colour = 'red'"
"""
COLOURS: Final = ("red", "green", "blue")
_numbers = itertools.count()


def declaration() -> str:
    """All topics, for the file of the namespace."""
    return "".join(_TOPIC.format(number=n, fragments=FRAGMENTS) for n in range(COUNT))


def new_topic() -> str:
    """A topic that no other test uses."""
    number = next(_numbers)
    assert number < COUNT, "declare more topics"
    return f"topic-{number}"


def coloured(count: int, first: int = 0) -> list[bytes]:
    """Encoded messages, every third of them red; their ids are their numbers."""
    return [
        OutgoingMessage(
            body=f"{number:06d}".encode(),
            message_id=f"id-{number}",
            subject=COLOURS[number % 3],
            properties={"colour": COLOURS[number % 3], "number": number},
        ).encode()
        for number in range(first, first + count)
    ]


def fill(bus: Bus, path: str, messages: list[bytes]) -> None:
    """Send to a queue or a topic by the bulk path."""
    flight = bus.flight(path)
    location = discover(flight.access, path).locations[0]
    assert location is not None
    [answer] = flight.put(location, [messages])
    assert answer["accepted"] == len(messages), answer


def options(bus: Bus, topic: str, subscription: str = "all", **given: object) -> dict[str, str]:
    """The options of a read from a subscription."""
    named = {"topic": topic, "subscription": subscription}
    found = {"connectionString": bus.connection_string, **named}
    return found | {name: str(value) for name, value in given.items()}


def path_of(topic: str, subscription: str = "all") -> str:
    return f"{topic}/Subscriptions/{subscription}"
