"""Checks of the bus's own counts and bytes against its contents.

Owns the checks that look into a process between two steps. They must never change anything.
"""

from partibus.fragment.sessions.state import NO_STATE
from partibus.fragment.state import State
from partibus.fragment.upkeep.removal import all_bodies
from partibus.simulation.process import Room, ServerProcess
from partibus.simulation.world import Violation
from partibus.store.interface import Store

OWN_BYTES_MAX = 256 << 10
"""How much a connection may use beyond the common limit: a client that uses little is never
stopped, and what is being read or written at the moment counts as well."""
ROOM_FACTOR = 4
"""How much of the log may be dead before its space is freed, with room for what is being written
meanwhile."""
SEGMENTS_BESIDE = 8
BOOKS_BYTES_MAX = 128 << 10
"""What a store keeps besides its log: states of fragments, ids of duplicates, the watermark."""


def check_contents(process: ServerProcess) -> None:
    """The live bytes of a store are those of the messages in its fragments."""
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


class Bounds:
    """Checks during the run: the memory used for clients, the space used by stores."""

    def __init__(self) -> None:
        self._peaks: dict[str, tuple[int, int]] = {}
        """The maximum of live bytes, and of bytes between two checkpoints, by store: dead space is
        freed after a checkpoint, with a delay."""

    def check(self, process: ServerProcess) -> None:
        """Raise when something grows without a limit."""
        _check_memory(process)
        rooms = process.rooms
        for number, broker in process.brokers.items():
            self._check_disk(rooms[number], broker.store, process.segment_bytes)

    def _check_disk(self, disk: Room, store: Store, segment_bytes: int) -> None:
        live, since = self._peaks.get(disk.name, (0, 0))
        live, since = max(live, store.live_bytes), max(since, store.bytes_since_checkpoint)
        self._peaks[disk.name] = (live, since)
        most = ROOM_FACTOR * live + 2 * since + SEGMENTS_BESIDE * segment_bytes + BOOKS_BYTES_MAX
        if disk.used_bytes > most:
            raise Violation(
                f"{disk.name} takes {disk.used_bytes} bytes; at most {live} were live and {since} "
                "came between two checkpoints"
            )


def _check_memory(process: ServerProcess) -> None:
    memory = process.memory
    parts = (memory.unstored_bytes, memory.unfinished_bytes, memory.unsent_bytes)
    if min(parts) < 0:
        raise Violation(f"{process.name} counts a negative amount of memory: {parts}")
    if memory.held_bytes > memory.limit_bytes + process.connection_count * OWN_BYTES_MAX:
        raise Violation(
            f"{process.name} holds {memory.held_bytes} bytes for {process.connection_count} "
            f"connections, with a limit of {memory.limit_bytes}"
        )


def leftovers(process: ServerProcess) -> str:
    """What a process keeps for clients, which must be nothing when everything is settled and
    everybody has left; empty when there is nothing."""
    if process.connection_count or process.memory.held_bytes:
        return (
            f"{process.name} holds {process.memory.held_bytes} bytes for "
            f"{process.connection_count} connections"
        )
    for machine in process.machines.values():
        left = {name: count for name, count in _leftovers(machine.state).items() if count}
        if left:
            return f"'{machine.state.spec.path}' on {process.name} has {left}"
    return ""


def _leftovers(state: State) -> dict[str, int]:
    found = {
        "locks": state.lock_count,
        "receivers with demand": sum(len(subqueue.waiting) for subqueue in state.subqueues),
        "messages on their way out": sum(len(subqueue.leaving) for subqueue in state.subqueues),
        "identities under way": len(state.history.pending),
        "bytes": state.size_bytes if state.topic is None else 0,
    }
    if state.sessions is not None:
        found["bytes"] -= sum(
            session.state_length
            for session in state.sessions.by_id.values()
            if session.state_length != NO_STATE
        )
        found["locks of sessions"] = len(state.sessions.locks)
        found["receivers that wait for a session"] = len(state.sessions.acceptors)
    if state.retention is not None:
        found["cursors"] = len(state.retention.cursors)
        found["messages kept for cursors"] = len(state.retention.table)
    if state.claims is not None:
        found["claimed messages"] = state.claims.message_count
    return found


def check_room(process: ServerProcess, segment_bytes: int) -> None:
    """Empty stores use little space, once they have written a checkpoint."""
    for disk in process.rooms.values():
        if disk.used_bytes > 2 * segment_bytes + BOOKS_BYTES_MAX:
            raise Violation(f"{disk.name} is empty and takes {disk.used_bytes} bytes")
