"""Deferred messages by their numbers, where a peek does not return them.

Owns the reading of messages that every bus allows by number: they are received with a lock and
deferred again at once. A peek is cheaper and locks nothing, but on a partitioned entity a bus may
return messages of another fragment instead (SEED-13); this is for what was missing then.
"""

from collections.abc import Sequence

from partibus.client.message import IncomingMessage
from pyspark_servicebus.over_amqp.browse import Page
from pyspark_servicebus.over_amqp.portions import REQUEST_MESSAGES
from pyspark_servicebus.over_amqp.wire import Wire


def look_by_number(wire: Wire, path: str, numbers: Sequence[int]) -> Page:
    """The deferred messages with these numbers, without those that are not deferred or are
    locked."""
    found: Page = []
    for at in range(0, len(numbers), REQUEST_MESSAGES):
        found += _look(wire, path, numbers[at : at + REQUEST_MESSAGES])
    return found


def _look(wire: Wire, path: str, numbers: Sequence[int]) -> Page:
    async def receive(wire: Wire) -> list[IncomingMessage]:
        node = await wire.management(path)
        messages = await node.receive_deferred(numbers)
        tokens = [message.lock_token for message in messages if message.lock_token is not None]
        if tokens:
            await node.settle(tokens, "defered")
        return messages

    found = wire.ask(receive)
    if not found and len(numbers) > 1:
        # The bus returns all of a request or none (DEF-3).
        half = len(numbers) // 2
        return _look(wire, path, numbers[:half]) + _look(wire, path, numbers[half:])
    return [(message.sequence_number, message.encoded) for message in found]
