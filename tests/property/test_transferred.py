"""Transactions that send to other stores, over processes that may be killed at any step.

Each takes coins from one queue, completes them, and leaves receipts: in a queue of the same
store, in a queue of another, and in a partitioned queue that lies in all of them. Every callback
is a step of its own; in between processes are killed, with any part of their appends durable,
stores fail and heal, and destinations are shut and opened. In the end each transaction is wholly
there or wholly absent, and nothing of it is anywhere twice.
"""

from collections import Counter

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from partibus.domain.address import parse_address
from partibus.domain.entity import EntityStatus, QueueSpec
from partibus.domain.errors import BusError, TransactionTimedOut
from partibus.domain.limits import SELFHOST
from partibus.fragment.commands import Demand, Detach, Enqueue, Outcome, Settle, SubQueueType
from partibus.fragment.message import NewMessage
from partibus.fragment.transactions.commands import SILENT
from partibus.gateway.namespace import Entity
from partibus.gateway.transactions.transaction import Transaction
from partibus.message.envelope import to_stored
from partibus.testing.fragment import Inbox
from support.gateway.messages import keyed, plain
from support.relays import Process, Relays

PROCESSES = 3
COINS = 12
LOCK_MS = 60_000
PARTED = QueueSpec(enable_partitioning=True, fragments=4)
STORES = {"parted": [0, 1, 2, 0], "coins": [1], "far": [2], "spare": [0], "near": [1]}
"""Where the catalog puts the queues, in turn."""
RECEIPTS = ("near", "far", "parted")
processes = st.integers(0, PROCESSES - 1)


class Deal:
    """One transaction: what it moves, and what its client heard."""

    def __init__(self, coins: set[bytes]) -> None:
        self.coins = coins
        self.receipts: set[bytes] = set()
        self.is_committed = False
        self.is_refused = False

    def hear(self, error: BusError | None) -> None:
        self.is_committed = error is None
        # A worker that was lost with a commit leaves it in doubt.
        self.is_refused = error is not None and not isinstance(error, TransactionTimedOut)


