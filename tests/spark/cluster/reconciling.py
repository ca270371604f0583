"""The bus of the pipelines on a cluster, its messages, and what a job is compared with.

Owns the queues, messages that can all be told apart and that have keys, and the looks at a queue
that are compared with a pipeline's work, message by message. The looks are the stock client's.
"""

import base64
import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from conformance.settlement.namespace import write_queues
from partibus.client.message import OutgoingMessage
from spark.bus import Bus
from support.server import ServerProcess

STORES: Final = 2
FRAGMENTS: Final = 4
KEYS: Final = 16
_AT_ONCE: Final = 1000
_NOISE_BYTES: Final = 300
"""So that files cannot be packed to almost nothing, and windows stay small in messages."""
_PARTED: Final = {"enable_partitioning": "true", "partition_count": str(FRAGMENTS)}
_LONG_LOCKS: Final = _PARTED | {"lock_duration": '"PT5M"'}
QUEUES: Final = {
    "orders": _PARTED,
    "again": _PARTED,
    "raw": _PARTED,
    "cooked": _PARTED,
    "rows": _PARTED,
    "served": _PARTED,
    "spoiled": {},
    "declared": _PARTED,
    "refused": {},
    "dead": _LONG_LOCKS,
    "parked": _PARTED,
    "watched": _PARTED,
}

Told = dict[str, Any]


@contextmanager
def pipeline_bus(place: Path) -> Iterator[Bus]:
    """A bus with a queue for every job."""
    config = place / "namespace.toml"
    write_queues(config, QUEUES)
    with ServerProcess(place, config, "--stores", str(STORES)) as server, Bus(server) as bus:
        (place / "bus.txt").write_text(bus.connection_string)
        yield bus


def reference(bus: Bus) -> str:
    """Where jobs find the connection string, on the driver and in executors alike."""
    return f"file:{bus.server.data.parent / 'bus.txt'}"


def job_options(place: Path, bus: Bus | None = None) -> list[str]:
    """What every job is told: how it reports, and where its bus is."""
    given = ["--json", "--nice", "0", "--state-dir", str(place / "state")]
    return given if bus is None else [*given, "--connection-string-ref", reference(bus)]


def message(number: int) -> OutgoingMessage:
    """A message like no other; the numbers of a key come in order."""
    noise = base64.b64encode(random.Random(number).randbytes(_NOISE_BYTES))
    return OutgoingMessage(
        body=b"%06d %s" % (number, noise),
        message_id=f"m-{number}",
        partition_key=f"k{number % KEYS}",
        subject=f"s{number % 7}",
        properties={"number": number},
    )


def fill(
    bus: Bus, queue: str, count: int, made: Callable[[int], OutgoingMessage] = message
) -> None:
    """So many messages over all fragments."""
    payloads = (made(number).encode() for number in range(count))
    batches = iter(lambda: list(itertools.islice(payloads, _AT_ONCE)), [])
    answers = bus.flight(queue).put(bus._location(queue), batches)
    assert sum(answer["accepted"] for answer in answers) == count


# --- what is compared -----------------------------------------------------------------------


def number_of(body: bytes | str) -> int:
    """The number that a body begins with."""
    return int(body[:6])


def told(found: Any) -> Told:
    """What a sender said of a message, as the stock client shows it."""
    return {
        "body": b"".join(found.body),
        "message_id": found.message_id,
        "partition_key": found.partition_key,
        "subject": found.subject,
        "properties": found.application_properties,
    }


def by_number(rows: Iterable[Told]) -> dict[int, Told]:
    """Rows of files by sequence number; one that is there twice is an error."""
    found: dict[int, Told] = {}
    for row in rows:
        number = row["sequence_number"]
        assert number not in found, f"{number} is there twice"
        found[number] = row
    return found


def as_peeked(bus: Bus, queue: str) -> dict[int, bytes]:
    """The bodies of a queue by sequence number."""
    return {found.sequence_number: told(found)["body"] for found in bus.peek(queue)}


def in_order_of_keys(messages: Iterable[Any]) -> dict[str, list[Told]]:
    """What was said of the messages of each key, in the order of their sequence numbers."""
    keys = defaultdict(list)
    for found in sorted(messages, key=lambda found: found.sequence_number):
        keys[found.partition_key].append(told(found))
    return dict(keys)


def assert_nothing_held(bus: Bus, *queues: str) -> None:
    """No message is locked, claimed, staged or on its way."""
    for queue in queues:
        totals = bus.totals(queue)
        held = [totals[name] for name in ("locked", "claimed", "staged", "transfer")]
        assert not any(held), f"{queue}: {totals}"
