"""Envelopes: addresses, moments, links."""

from partibus.atom.documents import Caller, Page, feed_document
from partibus.domain.quantities import moment_text
from support.management import ATOM

CALLER = Caller("https", "bus.example:5300", "2021-05")


def test_addresses_are_those_of_the_caller() -> None:
    assert CALLER.url("a/b") == "https://bus.example:5300/a/b?api-version=2021-05"
    assert Caller("http", "h").url("q") == "http://h/q"
    assert CALLER.entity_address("q") == "sb://bus.example:5300/q"


def test_moments_are_in_utc_with_milliseconds() -> None:
    assert moment_text(0) == "1970-01-01T00:00:00.000Z"
    assert moment_text(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"


def test_a_last_page_has_one_link_and_others_two() -> None:
    """The Python client takes the second of exactly two for the way on (amqp-contract 12.2)."""
    last = feed_document("$Resources/queues", [], Page(10, 5), False, CALLER, 0)
    assert last.count("<link ") == 1
    more = feed_document("$Resources/queues", [], Page(10, 5), True, CALLER, 0)
    assert more.count("<link ") == 2
    assert (
        'rel="next" href="https://bus.example:5300/$Resources/queues?$skip=15&amp;$top=5&amp;'
        in more
    )
    assert f'<feed xmlns="{ATOM}">' in more
