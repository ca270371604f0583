"""A pipeline that stages and publishes, over processes that may be killed at any step.

Runs of one job, some of them believed dead, write the batches of one log: tasks fail and are tried
again, answers are lost and asked for again, commands come twice. In between processes are killed
with any part of their appends durable, stores fail and heal, checkpoints are taken, stages expire.
In the end every row of every batch must be at its destination, once, and in the order of its key.
"""

from collections import Counter
from collections.abc import Sequence

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from partibus.domain.entity import QueueSpec
from partibus.domain.errors import BusError, StageFenced, StageLost
from partibus.fragment.commands import Command
from partibus.fragment.handle import LocalFragment
from partibus.fragment.stages.commands import PublishStages, StageMessages
from partibus.fragment.stages.state import STAGE_LIFE_MS
from partibus.message.envelope import to_stored
from support.gateway.messages import keyed, plain
from support.relays import Process, Relays

PROCESSES = 3
KEYS = ("red", "green", None)
HOME = 1
ROWS_PER_BATCH = 10
processes = st.integers(0, PROCESSES - 1)

Chunk = list[int]
Pieces = list[tuple[int, str, list[Chunk]]]
"""Task, path and chunks of rows."""


def pieces(batch: int) -> Pieces:
    """What the tasks of a batch write, the same at every try."""
    first = batch * ROWS_PER_BATCH
    near, far = list(range(first, first + 7)), list(range(first + 7, first + ROWS_PER_BATCH))
    return [
        (0, "orders", [near[0:2], near[2:4]]),
        (1, "orders", [near[4:5], [], near[5:7]]),
        (1, "other", [far]),
    ]


def payload(row: int) -> bytes:
    key = KEYS[row % len(KEYS)]
    return plain(row, 4) if key is None else keyed(row, key, 4)


class Log:
    """The checkpoint that all runs share."""

    def __init__(self) -> None:
        self.committed = -1
        self.epochs = 0
        self.names = 0

    def new_epoch(self) -> int:
        self.epochs += 1
        return self.epochs

    def new_name(self) -> str:
        self.names += 1
        return f"try {self.names}"


