"""SIGKILL while checkpoints are taken and written under load: every message is where it was.

A process of its own sends to, receives from and settles in several fragments of one store without
pause, with one checkpoint after the other, and says what it was told. It is killed at any moment,
many times, on one directory. Each life begins by comparing all that it finds with what the lives
before have said.
"""

import random
import subprocess
import sys
from pathlib import Path

LIVES = 8
LINES_PER_LIFE_MAX = 6000

WRITER = """
import queue, random, sys
from pathlib import Path
from partibus.fragment.broker import Broker
from partibus.fragment.commands import Consumer, Demand, Enqueue, SubQueueType, Outcome, Settle
from partibus.fragment.message import NewMessage
from partibus.fragment.spec import FragmentSpec
from partibus.store.files.log import SegmentStore
from partibus.testing.clock import ManualClock
from partibus.testing.scheduler import ManualScheduler

directory, life = Path(sys.argv[1]), int(sys.argv[2])
lots = random.Random(life)
news = queue.SimpleQueue()
clock = ManualClock()
scheduler = ManualScheduler(clock)
store = SegmentStore(directory, notify=news.put, segment_bytes=1 << 18)
broker = Broker(store, clock, scheduler, first_token=1 + (life << 32))
broker.open()
spec = FragmentSpec(lock_duration_ms=10**9, max_delivery_count=10**6, path="q")
ids = FragmentSpec(lock_duration_ms=10**9, max_delivery_count=10**6, duplicate_window_ms=10**9)
machines = {n: broker.add(n, ids if n == 3 else spec) for n in (1, 2, 3)}
for number, machine in machines.items():
    for held in machine.state.main.ready.copies(0):
        (body,) = store.read_now([(held.position, held.length)])
        print("found", number, held.sequence, body.split(b".")[0].decode())
print("begins", flush=True)

class Sender:
    def __init__(self, number):
        self.number, self.count = number, 0
    def send(self):
        names = [f"{life}-{self.number}-{self.count + n}" for n in range(lots.choice([1, 20, 200]))]
        self.count += len(names)
        messages = [NewMessage((n + "." * 50).encode(), -1, message_id=n) for n in names]
        self.names = names
        broker.submit(machines[self.number], Enqueue(self, messages, [0] * len(names), 1))
    def confirmed(self, requests, first, dropped=()):
        for sequence, name in enumerate(self.names, first):
            print("sent", self.number, sequence, name)
        sys.stdout.flush()
        self.send()

class Receiver:
    def __init__(self, number):
        self.number = number
        self.consumer = Consumer(number, self, SubQueueType.MAIN, False)
        self.tokens = {}
        self.more()
    def more(self):
        broker.submit(machines[self.number], Demand(self.consumer, self.consumer.sent + 150, False))
    def available(self): pass
    def drained(self): pass
    def interrupted(self): pass
    def resumed(self): pass
    def deliver(self, messages, bodies):
        self.tokens.update((held.token, held.sequence) for held in messages)
        if len(self.tokens) >= 100:
            some = lots.sample(sorted(self.tokens), 90)
            is_over = lots.random() < 0.7
            for token in some if is_over else ():
                print("going", self.number, self.tokens[token])
            sys.stdout.flush()
            outcome = Outcome.COMPLETE if is_over else Outcome.ABANDON
            once = some if is_over else None
            command = Settle(self, once, SubQueueType.MAIN, some, outcome, None)
            self.settling = {token: self.tokens.pop(token) for token in some}
            broker.submit(machines[self.number], command)
    def settled(self, request, lost, error):
        assert error is None and not lost
        for token in request or ():
            print("gone", self.number, self.settling[token])
        sys.stdout.flush()
        self.more()

for number in machines:
    Sender(number).send()
    Receiver(number)
while True:
    scheduler.run()
    if not broker._upkeep._is_checkpointing:
        broker._checkpoint()
    news.get()()
"""


def live_on(directory: Path, life: int, lines: int) -> list[list[str]]:
    """One life that ends so many words after its beginning; gives all that it said."""
    said: list[list[str]] = []
    command = [sys.executable, "-c", WRITER, str(directory), str(life)]
    begun_at = 0
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": ":".join(sys.path)}
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.endswith("\n"):
                said.append(line.split())
            if line == "begins\n":
                begun_at = len(said)
            if begun_at and len(said) == begun_at + lines:
                process.kill()
    assert process.returncode == -9, "it ended by itself"
    return said


def test_nothing_is_lost_or_comes_back_when_checkpoints_are_killed(
    tmp_path: Path, seed: int
) -> None:
    lots = random.Random(seed)
    directory = tmp_path / "store"
    sent: dict[tuple[str, ...], str] = {}
    going: set[tuple[str, ...]] = set()
    gone: set[tuple[str, ...]] = set()
    paged = 0
    for life in range(LIVES):
        said = live_on(directory, life, lots.randrange(500, LINES_PER_LIFE_MAX))
        found = {(f, n): name for word, f, n, name in (s for s in said if s[0] == "found")}
        # What was sent or settled and not answered may be there or not.
        missing = {key: name for key, name in sent.items() if found.get(key) != name}
        assert missing.keys() <= going, f"lost: {sorted(missing.keys() - going)[:5]}"
        assert not gone & found.keys(), "what was settled came back"
        sent, going = dict(found), set()
        for word, *rest in said:
            if word == "sent":
                sent[rest[0], rest[1]] = rest[2]
            elif word == "going":
                going.add((rest[0], rest[1]))
            elif word == "gone":
                del sent[rest[0], rest[1]]
                gone.add((rest[0], rest[1]))
        paged += any(directory.glob("*.pages"))
    assert paged > LIVES // 2
