"""Sequence numbers as clients see them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partibus.domain.sequence import (
    SEQUENCE_MAX,
    client_sequence,
    fragment_end,
    fragment_of,
    number_of,
    split_sequence,
)


@pytest.mark.rule("SEQ-4")
@given(st.integers(0, 0xFFFF), st.integers(0, SEQUENCE_MAX))
def test_the_top_16_bits_are_the_fragment(index: int, number: int) -> None:
    sequence = client_sequence(index, number)
    assert sequence >> 48 == index
    assert split_sequence(sequence) == (index, number)
    assert (fragment_of(sequence), number_of(sequence)) == (index, number)
    assert fragment_of(fragment_end(sequence)) == index + 1
    assert number_of(fragment_end(sequence)) == 0
