"""The hash of partition keys: values that must never change, and an even spread."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partibus.domain.partition_key import fragment_index, key_hash

# The table of docs/reference/partitioning.md. A key's messages lie where these values put them:
# a change here is a loss of order for every partitioned entity that exists.
VECTORS = [
    # key, hash, index of 16 fragments, of 4, of 3
    ("", 0x00000000, 0, 0, 0),
    ("a", 0xC5ED31B7, 7, 3, 0),
    ("b", 0xD128373C, 12, 0, 1),
    ("A", 0xC272D52C, 12, 0, 1),
    (" a", 0xAB71F5B8, 8, 0, 2),
    ("order-1", 0xDE41E708, 8, 0, 1),
    ("order-2", 0xD87C669F, 15, 3, 1),
    ("customer-42", 0xEEB4C033, 3, 3, 1),
    ("Größe", 0x516C0252, 2, 2, 0),
    ("日本語", 0x5945ABD6, 6, 2, 0),
    ("\N{ROCKET}", 0xAABD94AE, 14, 2, 0),
    ("a" * 128, 0xEA7E2A9A, 10, 2, 1),
]


@pytest.mark.rule("SEED-28")
@pytest.mark.parametrize(("key", "value", "of_16", "of_4", "of_3"), VECTORS)
def test_reference_values(key: str, value: int, of_16: int, of_4: int, of_3: int) -> None:
    assert key_hash(key) == value
    assert [fragment_index(key, count) for count in (16, 4, 3)] == [of_16, of_4, of_3]


def test_the_documented_steps_are_the_hash() -> None:
    """Written out once more, as a port to another language would."""
    from zlib import crc32

    for key, value, *_ in VECTORS:
        x = crc32(key.encode("utf-8"))
        x = ((x ^ (x >> 16)) * 0x85EBCA6B) % 2**32
        x = ((x ^ (x >> 13)) * 0xC2B2AE35) % 2**32
        assert x ^ (x >> 16) == value


@given(st.text(), st.integers(1, 1024))
@settings(deadline=None)
def test_a_key_always_has_one_fragment(key: str, count: int) -> None:
    index = fragment_index(key, count)
    assert 0 <= index < count
    assert fragment_index(key, count) == index


def test_a_key_that_is_no_valid_text_has_a_fragment_too() -> None:
    assert 0 <= fragment_index("\ud800", 16) < 16


def test_numbered_keys_spread_within_one_percent() -> None:
    keys, fragments = 1_000_000, 16
    counts = Counter(fragment_index(f"customer-{n}", fragments) for n in range(keys))
    even = keys / fragments
    assert max(abs(count - even) for count in counts.values()) < 0.01 * even


@given(
    prefix=st.text(max_size=12),
    suffix=st.text(max_size=12),
    step=st.integers(1, 1000),
    fragments=st.sampled_from([2, 3, 4, 7, 16, 64]),
)
@settings(deadline=None, max_examples=60)
def test_keys_that_differ_in_little_spread_as_chance_would(
    prefix: str, suffix: str, step: int, fragments: int
) -> None:
    keys = 4_000
    counts = Counter(fragment_index(f"{prefix}{n * step}{suffix}", fragments) for n in range(keys))
    even = keys / fragments
    chi_square = sum((counts[index] - even) ** 2 / even for index in range(fragments))
    # Mean plus eight standard deviations of chi-square: chance stays far below it.
    freedom = fragments - 1
    assert chi_square < freedom + 8 * (2 * freedom) ** 0.5 + 8
