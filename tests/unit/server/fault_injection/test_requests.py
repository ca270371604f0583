"""What may be asked for as a fault, and what is said about the rest."""

import pytest

from partibus.domain.errors import ArgumentError
from partibus.server.fault_injection.requests import (
    ConnectionsFault,
    LatencyFault,
    LocksFault,
    StoreFault,
    ThrottleFault,
    WorkerFault,
    read_request,
    write_request,
)


@pytest.mark.parametrize(
    "request_",
    [
        StoreFault(store=1, mode="slow", delay_ms=50, for_ms=1000),
        LatencyFault(rtt_ms=70, store_ms=10),
        ThrottleFault(entity="orders", rate_per_s=0.5),
        LocksFault(entity="orders"),
        ConnectionsFault(),
        WorkerFault(worker=2),
    ],
)
def test_a_request_survives_the_way_to_another_process(request_: object) -> None:
    assert read_request(write_request(request_)) == request_


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ({}, "kind"),
        ({"kind": "earthquake"}, "earthquake"),
        ({"kind": "store", "store": 1, "mode": "gone"}, "gone"),
        ({"kind": "store", "mode": "down"}, "store"),
        ({"kind": "store", "store": 1, "mode": "down", "force": 1}, "force"),
        ({"kind": "store", "store": 1, "mode": "slow"}, "'delay_ms' is 0; allowed: 1 to"),
        ({"kind": "latency", "rtt_ms": -1}, "'rtt_ms' is -1"),
        ({"kind": "latency", "rtt_ms": 1, "for_ms": 0}, "'for_ms' is 0"),
        ({"kind": "throttle", "entity": "q", "rate_per_s": -5}, "'rate_per_s' is -5"),
        ("store 1 down", "object"),
    ],
)
def test_anything_else_is_refused_with_the_reason(payload: object, words: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        read_request(payload)
    assert words in caught.value.text
