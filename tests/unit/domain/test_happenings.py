"""The memory of what happened is bounded, and says what it has lost."""

from partibus.domain.happenings import Happenings


def numbers(happenings: Happenings, after: int, most: int = 100) -> tuple[list[int], int]:
    events, missed = happenings.after(after, most)
    return [event["number"] for event in events], missed


def test_a_reader_gets_what_is_new_in_pages() -> None:
    happenings = Happenings(10)
    for count in range(5):
        happenings.note("store", count=count)
    assert numbers(happenings, 0) == ([1, 2, 3, 4, 5], 0)
    assert numbers(happenings, 3) == ([4, 5], 0)
    assert numbers(happenings, 0, most=2) == ([1, 2], 0)
    assert numbers(happenings, 5) == ([], 0)


def test_a_slow_reader_hears_of_a_gap() -> None:
    happenings = Happenings(3)
    for _ in range(10):
        happenings.note("store")
    assert numbers(happenings, 2) == ([8, 9, 10], 5)


def test_a_number_of_the_process_before_begins_anew() -> None:
    happenings = Happenings(3)
    happenings.note("store")
    assert numbers(happenings, 17) == ([1], 0)
