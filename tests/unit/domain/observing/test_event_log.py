"""The memory of what happened is bounded, and says what it has lost."""

from partibus.domain.observing.event_log import EventLog


def numbers(event_log: EventLog, after: int, most: int = 100) -> tuple[list[int], int]:
    events, missed = event_log.after(after, most)
    return [event["number"] for event in events], missed


def test_a_reader_gets_what_is_new_in_pages() -> None:
    event_log = EventLog(10)
    for count in range(5):
        event_log.note("store", count=count)
    assert numbers(event_log, 0) == ([1, 2, 3, 4, 5], 0)
    assert numbers(event_log, 3) == ([4, 5], 0)
    assert numbers(event_log, 0, most=2) == ([1, 2], 0)
    assert numbers(event_log, 5) == ([], 0)


def test_a_slow_reader_hears_of_a_gap() -> None:
    event_log = EventLog(3)
    for _ in range(10):
        event_log.note("store")
    assert numbers(event_log, 2) == ([8, 9, 10], 5)


def test_a_number_of_the_process_before_begins_anew() -> None:
    event_log = EventLog(3)
    event_log.note("store")
    assert numbers(event_log, 17) == ([1], 0)