class TransferModel(RuleBasedStateMachine):
    """Drives the processes and their clients; at the end the accounts must be right."""

    @initialize()
    def begin(self) -> None:
        self.relays = Relays(PROCESSES)
        for path in STORES:
            self.relays.create(path, PARTED if path == "parted" else QueueSpec())
        for path, stores in STORES.items():
            placements = self.relays.catalog.entity(path).fragments
            assert [placement.store for placement in placements] == stores
        self.count = 0
        self.coins: set[bytes] = set()
        self.deals: list[Deal] = []
        self.relays.run()
        for _ in range(COINS):
            body, payload = self._next(None)
            message = to_stored(payload)
            self.coins.add(body)
            command = Enqueue(SILENT, [message], [0], len(message.body))
            self.relays.fragment("coins", 0).submit(command)
        self.relays.run()

    def _next(self, key: str | None) -> tuple[bytes, bytes]:
        self.count += 1
        payload = plain(self.count, 4) if key is None else keyed(self.count, key, 4)
        return payload[-4:], payload

    # --- what clients do ----------------------------------------------------------------------

    @precondition(lambda self: self.relays.owner("coins", 0).is_alive)
    @rule(
        client=processes,
        coin_count=st.integers(1, 2),
        receipts=st.lists(
            st.tuples(st.sampled_from(RECEIPTS), st.sampled_from((None, "red", "green", "blue"))),
            min_size=1,
            max_size=4,
        ),
        sends_first=st.booleans(),
        pause_ms=st.sampled_from([0, 0, 0, LOCK_MS + 1]),
        rounds=st.integers(0, 20),
    )
    def deal(
        self,
        client: int,
        coin_count: int,
        receipts: list[tuple[str, str | None]],
        sends_first: bool,
        pause_ms: int,
        rounds: int,
    ) -> None:
        process = self.relays.processes[client]
        locks = self._lock_coins(coin_count)
        if not process.is_alive or not locks:
            return
        deal = Deal(set(locks.values()))
        transaction, session = Transaction(b"", SELFHOST), object()
        if sends_first:
            # The settlement moves the transaction to the store of the coins.
            self._send(process, transaction, session, deal, "far", None)
        coins = process.namespace.resolve(parse_address("coins"))
        transaction.scope.settle(coins, coins.fragments[0], session)
        settlement = Settle(SILENT, None, SubQueueType.MAIN, list(locks), Outcome.COMPLETE)
        transaction.add(coins.fragments[0], settlement, 0)
        for path, key in receipts:
            self._send(process, transaction, session, deal, path, key)
        self.deals.append(deal)
        self.relays.clock.advance_ms(pause_ms)
        transaction.commit(deal.hear)
        for _ in range(rounds):
            for one in self.relays.processes:
                one.steps.step()

    def _lock_coins(self, count: int) -> dict[int, bytes]:
        """Coins by their lock tokens."""
        fragment = self.relays.fragment("coins", 0)
        inbox = Inbox()
        consumer = fragment.consumer(inbox, SubQueueType.MAIN, False)
        fragment.submit(Demand(consumer, count, True))
        fragment.submit(Detach(consumer))
        for _ in range(6):
            self.relays.owner("coins", 0).steps.step()
        return {message.token: message.body[-4:] for message in inbox.take()}

    def _send(
        self,
        process: Process,
        transaction: Transaction,
        session: object,
        deal: Deal,
        path: str,
        key: str | None,
    ) -> None:
        body, payload = self._next(key)
        deal.receipts.add(body)
        entity: Entity = process.namespace.resolve(parse_address(path))
        messages: list[NewMessage] = [to_stored(payload)]
        parts = transaction.scope.send(entity, None, session, messages, [payload], self.count)
        for part in parts:
            transaction.add_messages(part)

    @rule(steps=st.lists(processes, min_size=1, max_size=30))
    def steps(self, steps: list[int]) -> None:
        for number in steps:
            self.relays.processes[number].steps.step()

    @rule(delta_ms=st.sampled_from([10, 100, 600, 3_000]))
    def time_passes(self, delta_ms: int) -> None:
        self.relays.clock.advance_ms(delta_ms)

    # --- what the world does ------------------------------------------------------------------

    @rule(number=processes, kept=st.integers(0, 3))
    def kill(self, number: int, kept: int) -> None:
        process = self.relays.processes[number]
        if process.is_alive:
            process.kill(kept)

    @rule(kept=st.integers(0, 3))
    def kill_the_coins(self, kept: int) -> None:
        """Their process is the one whose courier has the receipts."""
        if self.relays.owner("coins", 0).is_alive:
            self.relays.owner("coins", 0).kill(kept)
            self.relays.owner("coins", 0).start()

    @rule(number=processes)
    def start(self, number: int) -> None:
        process = self.relays.processes[number]
        if not process.is_alive:
            process.start()

    @rule()
    def late_commands_arrive(self) -> None:
        self.relays.late_commands_arrive()

    @rule(number=processes)
    def checkpoint(self, number: int) -> None:
        process = self.relays.processes[number]
        if process.is_alive:
            process.broker._checkpoint()

    @rule(number=processes, fails=st.booleans())
    def store_changes(self, number: int, fails: bool) -> None:
        process = self.relays.processes[number]
        if process.is_alive and fails == (process.store.state.value == "up"):
            if fails:
                process.store.fail()
            else:
                process.store.heal()

    @rule(path=st.sampled_from(["far", "parted"]), is_open=st.booleans())
    def switch(self, path: str, is_open: bool) -> None:
        status = EntityStatus.ACTIVE if is_open else EntityStatus.SEND_DISABLED
        spec = PARTED if path == "parted" else QueueSpec()
        parted, count = spec.enable_partitioning, spec.fragments
        self.relays.update(
            path, QueueSpec(enable_partitioning=parted, fragments=count, status=status)
        )

    # --- the end ------------------------------------------------------------------------------

    def teardown(self) -> None:
        for process in self.relays.processes:
            if process.store.state.value != "up":
                process.store.heal()
        self.relays.settle_down()
        found = self.relays.everything()
        assert max(found.values()) == 1, "a message is there twice"
        spent: Counter[bytes] = Counter()
        for deal in self.deals:
            there = deal.receipts & set(found)
            assert there in (set(), deal.receipts), "a transaction is half there"
            assert there or not deal.is_committed, "what was committed is lost"
            assert not (there and deal.is_refused), "what was refused is there"
            if there:
                spent.update(deal.coins)
        assert all(count == 1 for count in spent.values()), "a coin was spent twice"
        assert self.coins & set(found) == self.coins - set(spent), "coins and receipts disagree"
        assert self.relays.fragment("coins", 0).machine.state.counts().transfer == 0


TransferModel.TestCase.settings = settings(
    max_examples=300,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestTransferModel = TransferModel.TestCase
