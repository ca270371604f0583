"""What the bus says of itself against what it holds: counts and bytes.

Owns the checks that look into a process between two steps. They read and change nothing.
"""

from partibus.fragment.upkeep.removal import all_bodies
from partibus.simulation.process import SimulatedProcess
from partibus.simulation.world import Violation

BOOKS_BYTES_MAX = 128 << 10
"""What a store keeps beside its log: states of fragments, ids of duplicates, the watermark."""


def check_contents(process: SimulatedProcess) -> None:
    """The bytes that a store counts as live are those of the messages that its fragments hold."""
    for number, broker in process.brokers.items():
        if not broker.is_at_rest or broker._held_back:
            continue
        held = 0
        for machine in broker._machines.values():
            held += sum(length for _, length in all_bodies(machine.state))
        if held != broker.store.live_bytes:
            raise Violation(
                f"store {number} counts {broker.store.live_bytes} live bytes, and its fragments "
                f"hold {held}"
            )


def check_room(process: SimulatedProcess, segment_bytes: int) -> None:
    """Stores in which nothing is left take little room, once they have written a checkpoint."""
    for disk in process.disks:
        if disk.used_bytes > 2 * segment_bytes + BOOKS_BYTES_MAX:
            raise Violation(f"{disk.name} is empty and takes {disk.used_bytes} bytes")
