"""Times as HTTP writes them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partibus.rest.http_date import from_http_date, to_http_date


def test_the_example_of_the_rfc() -> None:
    assert from_http_date("Sun, 06 Nov 1994 08:49:37 GMT") == 784_111_777_000
    assert to_http_date(784_111_777_999) == "Sun, 06 Nov 1994 08:49:37 GMT"


@settings(deadline=None)
@given(st.integers(0, 253_402_300_799))
def test_there_and_back(seconds: int) -> None:
    assert from_http_date(to_http_date(seconds * 1000)) == seconds * 1000


@pytest.mark.parametrize("at_ms", [-1, 1 << 63])
def test_what_cannot_be_written_is_moved_to_what_can(at_ms: int) -> None:
    assert from_http_date(to_http_date(at_ms)) is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        "Sun, 06 Nov 1994 08:49:3\u0967 GMT",
    ],
)
def test_other_forms_are_no_times(text: str) -> None:
    assert from_http_date(text) is None
