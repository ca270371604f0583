"""SIGKILL at any moment while clients commit transactions: each is wholly there, or not at all.

One data directory goes through many lives. In each, several clients receive a coin from one
queue, complete it and send a receipt to each of two others, all in one transaction; some are
rolled back. The process is killed around a commit. Afterwards every coin is either still there
or has both of its receipts, whatever its client had heard; what was committed has both. Where
each queue has a store of its own, couriers carry the receipts, and are killed with the rest.
"""

import random
import signal
import threading
from contextlib import suppress
from typing import Final

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from proton import ConnectionException, Delivery, Message, ProtonException

from adversity.conftest import QUEUES, NewServer
from adversity.victim import Victim
from adversity.waiting import wait_until
from conformance.partitioning.operator import Operator
from conformance.settlement.backstage import PEEK_COUNT, Backstage
from support.proton.transactions import Transaction, taken

pytestmark = pytest.mark.group("proton")

COINS, LEFT, RIGHT = QUEUES
CLIENTS: Final = 3
COINS_PER_LIFE: Final = 150
ROLLBACK_SHARE: Final = 0.2
RECEIPT_SIZES: Final = (1, 100, 5000)
CLIENT_SECONDS_MAX: Final = 60


class Life:
    """One life of the server, ended in the middle of its work."""

    def __init__(self, victim: Victim, rng: random.Random) -> None:
        self._victim = victim
        self._rng = rng
        self._lock = threading.Lock()
        self._ends_after = rng.randrange(1, 60)
        self._ends_before_the_answer = rng.random() < 0.7
        self._discharges = 0
        self.committed: set[str] = set()
        self.rolled_back: set[str] = set()
        self.mistakes: list[Exception] = []

    def run(self) -> None:
        """Let clients work until the end comes."""
        seeds = [self._rng.random() for _ in range(CLIENTS)]
        threads = [threading.Thread(target=self._work, args=(seed,)) for seed in seeds]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(CLIENT_SECONDS_MAX)
        assert not any(thread.is_alive() for thread in threads)
        assert not self.mistakes
        assert self._victim.ended() == -signal.SIGKILL

    def _work(self, seed: float) -> None:
        try:
            with suppress(ConnectionException, ProtonException):
                self._move_coins(random.Random(seed))
        except Exception as mistake:
            self.mistakes.append(mistake)

    def _move_coins(self, rng: random.Random) -> None:
        client = Backstage(self._victim)
        receiver = client.receiver(COINS)
        senders = [client.sender(queue) for queue in (LEFT, RIGHT)]
        while True:
            receiver.link.flow(1)
            ((message, delivery),) = receiver.wait_for(1)
            coin = bytes(message.body).decode()
            transaction = Transaction(client)
            assert taken(transaction.settle(delivery, Delivery.ACCEPTED))
            for sender in senders:
                padding = "." * rng.choice(RECEIPT_SIZES)
                receipt = Message(body=coin + padding)
                assert taken(transaction.send(sender, receipt))
            self._end(coin, transaction, rng.random() < ROLLBACK_SHARE)

    def _end(self, coin: str, transaction: Transaction, is_rolled_back: bool) -> None:
        if is_rolled_back:
            self.rolled_back.add(coin)
            assert transaction.roll_back() == "aborted"
            return
        with self._lock:
            self._discharges += 1
            is_last = self._discharges == self._ends_after
        if is_last and self._ends_before_the_answer:
            self._kill_behind(transaction)
        assert transaction.commit() == "committed"
        self.committed.add(coin)
        if is_last:
            self._victim.begin_to_end(signal.SIGKILL)

    def _kill_behind(self, transaction: Transaction) -> None:
        """Write the discharge and kill, so that the commit may be anywhere on its way."""
        transaction.proton.commit()
        transaction._client.blocking.container.process()
        self._victim.begin_to_end(signal.SIGKILL)
        raise ConnectionException("killed")


def shown(client: Backstage, queue: str) -> list[str]:
    """The names of all messages of a queue; none twice."""
    names: list[str] = []
    number = 0
    while page := client.peek(queue, number):
        names += [str(item.body).rstrip(".") for item in page]
        number = page[-1].number + 1
        if len(page) < PEEK_COUNT and not client.peek(queue, number):
            break
    assert len(names) == len(set(names)), "a message is there twice"
    return names


def check(victim: Victim, life: Life, coins: set[str]) -> set[str]:
    """The account after a life; the coins that are left."""
    operator = Operator(victim)
    wait_until(
        lambda: operator.entity(COINS)["totals"]["transfer"] == 0, "no receipt is on its way"
    )
    with Backstage(victim) as client:
        left, right = set(shown(client, LEFT)), set(shown(client, RIGHT))
        still = set(shown(client, COINS))
        assert left == right, "a transaction is half there"
        assert still | left == coins, "coins are lost"
        assert not still & left, "a coin was spent and is still there"
        assert life.committed <= left, "what was committed is lost"
        assert not life.rolled_back & left, "what was rolled back is there"
        for queue in (LEFT, RIGHT):
            client.take(queue, len(left))
    return still


def live_and_die(new_server: NewServer, seed: int, lives: int, stores: int = 1) -> None:
    rng = random.Random(seed)
    victim = new_server(None, "--stores", str(stores))
    victim.start()
    places = {Operator(victim).placement(queue)[0] for queue in QUEUES}
    assert len(places) == min(stores, len(QUEUES))
    coins: set[str] = set()
    committed_count = 0
    for number in range(lives):
        with Backstage(victim) as client:
            fresh = [f"coin-{number}-{n}" for n in range(COINS_PER_LIFE)]
            client.send(COINS, *fresh)
        coins.update(fresh)
        life = Life(victim, rng)
        life.run()
        victim.start()
        coins = check(victim, life, coins)
        committed_count += len(life.committed)
    assert committed_count > lives


@pytest.mark.rule("TXN-2")
def test_a_transaction_is_whole_after_any_kill(new_server: NewServer, seed: int) -> None:
    live_and_die(new_server, seed, 5)


@pytest.mark.rule("TXN-2", "TXN-4", "TXN-17")
def test_a_transaction_over_stores_is_whole_after_any_kill(
    new_server: NewServer, seed: int
) -> None:
    live_and_die(new_server, seed, 5, stores=3)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("stores", [1, 3])
def test_transactions_are_whole_in_many_lives(
    new_server: NewServer, seed: int, stores: int
) -> None:
    live_and_die(new_server, seed, 30, stores)
