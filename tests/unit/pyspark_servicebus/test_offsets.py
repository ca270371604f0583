"""Offsets: readable, versioned, and those of earlier releases understood."""

import json

import pytest

from pyspark_servicebus.errors import CheckpointError
from pyspark_servicebus.source.offsets import SourceOffset

EVERY_KIND = [
    SourceOffset(entity_id=7, positions={0: 6, 10: 1}, messages={0: 5}),
    SourceOffset(entity_id=7, batch=0, claim="", messages={}),
    SourceOffset(entity_id=7, batch=3, claim="batch 2", messages={1: 4}, unsettled={2: "batch 1"}),
    SourceOffset(entity_id=7, waiting={0: 30}),
    SourceOffset(batch=2, claim="00000001-ab", count=9),
    SourceOffset(batch=2),
]


@pytest.mark.parametrize("offset", EVERY_KIND)
def test_what_is_written_is_read_again(offset: SourceOffset) -> None:
    assert SourceOffset.from_json(json.loads(json.dumps(offset.as_json()))) == offset


def test_an_offset_is_readable() -> None:
    assert EVERY_KIND[0].as_json() == {
        "version": 2,
        "generation": 7,
        "positions": {"0": 6, "10": 1},
        "messages": {"0": 5},
    }
    assert EVERY_KIND[2].as_json() == {
        "version": 2,
        "generation": 7,
        "batch": 3,
        "claim": "batch 2",
        "messages": {"1": 4},
        "unsettled": {"2": "batch 1"},
    }


@pytest.mark.parametrize(
    ("written", "offset"),
    [
        ('{"v": 1, "g": 7, "f": {"0": 6, "10": 1}, "k": {"0": 5}}', EVERY_KIND[0]),
        ('{"v": 1, "g": 7, "f": {}, "n": 0, "c": "", "u": {}}', EVERY_KIND[1]),
        (
            '{"v": 1, "g": 7, "f": {"1": 4}, "n": 3, "c": "batch 2", "u": {"2": "batch 1"}}',
            EVERY_KIND[2],
        ),
        ('{"v": 1, "n": 2, "c": "00000001-ab", "k": 9}', EVERY_KIND[4]),
        ('{"v": 1, "n": 2}', EVERY_KIND[5]),
        ('{"v": 1, "g": 7, "f": {"0": 6}}', SourceOffset(entity_id=7, positions={0: 6})),
    ],
)
def test_offsets_of_version_1_are_read(written: str, offset: SourceOffset) -> None:
    assert SourceOffset.from_json(json.loads(written)) == offset


def test_what_a_claiming_stream_of_version_1_reported() -> None:
    written = {"v": 1, "g": 7, "f": {"0": 30}, "n": -1, "c": "waiting", "u": {}}
    assert SourceOffset.from_json(written).waiting == {0: 30}


@pytest.mark.parametrize("written", [{"version": 3}, {"v": 0}, {}])
def test_another_version_is_refused(written: dict[str, int]) -> None:
    with pytest.raises(CheckpointError, match="this release reads versions 1 to 2") as caught:
        SourceOffset.from_json(written)
    assert caught.value.getCondition() == "SERVICEBUS_CHECKPOINT.OFFSET_VERSION"


def test_claims_to_be_settled() -> None:
    assert EVERY_KIND[2].held() == {1: "batch 2", 2: "batch 1"}
    assert EVERY_KIND[1].held() == {}
