"""A transaction over fragments of one store: all of it in one entry, or nothing.

Owns the order of its parts and how they are undone. Each part is prepared by its fragment as if it
were alone; when one is refused, those before it are aborted in reverse order within the same step,
so that no part of it is ever visible. Called by the broker in its turn, which makes it durable like
any change.
"""

from collections.abc import Mapping

from partibus.domain.errors import BusError, StoreUnavailable
from partibus.fragment.changes import Answer, Change
from partibus.fragment.commands import Command, Outcome, Settle
from partibus.fragment.effects import Effects, Failed, Refused, Settled
from partibus.fragment.machine import Machine
from partibus.fragment.transactions.behaviour import Discharge, lock_lost, release_at_end
from partibus.fragment.transactions.commands import Transact


def transact(
    machines: Mapping[int, Machine], command: Transact, now_ms: int, out: Effects
) -> list[tuple[Machine, Change]]:
    """The prepared changes, with the answer as the last; none when a part was refused."""
    assert command.work
    prepared: list[tuple[Machine, Change]] = []
    for fragment_id, part in command.work:
        machine = machines.get(fragment_id)
        if machine is None:
            error: BusError | None = StoreUnavailable(
                f"Fragment {fragment_id} is not served here; try again."
            )
        else:
            step = Effects()
            _prepare(machine, part, now_ms, step)
            prepared += [(machine, change) for change in step.changes]
            prepared += [(machines[number], change) for number, change in step.elsewhere]
            error = _failure(machine, part, step)
        if error is not None:
            _take_back(prepared, error)
            out.outward.append(Failed(command.port, error))
            return []
    # If nothing was selected there is nothing to write, but the end is still answered (ENT-4).
    prepared.append((machines[command.work[0][0]], Discharge(command.port, len(command.work))))
    return prepared


def _prepare(machine: Machine, part: Command, now_ms: int, step: Effects) -> None:
    if isinstance(part, Settle) and part.outcome is Outcome.RELEASE:
        release_at_end(machine.state, part, now_ms, step)
    else:
        machine.apply(part, now_ms, step)


def _failure(machine: Machine, part: Command, step: Effects) -> BusError | None:
    """The refusal that a part's own port would have received; the first one counts."""
    lost = False
    for effect in step.outward:
        if isinstance(effect, Refused | Failed):
            return effect.error
        if isinstance(effect, Settled):
            if effect.error is not None:
                return effect.error
            lost = lost or len(effect.lost) > 0
    for change in step.changes:
        if isinstance(change, Answer):
            lost = lost or len(change.lost) > 0
    if not lost:
        return None
    assert isinstance(part, Settle)
    return lock_lost(machine.state.subqueues[part.subqueue])


def _take_back(prepared: list[tuple[Machine, Change]], error: BusError) -> None:
    """Undo the newest first, so that each finds the state it left. Their own answers are not
    sent."""
    for machine, change in reversed(prepared):
        machine.abort(change, error, Effects())
