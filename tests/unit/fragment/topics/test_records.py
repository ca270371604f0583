"""The records of a topic: their bytes, and what a damaged one is told as."""

import pytest

from partibus.domain.errors import StoreCorrupt
from partibus.fragment.records import DUE_PUBLISHED, NUMBERED, PUBLISHED
from partibus.fragment.spec import NO_SPEC
from partibus.fragment.state import State
from partibus.fragment.topics.records import numbered, pack_due, pack_published, replay_topic


def test_the_bytes_of_a_publication_are_these_for_ever() -> None:
    meta = pack_published(7, 1000, {0: [2, 3], 2000: [4]})
    assert meta.hex() == (
        "0700000000000000" + "e803000000000000"
        "0000000000000000" + "02000000" + "02000000" + "03000000"
        "d007000000000000" + "01000000" + "04000000"
    )
    assert pack_due(5, 7, 1000, {0: [2, 3], 2000: [4]}) == (5).to_bytes(8, "little") + meta
    assert numbered(1, 9).meta == (9).to_bytes(8, "little")
    assert (PUBLISHED, DUE_PUBLISHED, NUMBERED) == (32, 33, 34)


def test_a_publication_is_put_into_every_fragment_it_names() -> None:
    topic, known = State(1, NO_SPEC), State(2, NO_SPEC)
    states = {1: topic, 2: known}
    meta = pack_published(7, 1000, {0: [2, 3], 2000: [4]})
    replay_topic(states, topic, PUBLISHED, meta, 64, 10)
    assert topic.next_sequence == 8
    found = {
        key: [(h.sequence, h.position, h.length, h.expires_ms) for h in s.main.ready.copies(0)]
        for key, s in states.items()
    }
    assert found == {1: [], 2: [(7, 64, 10, 0)], 3: [(7, 64, 10, 0)], 4: [(7, 64, 10, 2000)]}


def test_damage_is_told() -> None:
    topic = State(1, NO_SPEC)
    with pytest.raises(StoreCorrupt, match="truncated"):
        replay_topic({1: topic}, topic, PUBLISHED, pack_published(7, 0, {0: [2, 3]})[:-2], 64, 10)
    with pytest.raises(StoreCorrupt, match="never scheduled"):
        replay_topic({1: topic}, topic, DUE_PUBLISHED, pack_due(5, 7, 0, {}), 0, 0)
