"""Random work of pipelines and receivers on one queue, with crashes and failing stores.

The model knows for each message whether it waits, is locked, claimed or gone, and which of the
gone ones a cursor must still show. Nothing claimed reaches a receiver, nothing settled comes
back, and a range shows exactly what arrived and is kept.
"""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from partibus.domain.errors import BusError, ClaimLost
from partibus.fragment.spec import FragmentSpec
from partibus.store.memory import MemoryStore
from support.fragment.bulk_bench import BulkBench

OWNERS = st.sampled_from(["a", "b"])
CURSORS = st.sampled_from(["c", "d"])
CLAIM_MS = 20_000
LOCK_MS = 10_000


class PipelineModel(RuleBasedStateMachine):
    """Drives a fragment and the model side by side."""

    @initialize()
    def begin(self) -> None:
        self.bench = BulkBench(FragmentSpec(lock_duration_ms=LOCK_MS, max_delivery_count=1_000))
        self.bodies: dict[int, bytes] = {}
        self.gone: set[int] = set()
        self.locked: dict[int, int] = {}
        """Sequence by token."""
        self.claims: dict[str, tuple[str, list[int]]] = {}
        """Start and messages, lapsed or not."""
        self.cursors: dict[str, int] = {}
        self.kept: set[int] = set()
        self.starts = 0
        self.is_down = False

    # --- senders and receivers --------------------------------------------------------------

    @rule(count=st.integers(1, 6))
    def send(self, count: int) -> None:
        first = len(self.bodies) + 1
        bodies = [b"%d" % number for number in range(first, first + count)]
        self.bench.send(*bodies)
        if not self.is_down:
            self.bodies.update(enumerate(bodies, first))

    @precondition(lambda self: not self.is_down)
    @rule(count=st.integers(1, 4))
    def receive(self, count: int) -> None:
        for message in self.bench.receive(count):
            assert message.sequence not in self.gone
            assert message.sequence not in self.held_by_claims()
            assert message.sequence not in self.locked.values()
            self.locked[message.token] = message.sequence

    @precondition(lambda self: self.locked and not self.is_down)
    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        token = data.draw(st.sampled_from(sorted(self.locked)))
        lost, error = self.bench.settle([token])
        assert (lost, error) == ([], None)
        self.leave(self.locked.pop(token))

    def leave(self, sequence: int) -> None:
        self.gone.add(sequence)
        if self.cursors and sequence >= min(self.cursors.values()):
            self.kept.add(sequence)

    # --- claims -----------------------------------------------------------------------------

    def held_by_claims(self) -> set[int]:
        live = {claim.owner for claim in self.bench.claims() if claim.count}
        return {s for owner in live for s in self.claims[owner][1]}

    @precondition(lambda self: not self.is_down)
    @rule(owner=OWNERS, count=st.integers(1, 5), again=st.booleans())
    def claim(self, owner: str, count: int, again: bool) -> None:
        if again and owner in self.claims:
            start, expected = self.claims[owner]
            try:
                self.bench.claim(owner, start, count, duration_ms=CLAIM_MS)
            except ClaimLost:
                others = set(self.locked.values()) | self.gone | self.held_by_claims()
                assert set(expected) & others
                return
            found = [message.sequence for message in self.bench.read_claim(owner, start)]
            assert found == expected
            return
        self.starts += 1
        start = str(self.starts)
        claim = self.bench.claim(owner, start, count, duration_ms=CLAIM_MS)
        self.claims.pop(owner, None)
        if claim.count:
            messages = self.bench.read_claim(owner, start)
            assert [self.bodies[m.sequence] for m in messages] == [m.body for m in messages]
            taken = [message.sequence for message in messages]
            assert not set(taken) & (self.gone | set(self.locked.values()))
            self.claims[owner] = (start, taken)

    @precondition(lambda self: self.claims and not self.is_down)
    @rule(data=st.data())
    def settle_claim(self, data: st.DataObject) -> None:
        owner = data.draw(st.sampled_from(sorted(self.claims)))
        start, messages = self.claims[owner]
        try:
            assert self.bench.settle_claim(owner, start) == len(messages)
        except ClaimLost:
            others = set(self.locked.values()) | self.gone | self.held_by_claims()
            assert set(messages) & others
            return
        del self.claims[owner]
        for sequence in messages:
            assert sequence not in self.gone
            self.leave(sequence)
        assert self.bench.settle_claim(owner, start) == 0

    @precondition(lambda self: not self.is_down)
    @rule(owner=OWNERS)
    def release(self, owner: str) -> None:
        self.bench.release_claim(owner)
        self.claims.pop(owner, None)

    # --- cursors ----------------------------------------------------------------------------

    @precondition(lambda self: not self.is_down)
    @rule(name=CURSORS, ahead=st.integers(0, 5))
    def place(self, name: str, ahead: int) -> None:
        position = min(self.cursors.get(name, 1) + ahead, len(self.bodies) + 1)
        assert self.bench.place(name, position).position == position
        self.cursors[name] = position
        self.kept = {s for s in self.kept if s >= min(self.cursors.values())}

    @precondition(lambda self: self.cursors and not self.is_down)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.cursors)))
        self.bench.drop_cursor(name)
        del self.cursors[name]
        low = min(self.cursors.values(), default=1 << 62)
        self.kept = {s for s in self.kept if s >= low}

    # --- what happens -----------------------------------------------------------------------

    @rule(delta_ms=st.sampled_from([500, 9_000, 25_000]))
    def time_passes(self, delta_ms: int) -> None:
        self.bench.scheduler.advance_ms(delta_ms)
        if not self.is_down:
            live = set(self.bench.state.main.locks)
            self.locked = {t: s for t, s in self.locked.items() if t in live}

    @precondition(lambda self: not self.is_down)
    @rule(clean=st.booleans())
    def crash(self, clean: bool) -> None:
        if clean:
            self.bench.restart()
        else:
            self.bench.start()
        self.bench.run()
        # Those of a clean stop, also when the process is killed before it has recorded anything.
        live = set(self.bench.state.main.locks)
        self.locked = {t: s for t, s in self.locked.items() if t in live}

    @rule()
    def store_fails_or_heals(self) -> None:
        store = self.bench.store
        assert isinstance(store, MemoryStore)
        if self.is_down:
            store.heal()
        else:
            store.fail()
            self.try_everything()
        self.is_down = not self.is_down
        self.bench.run()
        if not self.is_down:
            self.bench.scheduler.advance_ms(100)
            live = set(self.bench.state.main.locks)
            self.locked = {t: s for t, s in self.locked.items() if t in live}

    def try_everything(self) -> None:
        """A store that fails answers every change with an error, and nothing is changed."""
        attempts = [
            lambda: self.bench.claim("a", "x", 3),
            lambda: self.bench.place("c", 1),
            lambda: self.bench.settle_claim("b", self.claims["b"][0]),
            lambda: self.bench.renew_claim("b", self.claims["b"][0]),
        ]
        for attempt in attempts:
            try:
                attempt()
            except (BusError, KeyError):
                continue
            # Nothing to change needs no store.

    @invariant()
    def range_shows_what_arrived(self) -> None:
        if self.is_down:
            return
        present = sorted((set(self.bodies) - self.gone) | self.kept)
        shown = self.bench.read(0)
        assert [message.sequence for message in shown] == present
        assert all(message.body == self.bodies[message.sequence] for message in shown)
        sizes = sum(len(self.bodies[s]) for s in set(self.bodies) - self.gone)
        assert self.bench.state.size_bytes == sizes
        assert self.bench.store.live_bytes == sizes + sum(len(self.bodies[s]) for s in self.kept)


PipelineModel.TestCase.settings = settings(
    max_examples=80,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestPipelines = PipelineModel.TestCase
