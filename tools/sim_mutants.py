"""Plants bugs in a copy of the source and has the simulator find each of them.

Owns the list of bugs, one line of the product each, and the number of steps within which each must
be found. The copies are in a temporary directory; the source is not touched. Run by
`make sim-mutants`; with words as arguments, only the bugs whose names contain one of them.
"""

import concurrent.futures
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "partibus"
STEPS = 3000
STEPS_MAX = 1_000_000
"""Each bug must be found within this many steps."""
PROGRAM = """
import sys
from partibus.simulation.plan import draw_for
from partibus.simulation.run import run_plan
nodes = 0 if sys.argv[3:] else None
steps = seed = 0
while steps < int(sys.argv[1]):
    seed += 1
    verdict = run_plan(draw_for(seed, int(sys.argv[2]), nodes))
    steps += verdict.steps
    if verdict.violation is not None:
        print(f"{steps} {seed} {verdict.violation}")
        break
"""


@dataclass(slots=True, frozen=True)
class Bug:
    """One line, as it is and with the bug."""

    name: str
    module: str
    right: str
    wrong: str
    in_cluster: bool = False
    """Whether it takes a cluster to find it."""


BUGS = (
    Bug(
        "acknowledge before fsync",
        "store/files/segment_writer.py",
        "        self._disk.sync(self._fd)\n        self._advance(group[-1].end)",
        "        self._advance(group[-1].end)",
    ),
    Bug(
        "report a commit before it is made",
        "store/lane/commit.py",
        "        if self._engine.finish(oldest):\n            self._report(self.finished())\n",
        "        self._report(self.finished())\n        if self._engine.finish(oldest):\n",
    ),
    Bug(
        "leave a refused entry in the log",
        "store/lane/commit.py",
        "        self._engine.withdraw()\n",
        "",
    ),
    Bug(
        "treat a failed append as successful",
        "fragment/broker.py",
        "            if error is None:\n                machine.commit(change, now_ms, out)",
        "            if error is None or change.records:\n"
        "                machine.commit(change, now_ms, out)",
    ),
    Bug(
        "forget the abort of a settlement",
        "fragment/queue/settlement.py",
        ".stay_locked(held)\n        else:",
        ".stay_locked if held else None\n        else:",
    ),
    Bug(
        "forget what was sent before",
        "fragment/queue/duplicates.py",
        "if identity in pending or history.contains(high, low, cutoff):",
        "if identity in pending:",
    ),
    Bug(
        "forget at a restart what was sent before",
        "fragment/queue/duplicates.py",
        "        state.history.add(high, low, stamp, 0)",
        "        pass",
    ),
    Bug(
        "settle with a lost lock",
        "fragment/queue/settlement.py",
        "            lost.append(token)\n        else:\n"
        "            held.append(message)\n    state.tally.lost += len(lost)",
        "            pass\n        else:\n            held.append(message)",
    ),
    Bug(
        "never release the room of a settled message",
        "fragment/queue/settlement.py",
        "    keep(state, change.messages, out)\n    out.released.extend(change.messages)\n",
        "    keep(state, change.messages, out)\n",
    ),
    Bug(
        "release a settled message twice",
        "fragment/queue/settlement.py",
        "    keep(state, change.messages, out)\n    out.released.extend(change.messages)\n",
        "    keep(state, change.messages, out)\n    out.released.extend(change.messages * 2)\n",
    ),
    Bug(
        "give a session to two receivers",
        "fragment/sessions/locks.py",
        "    if session.lock is None:\n        grant",
        "    if True:\n        grant",
    ),
    Bug(
        "activate a scheduled message at once",
        "fragment/queue/arrivals.py",
        "        if message.scheduled_ms > now_ms:",
        "        if message.scheduled_ms > now_ms + 2_000:",
    ),
    Bug(
        "keep a checkpoint of a later position than its states",
        "store/lane/log.py",
        "self._acknowledged if increment is None else increment.position",
        "self._tail",
    ),
    Bug(
        "name a checkpoint before it is durable",
        "store/files/checkpoint.py",
        "            disk.sync(fd)\n",
        "",
    ),
    Bug(
        "begin a segment whose name is not durable",
        "store/files/segment.py",
        "        disk.sync(fd)\n        disk.sync_directory(directory)",
        "        disk.sync(fd)",
    ),
    Bug(
        "call a lost worker's outcome a refusal",
        "cluster/remote.py",
        "                command.refuse(self._outcome_unknown())",
        "                command.refuse(self._unavailable())",
    ),
    Bug(
        "take a parcel of another fragment twice",
        "fragment/outbox/fencing.py",
        "    if numbers[0] > mark.taken:\n",
        "    if numbers:\n",
    ),
    Bug(
        "share a body without counting it",
        "fragment/broker.py",
        "            self.store.retain(position, length)\n",
        "            pass\n",
    ),
    Bug(
        "let messages go while they are read",
        "store/reading.py",
        "            self._table.hold(position)\n",
        "            pass\n",
    ),
    Bug(
        "confirm a settlement before it is durable",
        "fragment/queue/settlement.py",
        "        out.changes.append(Answer(command, lost))",
        "        out.outward.append(Settled(command.port, command.request, lost, None))",
    ),
    Bug(
        "ignore the locks of a transaction",
        "fragment/transactions/atomic.py",
        "    if not lost:\n        return None\n",
        "    return None\n",
    ),
    Bug(
        "forget the abort of an arrival's identities",
        "fragment/queue/arrivals.py",
        "    if change.check is not None:\n        let_go(state, change.check)\n    out.outward",
        "    out.outward",
    ),
    Bug(
        "commit half of a transaction",
        "fragment/transactions/atomic.py",
        "            _take_back(prepared, error)\n",
        "            return prepared\n",
    ),
    Bug(
        "rely on an entry that a failed sync dropped",
        "store/files/recovery.py",
        "        _write_again(disk, fd, max(0, scan.known_durable - base), scan.end - base)\n",
        "",
    ),
    Bug(
        "hand out bytes that fail their checksum",
        "store/reading.py",
        "        if crc32c(body) != _unpack_crc(data, offset - BODY_CRC_BYTES)[0]:",
        "        if False:",
    ),
    Bug(
        "let go of what a cursor has not read",
        "fragment/cursors/retention.py",
        "        if held.sequence >= retention.low:\n            retention.add(held)\n"
        "            out.retained",
        "        if held.sequence > retention.low + 3:\n            retention.add(held)\n"
        "            out.retained",
    ),
    Bug(
        "hand out a message whose time is up",
        "fragment/queue/dispatch.py",
        "        if is_main and 0 < held.expires_ms <= now_ms:",
        "        if False:",
    ),
    Bug(
        "drop an expired message",
        "fragment/queue/expiry.py",
        "    if state.spec.dead_letter_on_expiry:",
        "    if False:",
    ),
    Bug(
        "publish a batch again",
        "fragment/stages/behaviour.py",
        "    writer.note(command.series, command.batch)\n    writer.used_ms",
        "    writer.used_ms",
    ),
    Bug(
        "keep the memory of a connection that is gone",
        "gateway/connection.py",
        "            self._share.update(0, 0, 0)\n",
        "",
    ),
    Bug(
        "keep a receiver in line after it has left",
        "fragment/sessions/subqueue.py",
        "            self.in_sessions.acceptors.pop(consumer, None)\n",
        "            pass\n",
    ),
    Bug(
        "treat a row of an old epoch as durable",
        "store/postgres/appending.py",
        "        if changed != 1:\n            raise self._lane.fenced()\n        self._is_durable",
        "        self._is_durable",
        in_cluster=True,
    ),
    Bug(
        "treat a row of an old epoch as durable, beside other lanes",
        "store/postgres/appending.py",
        "        if changed == 1:\n            self._is_durable",
        "        if changed is not None:\n            self._is_durable",
        in_cluster=True,
    ),
    Bug(
        "treat a refused transaction as durable",
        "store/postgres/sharing.py",
        "            return [None] * len(rows) if is_answer(error) else error",
        "            return [1] * len(rows)",
        in_cluster=True,
    ),
    Bug(
        "acknowledge before the database has answered",
        "store/postgres/appending.py",
        "            changed = self._pipeline.receive(self._wakeup)\n",
        "            changed = 1\n",
        in_cluster=True,
    ),
    Bug(
        "call a lost answer of the database a refusal",
        "store/postgres/connection.py",
        "    return state is not None and not state.startswith(_UNANSWERED)",
        "    return True",
        in_cluster=True,
    ),
    Bug(
        "keep the state of a lane whose lease was lost",
        "server/nodes/lane_keeping.py",
        "            if not is_ours:\n                self._begin(lane, self._throw_away(lane))\n"
        "            elif lane",
        "            if lane",
        in_cluster=True,
    ),
    Bug(
        "keep a lane whose store has another writer",
        "server/nodes/lane_keeping.py",
        "            is_ours = is_ours and not self._lanes.brokers[lane].store.fenced\n",
        "",
        in_cluster=True,
    ),
    Bug(
        "never give back a lane whose lease was taken without an answer",
        "control/lease_view.py",
        "        return frozenset(lane for lane, owner in owners if owner == self.node) - "
        "self._held",
        "        return frozenset(lane for lane, _ in owners if lane < 0)",
        in_cluster=True,
    ),
    Bug(
        "read from the entries in memory of an earlier writer",
        "store/postgres/store.py",
        "        self._newest = RecentEntries(recent_bytes)\n",
        "        self._newest = globals().setdefault((owner, lane), RecentEntries(recent_bytes))\n",
        in_cluster=True,
    ),
    Bug(
        "give up a lane that could not be opened",
        "server/nodes/lane_keeping.py",
        "            self._retry[lane] = loop.call_later(RETRY_S, self._try_again, lane)",
        "            self._retry[lane] = loop.call_later(1e6, self._try_again, lane)",
        in_cluster=True,
    ),
)


