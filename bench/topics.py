"""A topic with thousands of subscriptions of which few want a message, against one with few.

Owns the measuring of a whole send in one process: the message taken from the wire, the rules
asked, the records made, the copies filed, on a store in memory. Times are CPU time of this
thread, which other work on the machine hardly moves. The ratio is what docs/guides/topics.md
promises. `python -m bench.topics`.
"""

import argparse
import gc
import time
from collections.abc import Callable
from statistics import median
from typing import Final

from partibus.amqp.codec.sections import (
    MessageProperties,
    encode_application_properties,
    encode_properties,
)
from partibus.control.catalog.catalog import Catalog
from partibus.domain.entity import (
    CorrelationFilter,
    FilterType,
    RuleSpec,
    SubscriptionSpec,
    TopicSpec,
)
from partibus.fragment.broker import Broker
from partibus.fragment.commands import Enqueue, Purge, SubQueueType
from partibus.fragment.topics.state import Topic
from partibus.gateway.selection import TopicSelector
from partibus.message.envelope import to_stored
from partibus.ops.compiled import is_compiled
from partibus.server.fragment_specs import fragment_spec
from partibus.store.memory import MemoryStore
from partibus.testing.clock import ManualClock
from partibus.testing.fragment import Ports
from partibus.testing.scheduler import ManualScheduler

BATCH: Final = 100
"""Messages in a command, as one read of a busy socket brings them."""
ROUNDS: Final = 100
MATCHING: Final = 3
_cpu_s = time.thread_time


def wants(region: str) -> SubscriptionSpec:
    """A subscription that wants the messages of one region."""
    condition = CorrelationFilter(label="order", properties={"region": region})
    rule = RuleSpec(filter_type=FilterType.CORRELATION, sql_expression="", correlation=condition)
    return SubscriptionSpec(rules=(rule,))


class Rig:
    """A topic and its subscriptions."""

    def __init__(self, subscriptions: list[SubscriptionSpec]) -> None:
        self.clock = ManualClock()
        self.scheduler = ManualScheduler(self.clock)
        catalog = Catalog(clock=self.clock)
        self.broker = Broker(
            MemoryStore(notify=self.scheduler.call_soon), self.clock, self.scheduler
        )
        self.broker.open()
        topic = catalog.create("news", TopicSpec(max_size_in_megabytes=80 * 1024))
        selector = TopicSelector(lambda: catalog.subscriptions("news"))
        joined = Topic(0, selector)
        spec = fragment_spec(topic, catalog)
        self.machine = self.broker.add(topic.fragments[0].fragment_id, spec, joined)
        self.filled = []
        with catalog.batch():
            for number, subscription in enumerate(subscriptions):
                record = catalog.create(f"news/Subscriptions/s{number}", subscription)
                machine = self.broker.add(
                    record.fragments[0].fragment_id, fragment_spec(record, catalog)
                )
                joined.subscriptions[record.entity_id] = machine.state
                if number < MATCHING:
                    self.filled.append(machine)
        self.ports = Ports()

    def send(self, payload: bytes) -> float:
        """CPU microseconds for each message of a command."""
        before_s = _cpu_s()
        messages = [to_stored(payload) for _ in range(BATCH)]
        size = sum([len(message.body) for message in messages])
        self.broker.submit(self.machine, Enqueue(self.ports, messages, [1], size))
        self.scheduler.run()
        spent_s = _cpu_s() - before_s
        for machine in self.filled:
            assert len(machine.state.main.ready) == BATCH
            self.broker.submit(machine, Purge(self.ports, SubQueueType.MAIN, BATCH, 1 << 60))
        self.scheduler.run()
        return spent_s / BATCH * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.topics", description=__doc__)
    parser.add_argument("--subscriptions", type=int, default=2000, metavar="N")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N")
    options = parser.parse_args()
    payload = (
        encode_properties(MessageProperties(message_id="m" * 32, subject="order"))
        + encode_application_properties({"region": "r0", "size": 12})
        + b"\x00\x53\x75\xb0\x00\x00\x04\x00"
        + bytes(1024)
    )
    crowd = options.subscriptions - MATCHING
    rigs: dict[str, Callable[[], Rig]] = {
        "3 with the default rule": lambda: Rig([SubscriptionSpec()] * MATCHING),
        "3 by correlation": lambda: Rig([wants("r0")] * MATCHING),
        f"{options.subscriptions} by correlation, 3 match": lambda: Rig(
            [wants("r0")] * MATCHING + [wants(f"r{n + 1}") for n in range(crowd)]
        ),
    }
    print(f"1 KiB messages, {'' if is_compiled() else 'not '}compiled")
    made = {name: make() for name, make in rigs.items()}
    times: dict[str, list[float]] = {name: [] for name in made}
    gc.disable()
    for _ in range(options.rounds):
        for name, rig in made.items():
            times[name].append(rig.send(payload))
    numbers = {name: median(found) for name, found in times.items()}
    last = list(numbers.values())[-1]
    for name, number in numbers.items():
        print(f"{name:40} {number:7.1f} us a message; the crowd costs {last / number:.2f} times")


if __name__ == "__main__":
    main()
