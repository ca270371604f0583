"""What is measured: the table of loads, and the backlog.

Owns the scenarios and their order: what one sends, the next receives, so each finds the
queue as it expects it. Every number is of the server alone. Called by the command line, once
for each repeat and each server.
"""

import signal
from dataclasses import dataclass, replace
from typing import Final

from bench import gauge
from bench.load import Job
from bench.peers import Peer
from bench.workers import Workers

Numbers = dict[str, float]

SEND: Final = "send"
RECEIVE: Final = "receive"
BOTH: Final = "both"

# The names of measures, as they stand in the table and in the file.
CPU: Final = "cpu_s_per_1m"
RATE: Final = "per_s"
P50: Final = "round_trip_us_p50"
P99: Final = "round_trip_us_p99"
OTHERS: Final = "others_cores"
RSS_MB: Final = "rss_mb"
RSS_EACH: Final = "rss_bytes_per_message"
START: Final = "start_s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One load; `share` is its part of the number of messages asked for."""

    name: str
    way: str
    size: int = 1024
    window: int = 500
    connections: int = 1
    share: float = 1.0


SCENARIOS: Final = (
    Scenario(name="send 100 B", way=SEND, size=100),
    Scenario(name="receive 100 B", way=RECEIVE, size=100),
    Scenario(name="send 1 KB", way=SEND),
    Scenario(name="receive 1 KB", way=RECEIVE),
    Scenario(name="both 1 KB", way=BOTH),
    Scenario(name="send 64 KB", way=SEND, size=65_536, window=50, share=0.05),
    Scenario(name="receive 64 KB", way=RECEIVE, size=65_536, window=50, share=0.05),
    Scenario(name="send 1 MB", way=SEND, size=1_000_000, window=10, share=0.004),
    Scenario(name="receive 1 MB", way=RECEIVE, size=1_000_000, window=10, share=0.004),
    Scenario(name="send 100 MB", way=SEND, size=100_000_000, window=1, share=0.000_04),
    Scenario(name="receive 100 MB", way=RECEIVE, size=100_000_000, window=1, share=0.000_04),
    Scenario(name="send 1 KB, 1 in flight", way=SEND, window=1, share=0.02),
    Scenario(name="receive 1 KB, credit 1", way=RECEIVE, window=1, share=0.02),
    Scenario(name="send 1 KB, 32 clients", way=SEND, window=1, connections=32, share=0.1),
    Scenario(name="receive 1 KB, 32 clients", way=RECEIVE, window=1, connections=32, share=0.1),
)


def jobs(scenario: Scenario, peer: Peer, count: int) -> list[Job]:
    """Receivers come first, so that they wait when the senders start."""
    job = Job(
        port=peer.port,
        user=peer.user,
        password=peer.password,
        address=peer.address(),
        sends=False,
        count=count,
        size=scenario.size,
        window=scenario.window,
        connections=scenario.connections,
        settles_second=peer.settles_second,
    )
    if scenario.way == RECEIVE:
        return [job]
    sender = replace(job, sends=True)
    return [sender] if scenario.way == SEND else [job, sender]


class Before:
    """The counters at the moment the load is let go."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    def read(self) -> None:
        self.server_s = gauge.cpu_seconds(self._peer.pid)
        self.machine_s = gauge.machine_cpu_seconds()


def measure(scenario: Scenario, peer: Peer, messages: int) -> Numbers:
    """Run one load against a server that is up."""
    count = max(scenario.connections, round(messages * scenario.share))
    before = Before(peer)
    with Workers(jobs(scenario, peer, count)) as workers:
        outcomes = workers.run(before.read)
        server_s = gauge.cpu_seconds(peer.pid) - before.server_s
        machine_s = gauge.machine_cpu_seconds() - before.machine_s
    seconds = max(outcome.seconds for outcome in outcomes)
    ours_s = server_s + sum(outcome.client_cpu_s for outcome in outcomes)
    numbers = {
        CPU: 1e6 * server_s / count,
        RATE: count / seconds,
        OTHERS: max(0.0, machine_s - ours_s) / seconds,
    }
    if outcomes[-1].round_trip_us_p50:
        numbers[P50] = outcomes[-1].round_trip_us_p50
        numbers[P99] = outcomes[-1].round_trip_us_p99
    return numbers


def measure_backlog(peer: Peer, messages: int) -> dict[str, Numbers]:
    """Memory for messages that wait, and the time to start: empty, full, and after a kill."""
    filled = f"{messages:,} queued".replace(",", " ")
    found: dict[str, Numbers] = {"start, empty": {START: peer.start()}}
    before = gauge.resident_bytes(peer.pid)
    numbers = measure(Scenario(name="", way=SEND), peer, messages)
    resident = gauge.resident_bytes(peer.pid)
    found[f"memory, {filled}"] = {
        RSS_MB: resident / 1e6,
        RSS_EACH: (resident - before) / messages,
        CPU: numbers[CPU],
    }
    peer.stop()
    found[f"start, {filled}"] = {START: peer.start(), RSS_MB: gauge.resident_bytes(peer.pid) / 1e6}
    peer.stop(signal.SIGKILL)
    found[f"start after a kill, {filled}"] = {START: peer.start()}
    measure(Scenario(name="", way=RECEIVE), peer, messages)
    peer.stop()
    return found
