"""Where a read begins and ends.

Owns how the options become a number in every fragment: explicit numbers, a time, the earliest or
the latest message, or the position of a cursor. It must never change anything on the bus. A
fragment that does not answer is waited for, and then an error: starting without it would omit its
messages.
"""

from pyspark_servicebus.source.reading import Answers, Reading, require


def starting_positions(reading: Reading) -> dict[int, int]:
    """The first number to read, of every fragment."""
    options = reading.options
    indexes = reading.fragments()
    if options.starting_positions:
        return {index: options.starting_positions.get(index, 0) for index in indexes}
    if options.starting_timestamp_ms is not None:
        return positions_at(reading, options.starting_timestamp_ms)
    if options.starting_position == "latest":
        return latest_positions(reading)
    if options.starting_position is None and options.cursor:
        cursors = cursor_positions(reading)
        return {index: cursors.get(index, 0) for index in indexes}
    return dict.fromkeys(indexes, 0)


def ending_positions(reading: Reading) -> dict[int, int]:
    """The first number that is not read, of the fragments with such an end."""
    options = reading.options
    if options.ending_timestamp_ms is not None:
        return positions_at(reading, options.ending_timestamp_ms)
    return dict(options.ending_positions)


def positions_at(reading: Reading, timestamp_ms: int) -> dict[int, int]:
    """The number of the first message that was enqueued at or after a time, of every fragment."""
    found = _answers(reading, "find", timestamp_ms=timestamp_ms)
    return {index: answer["number"] for index, answer in found.items()}


def latest_positions(reading: Reading) -> dict[int, int]:
    """The number that the next message will have, of every fragment."""
    found = _answers(reading, "status", sub_queue=reading.options.sub_queue)
    return {index: answer["end"] for index, answer in found.items()}


def cursor_positions(reading: Reading) -> dict[int, int]:
    """The positions of the cursor in the options, in the fragments that have it."""
    name = reading.options.cursor
    return {
        index: int(cursor["position"])
        for index, answer in _answers(reading, "cursors").items()
        for cursor in answer["cursors"]
        if cursor["name"] == name
    }


def _answers(reading: Reading, action: str, **fields: object) -> Answers:
    indexes = reading.fragments()
    retry_s = reading.options.retry_s
    return require(reading.ask(action, indexes, retry_s=retry_s, **fields), action)