@dataclass(slots=True, frozen=True)
class Finding:
    """The result of the simulator for a bug."""

    bug: Bug
    said: str
    seconds: float

    @property
    def is_found(self) -> bool:
        """Whether a promise was broken within the steps."""
        return bool(self.said)


def plant(bug: Bug, place: Path) -> None:
    """A copy of the source with the bug in it."""
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(SOURCE, place / "partibus", ignore=ignored)
    module = place / "partibus" / bug.module
    text = module.read_text(encoding="utf-8")
    if text.count(bug.right) != 1:
        raise SystemExit(f"{bug.name}: {bug.module} has {text.count(bug.right)} such lines")
    module.write_text(text.replace(bug.right, bug.wrong), encoding="utf-8")


def hunt(bug: Bug) -> Finding:
    """Run seeds against a bug until one fails."""
    began = time.monotonic()
    cluster = ["cluster"] if bug.in_cluster else []
    with tempfile.TemporaryDirectory() as directory:
        plant(bug, Path(directory))
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(STEPS_MAX), str(STEPS), *cluster],
            env={"PYTHONPATH": directory},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        raise SystemExit(f"{bug.name}: it does not run:\n{done.stderr}")
    said = done.stdout.strip()
    return Finding(bug, said, time.monotonic() - began)


def main() -> None:
    """Find them all, or say which were not found."""
    words = sys.argv[1:]
    bugs = [bug for bug in BUGS if not words or any(word in bug.name for word in words)]
    missed = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for finding in pool.map(hunt, bugs):
            missed += not finding.is_found
            if finding.is_found:
                steps, seed, violation = finding.said.split(" ", 2)
                print(f"found  {finding.bug.name}: after {steps} steps, seed {seed}: {violation}")
            else:
                print(f"MISSED {finding.bug.name}: {STEPS_MAX} steps", file=sys.stderr)
    print(f"{len(bugs) - missed} of {len(bugs)} planted bugs found")
    raise SystemExit(1 if missed else 0)


if __name__ == "__main__":
    main()
