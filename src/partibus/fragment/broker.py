"""The broker: the single writer that runs a set of fragments on one store.

Owns the turn: commands that arrived since the last turn are applied together, their records go to
the store as one entry, and when that is durable the changes are carried out and the answers sent
(group commit). Also its fragments' timers, checkpoints, and what happens while the store is down.
It must never look into a command, a record or a message, and leaves transactions to
`transactions.atomic`; only the node makes brokers, only fragment handles submit to them.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from partibus.domain.clock import Clock
from partibus.domain.errors import BusError, StoreCorrupt, StoreFull
from partibus.domain.scheduler import Scheduler
from partibus.fragment.changes import Change
from partibus.fragment.checkpointing import Checkpoints
from partibus.fragment.commands import Command, Resume, Suspend, Tick, Undelivered
from partibus.fragment.effects import (
    BodyEffect,
    Deliver,
    Due,
    Effect,
    Effects,
    PeekedMessage,
    Shown,
)
from partibus.fragment.machine import Machine
from partibus.fragment.queue.kept_locks import restore_locks
from partibus.fragment.replay import finish
from partibus.fragment.spec import NO_SPEC, FragmentSpec
from partibus.fragment.state import State
from partibus.fragment.topics.commands import DueUnread, PublishDue
from partibus.fragment.topics.state import Topic
from partibus.fragment.transactions.atomic import transact
from partibus.fragment.transactions.commands import Transact
from partibus.fragment.upkeep.alarms import Alarms
from partibus.fragment.upkeep.damage import Damage
from partibus.fragment.upkeep.log import Upkeep
from partibus.fragment.upkeep.recovering import no_progress, rebuild
from partibus.fragment.upkeep.removal import HOUSEKEEPING, Refusal, Removals, all_bodies, gone
from partibus.fragment.upkeep.shortage import adds_messages
from partibus.fragment.upkeep.slices import SLICE, Allowance
from partibus.fragment.upkeep.store_marks import StoreMarks
from partibus.store.interface import Done, Store, StoreState
from partibus.store.record import Record

_log: Final = logging.getLogger(__name__)

READ_RETRY_MS: Final = 1000
"""After a failed read the store is asked again after this delay, not in a loop."""


class Broker:
    """Runs the fragments of one store."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        scheduler: Scheduler,
        fault: Callable[[Exception], None] | None = None,
        first_token: int = 1,
        slice_messages: int = SLICE,
    ) -> None:
        self.store = store
        self.first_token = first_token
        self.on_state: Callable[[StoreState], None] | None = None
        """Called when the store goes up or down."""
        self._fault = fault if fault is not None else _ignore_fault
        self._clock = clock
        self._scheduler = scheduler
        self._machines: dict[int, Machine] = {}
        self._recovered: dict[int, State] = {}
        """States found in the log that no fragment has asked for yet."""
        self._was_stopped = True
        """The log ends with the snapshot of a clean stop: nothing was recorded after it."""
        self.marks = StoreMarks()
        self.on_removed: Callable[[int], None] | None = None
        """Called when nothing is left of a dropped fragment."""
        self._removals = Removals(store, self._let_out, scheduler.call_soon, self._removed)
        self._mailbox: list[tuple[Machine, Command]] = []
        self._turn_is_due = False
        self._touched: dict[int, Machine] = {}
        self.alarms = Alarms(clock, scheduler, self._tick, slice_messages)
        self._checkpoints = Checkpoints(store, scheduler.call_soon)
        self._upkeep = Upkeep(store, self._begin_checkpoint)
        self._was_down = False
        self._appends_under_way = 0
        self._reads_under_way = 0
        self._held_back: list[Effect] = []
        """Effects behind a delivery whose bodies are still being read: order is kept."""
        self.damage = Damage()
        self.hide_place: Callable[[BusError], None] = _as_it_is
        """Turns an error of the store into a text for clients, which must not contain paths."""

    # --- start and end ------------------------------------------------------------------

    def open(self, progress: Callable[[], None] = no_progress) -> None:
        """Recover the log; fragments added afterwards find their state in it."""
        rebuilt = rebuild(self.store.open(), progress)
        self._recovered = rebuilt.states
        self._checkpoints.recovered(rebuilt.last_page)
        self._was_stopped = rebuilt.was_stopped
        self.marks = rebuilt.marks
        self.store.on_state = self._store_changed

    def write_marks(self, done: Callable[[BusError | None], None]) -> None:
        """Write to the log which store this is; `done` is called when that is durable."""
        self.store.append([self.marks.record()], done)

    def add(self, fragment_id: int, spec: FragmentSpec, topic: Topic | None = None) -> Machine:
        """Start to run a fragment, with the state that the log has for it."""
        self.marks.saw(fragment_id)
        state = self._recovered.pop(fragment_id, None)
        if state is None:
            state = State(fragment_id, spec)
        else:
            finish(state, fragment_id, spec, self.store)
        state.next_token = self.first_token
        if self._was_stopped:
            restore_locks(state, self._clock.now_ms())
        state.topic = topic
        machine = self._machines[fragment_id] = Machine(state)
        machine.used_ms = self._clock.now_ms()
        self._checkpoints.changed({fragment_id: machine})
        self.alarms.set(machine)
        return machine

    def change(self, fragment_id: int, spec: FragmentSpec) -> None:
        """The properties of a fragment's entity have changed."""
        machine = self._machines[fragment_id]
        machine.used_ms = self._clock.now_ms()
        machine.change_spec(spec, machine.used_ms)
        self.alarms.set(machine)

    def drop(self, fragment_id: int) -> None:
        """The entity of a fragment was deleted: its messages are gone, and commands are refused.

        A record makes everything before it void. Until that is durable, across crashes too, the
        catalog keeps a tombstone; the id is never reused.
        """
        machine = self._machines.pop(fragment_id)
        self.alarms.drop(fragment_id)
        self._removals.begin(machine)

    def _removed(self, fragment_id: int) -> None:
        if self.on_removed is not None:
            self.on_removed(fragment_id)

    @property
    def log_end(self) -> tuple[bytes, int] | None:
        """The id of the store's log, and how far it is durable."""
        return self.store.log_end

    @property
    def fragment_count(self) -> int:
        """The fragments that are served, and those being removed."""
        return len(self._machines) + len(self._removals.machines)

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing waits for a turn or for the store."""
        return not (self._mailbox or self._appends_under_way or self._reads_under_way)

    def strangers(self) -> list[int]:
        """The fragments that are in the log and that nobody has added."""
        return list(self._recovered)

    def stranger_bodies(self, fragment_id: int) -> int:
        """How many messages and other bodies such a fragment has."""
        return sum(1 for _ in all_bodies(self._recovered[fragment_id]))

    def drop_stranger(self, fragment_id: int) -> None:
        """Finish a removal that a crash interrupted: the entity of the fragment was deleted."""
        self.add(fragment_id, NO_SPEC)
        self.drop(fragment_id)

    def abandon(self) -> None:
        """Close the store without a checkpoint."""
        self.store.close()

    def close(self, keeps_locks: bool = True) -> None:
        """Checkpoint the durable state, with the current locks, and close the store."""
        self.alarms.stop()
        if self.store.state is not StoreState.DOWN:
            self._checkpoints.begin(self._kept(), self.marks, _ignore, keeps_locks)
            self._checkpoints.finish()
        self.store.close()

    # --- the turn ---------------------------------------------------------------------------

    def submit(self, machine: Machine, command: Command) -> None:
        """Have a command applied in the next turn."""
        self._mailbox.append((machine, command))
        if not self._turn_is_due:
            self._turn_is_due = True
            self._scheduler.call_soon(self._turn)

    def _turn(self) -> None:
        """Apply the commands that have arrived; a machine that raises is not used any further."""
        try:
            self._take_turn()
        except Exception as error:
            self._fault(error)
            raise

    def _take_turn(self) -> None:
        self._turn_is_due = False
        mailbox, self._mailbox = self._mailbox, []
        now_ms = self._clock.now_ms()
        out = Effects()
        prepared: list[tuple[Machine, Change]] = []
        shortage = self.store.shortage
        for machine, command in mailbox:
            if shortage is not None and adds_messages(command):
                out.outward.append(Refusal(command, StoreFull(shortage)))
                continue
            if isinstance(command, Transact):
                for part in transact(self._machines, command, now_ms, out):
                    prepared.append(part)
                    part[0].used_ms = now_ms
                    self._touched[part[0].state.fragment_id] = part[0]
                continue
            if machine.is_gone:
                out.outward.append(Refusal(command, gone(machine)))
                continue
            if type(command) not in HOUSEKEEPING:
                machine.used_ms = now_ms
            machine.apply(command, now_ms, out)
            if out.changes:
                self._gather(machine, out, prepared)
            self._touched[machine.state.fragment_id] = machine
        self._finish(prepared, out)

    def _gather(
        self, machine: Machine, out: Effects, prepared: list[tuple[Machine, Change]]
    ) -> None:
        """Record which fragment the changes of one step belong to."""
        prepared.extend([(machine, change) for change in out.changes])
        out.changes = []
        if out.elsewhere:
            machines = self._machines
            prepared.extend([(machines[number], change) for number, change in out.elsewhere])
            out.elsewhere = []

    def _finish(self, prepared: list[tuple[Machine, Change]], out: Effects) -> None:
        """Append the records, then release every effect that need not wait for them."""
        if prepared:
            records: list[Record] = []
            for _, change in prepared:
                records += change.records
            if self.marks.is_due:
                records.append(self.marks.record())
            self._appends_under_way += 1
            self.store.append(records, partial(self._durable, prepared))
        for position, length in out.retained:
            self.store.retain(position, length)
        for held in out.released:
            self.store.release(held.position, held.length)
        if out.outward:
            self._let_out(out.outward)
        for machine in self._touched.values():
            self.alarms.set(machine)
        self._touched.clear()

    def _durable(self, prepared: list[tuple[Machine, Change]], error: BusError | None) -> None:
        """The store reports the outcome of one entry."""
        try:
            self._carry_out(prepared, error)
        except Exception as fault:
            self._fault(fault)
            raise

    def _carry_out(self, prepared: list[tuple[Machine, Change]], error: BusError | None) -> None:
        self._appends_under_way -= 1
        if error is not None:
            self.marks.not_written()
            self.hide_place(error)
        now_ms = self._clock.now_ms()
        out = Effects()
        following: list[tuple[Machine, Change]] = []
        self._checkpoints.before(prepared)
        for machine, change in prepared:
            if error is None:
                machine.commit(change, now_ms, out)
            else:
                machine.abort(change, error, out)
            if out.changes:
                if machine.is_gone:
                    self._removals.forgo(machine, out)
                self._gather(machine, out, following)
            self._touched[machine.state.fragment_id] = machine
        self._checkpoints.changed(self._touched)
        self._finish(following, out)
        self._upkeep.look()

    # --- outward ----------------------------------------------------------------------------

    def _let_out(self, effects: list[Effect]) -> None:
        if self._reads_under_way:
            self._hold_back(effects)
            return
        for index, effect in enumerate(effects):
            try:
                is_done = self._run(effect)
            except Exception:
                # One failing callback must not stop the others.
                _log.exception("an answer could not be delivered")
                continue
            if not is_done:
                self._hold_back(effects[index + 1 :])
                return

    def _hold_back(self, effects: list[Effect]) -> None:
        """Keep the bodies that these effects will read, whatever is settled before that."""
        self._held_back += effects
        for effect in effects:
            if isinstance(effect, BodyEffect):
                self.store.hold([held.position for held in effect.messages])

    def _run(self, effect: Effect) -> bool:
        """Carry one effect out; False when the rest has to wait for a read."""
        if isinstance(effect, BodyEffect):
            return self._read(effect)
        effect.carry_out()
        return True

    def _read(self, effect: BodyEffect) -> bool:
        refs = [(held.position, held.length) for held in effect.messages]
        try:
            bodies = self.store.read_now(refs)
        except BusError as error:
            self._read_failed(effect, error)
            return True
        if bodies is None:
            self._reads_under_way += 1
            self.store.read(refs, partial(self._was_read, effect))
            return False
        self._hand_over(effect, bodies)
        return True

    def _was_read(self, effect: BodyEffect, answer: list[bytes] | BusError) -> None:
        self._reads_under_way -= 1
        if isinstance(answer, BusError):
            self._read_failed(effect, answer)
        else:
            self._hand_over(effect, answer)
        held_back, self._held_back = self._held_back, []
        self._let_out(held_back)
        for waited in held_back:
            if isinstance(waited, BodyEffect):
                self.store.let_go([held.position for held in waited.messages])

    def _hand_over(self, effect: BodyEffect, bodies: list[bytes]) -> None:
        effect.free(self.store.release)
        if isinstance(effect, Due):
            machine = self._machines.get(effect.fragment_id)
            if machine is not None:
                self.submit(machine, PublishDue(effect.messages, bodies))
            return
        effect.hand_over(bodies)

    def _read_failed(self, effect: BodyEffect, error: BusError) -> None:
        """A message that cannot be read is never skipped silently."""
        is_damaged = self.damage.note(effect.messages, error)
        _log.error("cannot read a stored message: %s (%s)", error.text, error.tracking_id)
        self.hide_place(error)
        if isinstance(effect, Shown) and is_damaged:
            for message in effect.peeked_messages():
                self._read(message)
        elif isinstance(effect, PeekedMessage):
            effect.not_read(error, is_damaged)
        elif isinstance(effect, Deliver):
            self._not_delivered(effect, error)
        elif isinstance(effect, Due):
            self._not_published(effect, error)
        else:
            effect.free(self.store.release)
            effect.unreadable(error)

    def _not_delivered(self, effect: Deliver, error: BusError) -> None:
        """One damaged body must not hold back the others: read them one by one."""
        is_damaged = isinstance(error, StoreCorrupt)
        if is_damaged and len(effect.messages) > 1:
            for held in effect.messages:
                self._read(Deliver(effect.consumer, [held], effect.consumed))
            return
        effect.free(self.store.release)
        machine = self._machines.get(effect.consumer.fragment_id)
        if machine is not None:
            self.submit(machine, Undelivered(effect.consumer, effect.messages, is_damaged))
            if not is_damaged:
                retry = partial(self._resume, machine)
                self._scheduler.call_later_ms(READ_RETRY_MS, retry)

    def _not_published(self, effect: Due, error: BusError) -> None:
        """Scheduled messages keep waiting; a store that cannot read is asked again later."""
        machine = self._machines.get(effect.fragment_id)
        if machine is None:
            return
        is_damaged = isinstance(error, StoreCorrupt)
        command = DueUnread(effect.messages, is_damaged)
        if is_damaged:
            self.submit(machine, command)
        else:
            retry = partial(self.submit, machine, command)
            self._scheduler.call_later_ms(READ_RETRY_MS, retry)

    def _resume(self, machine: Machine) -> None:
        """Deliver again after a failed read, unless the store is known to be down."""
        if self.store.state is not StoreState.DOWN:
            self.submit(machine, Resume())

    # --- timers -----------------------------------------------------------------------------

    def clock_stepped(self, delta_ms: int) -> None:
        """The clock was set by `delta_ms`: look for messages that are due now."""
        self.alarms.clear()
        allowance = self.alarms.allowance()
        for fragment_id, machine in self._machines.items():
            machine.shift_ms(delta_ms)
            self._checkpoints.changed({fragment_id: machine})
            self._tick(fragment_id, allowance)

    def _tick(self, fragment_id: int, allowance: Allowance) -> None:
        """Tick a machine; not while the store is down."""
        machine = self._machines.get(fragment_id)
        if machine is not None and self.store.state is not StoreState.DOWN:
            self.submit(machine, Tick(allowance))

    # --- the store --------------------------------------------------------------------------

    def _store_changed(self, state: StoreState) -> None:
        """Hold everything back while the store is down; resume when it answers (SEED-4)."""
        is_down = state is StoreState.DOWN
        # A store that comes back in the same turn finds the machines not suspended yet.
        was_down, self._was_down = self._was_down, is_down
        allowance = self.alarms.allowance()
        for machine in self._machines.values():
            if is_down and not machine.state.suspended:
                self.submit(machine, Suspend())
            elif not is_down and (machine.state.suspended or was_down):
                self.submit(machine, Resume())
                self.submit(machine, Tick(allowance))
        if not is_down:
            self._removals.go_on()
            if self.store.shortage is not None:
                self._upkeep.hurry()
        if self.on_state is not None:
            self.on_state(state)

    def _kept(self) -> list[Machine]:
        """The fragments that a checkpoint must contain."""
        return [*self._machines.values(), *self._removals.unfinished()]

    def _begin_checkpoint(self, done: Done) -> None:
        self._checkpoints.begin(self._kept(), self.marks, done)
        self._checkpoints.go_on()

    def _checkpoint(self) -> None:
        self._upkeep.checkpoint()


def _as_it_is(error: BusError) -> None:
    """The default: the store's error text may be shown to clients."""


def _ignore(error: BusError | None) -> None:
    """The last checkpoint at close failed: the next start only reads more of the log."""


def _ignore_fault(error: Exception) -> None:
    """Code that runs a broker directly sees the exception itself."""
