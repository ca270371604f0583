"""Which messages of a write go where."""

import pytest

from partibus.client.message import OutgoingMessage
from partibus.domain.partition_key import fragment_index
from pyspark_servicebus.bus import Entity
from pyspark_servicebus.errors import BulkError
from pyspark_servicebus.sink.delivery import RowMessage, by_owner

PLACES = {0: "a", 1: "b", 2: None, 3: "b"}


def entity(locations: dict[int, str | None], detects_duplicates: bool = False) -> Entity:
    return Entity("q", 1, "queue", False, detects_duplicates, 1 << 20, locations)


def letters(count: int, **fields: str) -> list[RowMessage]:
    texts = {name: value.format for name, value in fields.items()}
    return [
        RowMessage(
            OutgoingMessage(body=b"%d" % n, **{k: v(n) for k, v in texts.items()}).encode(), n
        )
        for n in range(count)
    ]


@pytest.mark.rule("SEED-28", "SEED-30")
@pytest.mark.parametrize("column", ["partition_key", "session_id"])
def test_a_key_selects_the_place_of_its_fragment(column: str) -> None:
    found = by_owner(entity(PLACES), letters(80, **{column: "k{}"}))
    assert found.keys() == {"a", "b"}
    for place, mine in found.items():
        numbers = [letter.origin for letter in mine]
        assert numbers == sorted(numbers, key=int)
        for number in numbers:
            # Where nobody is, anybody is asked and says so.
            assert PLACES[fragment_index(f"k{number}", 4)] in (place, None)


@pytest.mark.rule("SEED-35")
def test_an_id_is_a_key_where_duplicates_are_detected() -> None:
    whole = {index: f"place {index}" for index in range(4)}
    found = by_owner(entity(whole, detects_duplicates=True), letters(40, message_id="m{}"))
    for place, mine in found.items():
        assert {whole[fragment_index(f"m{letter.origin}", 4)] for letter in mine} == {place}


def test_without_keys_the_fragments_have_equal_shares() -> None:
    found = by_owner(entity(PLACES), letters(90, message_id="m{}"))
    assert {place: len(mine) for place, mine in found.items()} == {"a": 30, "b": 60}


def test_one_place_takes_all() -> None:
    mine = letters(3, session_id="s")
    assert by_owner(entity({0: "a", 1: None, 2: "a"}), mine) == {"a": mine}
    with pytest.raises(BulkError, match="No worker") as refused:
        by_owner(entity({0: None}), mine)
    assert refused.value.retryable
