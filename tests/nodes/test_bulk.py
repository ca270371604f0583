"""The bulk path of a cluster: each fragment is reached at the node that owns its lane."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from adversity.waiting import wait_until
from partibus.client.message import OutgoingMessage
from support.groups import absent_groups
from support.json_admin import JsonAdmin

if TYPE_CHECKING:
    from conformance.bulk.client import BulkClient
    from support.nodes.cluster import TestCluster

pytestmark = [pytest.mark.group("postgres"), pytest.mark.group("flight")]
if "flight" not in absent_groups():
    from conformance.bulk.client import BulkClient, Refused

FRAGMENTS = 16
CLAIM = {"owner": "reader", "epoch": 1, "start": "batch 0"}


def letters(count: int) -> list[bytes]:
    return [OutgoingMessage(body=b"%d" % number).encode() for number in range(count)]


def put(bulk: "BulkClient", queue: str, count: int) -> None:
    [answer] = bulk.put(queue, letters(count))
    assert answer == {"accepted": count, "duplicates": 0, "refused": []}


def bodies(bulk: "BulkClient", queue: str) -> list[int]:
    """The numbers of all messages, read at the owners."""
    return [
        int(body)
        for index in range(FRAGMENTS)
        for batch in bulk.read(queue, index, form="parts")
        for body in batch.column("body").to_pylist()
    ]


def test_each_fragment_is_read_and_claimed_at_its_owner(shared: "TestCluster") -> None:
    bulk = BulkClient(shared.nodes[0])
    put(bulk, "parts", 200)
    locations = bulk.locations("parts")
    assert len(set(locations.values())) == 3
    assert locations == BulkClient(shared.nodes[2]).locations("parts")
    assert sorted(bodies(bulk, "parts")) == list(range(200))
    held = 0
    for index in range(FRAGMENTS):
        limits = {str(index): {"messages": 1000, "bytes": 1 << 30}}
        told = bulk.ask("parts", "claim", index, **CLAIM, duration_ms=60_000, limits=limits)
        held += told["fragments"][str(index)]["count"]
    assert held == 200
    [claim] = JsonAdmin(shared.nodes[1]).ask("GET", "/entities/parts/claims")["claims"]
    assert (claim["owner"], claim["messages"]) == ("reader", 200)
    settled = [
        bulk.ask("parts", "settle", index, **CLAIM, fragments=[index])["fragments"][str(index)]
        for index in range(FRAGMENTS)
    ]
    assert sum(answer["count"] for answer in settled) == 200
    assert bodies(bulk, "parts") == []


def test_a_fragment_that_is_elsewhere_is_looked_up_again(shared: "TestCluster") -> None:
    bulk = BulkClient(shared.nodes[0])
    locations = bulk.locations("parts")
    other = next(i for i in range(FRAGMENTS) if locations[i] != locations[0])
    body = json.dumps({"entity": "parts", "fragments": [other]}).encode()
    with pytest.raises(Refused, match=f"Fragment {other} of 'parts' is not served") as refused:
        bulk.raw_action(locations[0], "status", body)
    assert refused.value.retryable
    ticket = json.dumps({"entity": "parts", "fragment": other, "mode": "range"}).encode()
    with pytest.raises(Refused, match="not served here") as refused:
        bulk.raw_read(locations[0], ticket)
    assert refused.value.retryable
    with pytest.raises(Refused, match="has no fragment 16; it has 16") as refused:
        bulk.ask("parts", "status", fragments=[16])
    assert not refused.value.retryable


def test_the_home_of_stages_moves_with_its_lane(
    new_cluster: Callable[[int], "TestCluster"],
) -> None:
    """A stage that was begun at one owner is added to at the next, and published there."""
    cluster = new_cluster(2)
    bulk = BulkClient(cluster.nodes[0])
    stage: dict[str, Any] = {"deliver": "staged", "writer": "w", "epoch": 1, "stage": "s"}
    places = set()
    numbers = [node.number for node in cluster.nodes]
    for chunk, (drained, other) in enumerate((numbers, reversed(numbers))):
        cluster.ask(lambda at, number=other: at.resume(number))
        cluster.ask(lambda at, number=drained: at.drain(number, 60))
        wait_until(lambda: bulk.locations("plain")[0] is not None, "it is served")
        places.add(bulk.locations("plain")[0])
        [answer] = bulk.put("plain", letters(10), **stage, chunk=chunk)
        assert answer["accepted"] == 10
    assert len(places) == 2
    batch = {"writer": "w", "series": "x", "epoch": 1, "batch": 0, "stages": [["s", 20]]}
    assert bulk.ask("plain", "stage.publish", **batch) == {"published": 20, "repeated": False}
    assert bulk.ask("plain", "stage.publish", **batch) == {"published": 0, "repeated": True}
