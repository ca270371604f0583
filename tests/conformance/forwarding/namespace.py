"""The queues that the tests of forwarding run against; each test has its own.

Owns the routes: a name for what a test does, with the queues it goes through.
"""

from pathlib import Path
from typing import Final

from conformance.settlement.namespace import write_queues

STORES: Final = 4


def _to(target: str) -> dict[str, str]:
    return {"forward_to": f'"{target}"'}


def _buried_in(target: str) -> dict[str, str]:
    return {"forward_dead_lettered_messages_to": f'"{target}"'}


_PARTED: Final = {"enable_partitioning": "true", "partition_count": "4"}
_MOURNS: Final = {"dead_lettering_on_message_expiration": "true"}

QUEUES: Final[dict[str, dict[str, str]]] = {
    "plain-in": _to("plain-out"),
    "plain-out": {},
    "address-in": _to("sb://somewhere.example.net/address-out"),
    "address-out": {},
    "kept-in": _to("kept-out"),
    "kept-out": {},
    "timed-in": _to("timed-out") | {"default_message_time_to_live": '"PT1S"'},
    "timed-out": {},
    "capped-in": _to("capped-out"),
    "capped-out": {"default_message_time_to_live": '"PT30S"'},
    "later-in": _to("later-out"),
    "later-out": {},
    "closed-in": _to("closed-out"),
    "closed-out": {},
    # Chains of five and six queues: four hops and five.
    **{f"four-{n}": _to(f"four-{n + 1}") for n in range(4)},
    "four-4": {},
    **{f"five-{n}": _to(f"five-{n + 1}") for n in range(5)},
    "five-5": {},
    # Partitioned at either end.
    "spread-in": _PARTED | _to("spread-middle"),
    "spread-middle": _PARTED | _to("spread-out"),
    "spread-out": _PARTED,
    "gather-in": _PARTED | _to("gather-out"),
    "gather-out": {},
    "scatter-in": _to("scatter-out"),
    "scatter-out": _PARTED,
    "keyless-in": _to("keyless-out"),
    "keyless-out": _PARTED,
    # Destinations that refuse.
    "disabled-in": _to("disabled-out"),
    "disabled-out": {"status": '"SendDisabled"'},
    "full-in": _to("full-out"),
    "full-out": {"max_size_in_megabytes": "1"},
    "narrow-in": _to("narrow-out"),
    "narrow-out": {"max_message_size_in_kilobytes": "16"},
    "session-in": _to("session-out"),
    "session-out": {"requires_session": "true"},
    # Duplicates are detected at the destination.
    "twins-in-0": _to("twins-out"),
    "twins-in-1": _to("twins-out"),
    "twins-out": {"requires_duplicate_detection": "true"},
    "parted-twins-in": _PARTED | _to("parted-twins-out"),
    "parted-twins-out": _PARTED | {"requires_duplicate_detection": "true"},
    # Dead letters go on.
    "asked": _buried_in("asked-grave"),
    "asked-grave": {},
    "worn": _buried_in("worn-grave") | {"max_delivery_count": "2"},
    "worn-grave": {},
    "expired": _buried_in("expired-grave") | _MOURNS,
    "expired-grave": _MOURNS,
    "session-asked": _buried_in("session-grave") | {"requires_session": "true"},
    "session-grave": {},
    "parted-asked": _PARTED | _buried_in("parted-grave"),
    "parted-grave": {},
    "shut-asked": _buried_in("shut-grave"),
    "shut-grave": {"status": '"SendDisabled"'},
    "both": _to("both-shut") | _buried_in("both-grave"),
    "both-shut": {"status": '"SendDisabled"'},
    "both-grave": {},
    # Two graveyards that bury in each other: a circle that ends by the count of hops.
    "round-0": _buried_in("round-1") | {"max_delivery_count": "1"},
    "round-1": _buried_in("round-0") | {"max_delivery_count": "1"},
    # Queues that forward to themselves and to each other.
    "own": _to("own") | _buried_in("own"),
    "own-parted": _PARTED | _to("own-parted") | {"requires_duplicate_detection": "true"},
    "ring-0": _to("ring-1"),
    "ring-1": _to("ring-2"),
    "ring-2": _to("ring-0"),
    # A source that requires sessions.
    "sessions-in": _to("sessions-middle") | {"requires_session": "true"},
    "sessions-middle": _PARTED | _to("sessions-out") | {"requires_session": "true"},
    "sessions-out": {"requires_session": "true"},
    "sessions-later": {"requires_session": "true"},
    "sessions-later-out": {"requires_session": "true"},
    # Its destination is in a store that goes down.
    "outage-in": _to("outage-out"),
    "outage-out": _PARTED,
}


def write_namespace(path: Path) -> Path:
    """Write the TOML file that declares them all."""
    return write_queues(path, QUEUES)
