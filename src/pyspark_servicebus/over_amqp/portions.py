"""Requests for many messages: how many fit into one.

Owns the limits of one request to the management node: a number of messages and of bytes in the
answer, all of one fragment, since a bus need not accept those of several at once.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from partibus.domain.sequence import fragment_of
from pyspark_servicebus.over_amqp.holding import Holding

REQUEST_MESSAGES: Final = 100
REQUEST_BYTES: Final = 1024 * 1024


def portions(held: Sequence[Holding]) -> Iterator[list[Holding]]:
    """Messages in the portions of one request each."""
    portion: list[Holding] = []
    byte_count = 0
    for one in sorted(held, key=lambda one: one.number):
        if portion and (
            len(portion) >= REQUEST_MESSAGES
            or byte_count + one.byte_count > REQUEST_BYTES
            or fragment_of(one.number) != fragment_of(portion[0].number)
        ):
            yield portion
            portion, byte_count = [], 0
        portion.append(one)
        byte_count += one.byte_count
    if portion:
        yield portion
