"""Locks that outlive a clean stop, so that a restart does not redeliver locked messages.

Owns how the locks of a fragment are written into the last snapshot before a stop, and put back at
the next start: the same tokens, until the same moments. They hold only when nothing was recorded
after that snapshot; otherwise the process ended in another way and its locks are gone (SEED-107).
Locks of sessions and of their messages are not kept: they end with the link that holds them, which
does not survive a restart. Called by `snapshot` and the broker.
"""

import struct
from typing import Final

from partibus.fragment.state import State

_LOCK: Final = struct.Struct("<QBBQQ")
"""until_ms, subqueue, whether it was received by its number, sequence, token."""


def dump_locks(state: State) -> bytes:
    """The locks of messages that are in no session."""
    parts: list[bytes] = []
    for subqueue in state.subqueues:
        if subqueue.sessions is None:
            for token, held in subqueue.locks.items():
                fields = (held.locked_until_ms, int(subqueue.subqueue), held.deferred)
                parts.append(_LOCK.pack(*fields, held.sequence, token))
    return b"".join(parts)


def restore_locks(state: State, now_ms: int) -> None:
    """Restore the locks whose time is not up."""
    data, state.kept_locks = state.kept_locks, b""
    # The first to lapse comes first, as in a subqueue.
    for until_ms, number, is_deferred, sequence, token in sorted(_LOCK.iter_unpack(data)):
        subqueue = state.subqueues[number]
        if until_ms <= now_ms or subqueue.sessions is not None:
            continue
        held = (subqueue.deferred if is_deferred else subqueue.ready).take(sequence)
        if held is None:
            continue
        held.deferred = bool(is_deferred)
        subqueue.lock(held, token, until_ms)
        if until_ms > now_ms + state.spec.lock_duration_ms:
            subqueue.shorten_locks(now_ms, until_ms)