class Question:
    """One command, and what was heard of it."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.incarnation = process.incarnation
        self.is_good = False
        self.error: BusError | None = None

    @property
    def is_answered(self) -> bool:
        return self.is_good or self.error is not None

    @property
    def is_lost(self) -> bool:
        return not self.is_answered and self.process.incarnation != self.incarnation

    def confirmed(self, requests: Sequence[int], first: int, dropped: Sequence[int] = ()) -> None:
        self.is_good = True

    def refused(self, requests: Sequence[int], error: BusError) -> None:
        self.error = error

    def published(self, count: int, is_repeated: bool) -> None:
        assert is_repeated or count == ROWS_PER_BATCH
        self.is_good = True

    def failed(self, error: BusError) -> None:
        self.error = error


class Run:
    """One driver with its tasks, one command at a time."""

    def __init__(self, relays: Relays, log: Log) -> None:
        self._relays = relays
        self._log = log
        self.is_over = False
        self._begin()

    def _begin(self) -> None:
        self._batch = self._log.committed + 1
        self._epoch = self._log.new_epoch()
        self._pieces = pieces(self._batch)
        self._at = self._chunk = 0
        self._name = self._log.new_name()
        self._written: list[tuple[str, int]] = []
        self._question: Question | None = None

    def _home(self) -> LocalFragment | None:
        if not self._relays.owner("orders", HOME).is_alive:
            return None
        return self._relays.fragment("orders", HOME)

    def ask(self) -> None:
        """Ask for the next thing, or for the last one again."""
        home, self._question = self._home(), None
        if home is not None and not self.is_over:
            self._question = Question(self._relays.owner("orders", HOME))
            home.submit(self._command(self._question))

    def _command(self, port: Question) -> Command:
        if self._at == len(self._pieces):
            return PublishStages(port, "job", "query", self._epoch, self._batch, self._written)
        _, path, chunks = self._pieces[self._at]
        messages = [to_stored(payload(row)) for row in chunks[self._chunk]]
        size = sum(len(message.body) for message in messages)
        who = ("job", self._epoch, self._name, path, self._chunk)
        return StageMessages(port, *who, messages, [1], size)

    def hear(self) -> None:
        """Go on when there is an answer."""
        question = self._question
        if self.is_over:
            return
        if question is None or question.is_lost:
            self.ask()
        elif question.is_good:
            self._go_on()
        elif question.error is not None:
            # A run that is shut out, or whose stages are gone, ends; others are tried again.
            self.is_over = isinstance(question.error, StageFenced | StageLost)
            assert self.is_over or question.error.retryable, question.error.text
            self.ask()

    def _go_on(self) -> None:
        if self._at == len(self._pieces):
            self._log.committed = max(self._log.committed, self._batch)
            self._begin()
        else:
            chunks = self._pieces[self._at][2]
            self._chunk += 1
            if self._chunk == len(chunks):
                self._written.append((self._name, sum(map(len, chunks))))
                self._at, self._chunk, self._name = self._at + 1, 0, self._log.new_name()
        self.ask()

    def task_fails(self) -> None:
        """What the task has staged so far is left behind."""
        if not self.is_over and self._at < len(self._pieces):
            self._chunk, self._name, self._question = 0, self._log.new_name(), None


class StageModel(RuleBasedStateMachine):
    """Drives runs and processes."""

    @initialize()
    def begin(self) -> None:
        self.relays = Relays(PROCESSES)
        self.relays.create("orders", QueueSpec(enable_partitioning=True, fragments=4))
        self.relays.create("other", QueueSpec())
        self.relays.run()
        self.log = Log()
        self.runs = [Run(self.relays, self.log)]

    # --- what the job does --------------------------------------------------------------------

    @rule(number=st.integers(0, 2), steps=st.integers(1, 12))
    def work(self, number: int, steps: int) -> None:
        run = self.runs[number % len(self.runs)]
        for _ in range(steps):
            run.hear()
            for _ in range(3):
                self.relays.owner("orders", HOME).steps.step()

    @rule(number=st.integers(0, 2))
    def ask_again(self, number: int) -> None:
        self.runs[number % len(self.runs)].ask()

    @rule(number=st.integers(0, 2))
    def task_fails(self, number: int) -> None:
        self.runs[number % len(self.runs)].task_fails()

    @precondition(lambda self: len(self.runs) < 6)
    @rule()
    def another_run(self) -> None:
        """The last one is believed to be dead; it may live."""
        self.runs.insert(0, Run(self.relays, self.log))

    # --- what the world does ------------------------------------------------------------------

    @rule(steps=st.lists(processes, min_size=1, max_size=30))
    def steps(self, steps: list[int]) -> None:
        for number in steps:
            self.relays.processes[number].steps.step()

    @rule(delta_ms=st.sampled_from([10, 600, 3_000, STAGE_LIFE_MS // 2]))
    def time_passes(self, delta_ms: int) -> None:
        self.relays.clock.advance_ms(delta_ms)

    @rule(number=processes, kept=st.integers(0, 3))
    def kill(self, number: int, kept: int) -> None:
        process = self.relays.processes[number]
        if process.is_alive:
            process.kill(kept)

    @rule(number=processes)
    def start(self, number: int) -> None:
        process = self.relays.processes[number]
        if not process.is_alive:
            process.start()

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

    # --- the end ------------------------------------------------------------------------------

    def teardown(self) -> None:
        for process in self.relays.processes:
            if process.store.state.value != "up":
                process.store.heal()
        self.relays.settle_down()
        last = Run(self.relays, self.log)
        goal = self.log.committed + 2
        while self.log.committed < goal:
            last.hear()
            self.relays.run()
            assert not last.is_over
        self.relays.settle_down()
        rows = range((goal + 1) * ROWS_PER_BATCH)
        found = self.relays.everything()
        assert found == Counter((b"%02d" % row).rjust(4, b".") for row in rows)
        self.order_is_kept()
        self.nothing_is_left(last)

    def order_is_kept(self) -> None:
        for key in KEYS[:2]:
            for index in range(4):
                waiting = [int(body.strip(b".")) for body in self.relays.waiting("orders", index)]
                mine = [row for row in waiting if KEYS[row % len(KEYS)] == key]
                assert mine == sorted(mine)

    def nothing_is_left(self, last: Run) -> None:
        """But for the batch that the last run has begun; and the books agree."""
        state = self.relays.fragment("orders", HOME).machine.state
        stages = state.stages
        assert stages is not None
        assert {stage.epoch for stage in stages.by_number.values()} <= {last._epoch}
        assert not stages.published
        for process in self.relays.processes:
            states = [fragment.machine.state for fragment in process.fragments.values()]
            assert process.store.live_bytes == sum(state.size_bytes for state in states)


StageModel.TestCase.settings = settings(
    max_examples=200,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestStages = StageModel.TestCase
