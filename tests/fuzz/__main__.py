"""`make fuzz`: every target in turn for a bounded time, with its inputs counted.

Each target runs in a process of its own, from its seeds and its kept corpus. An input that fails is
reduced, written to `crashes/TARGET.txt`, and makes the command fail; the test of the corpus then
fails too, until the product is right. With --keep the corpus is reduced to what adds coverage.
"""

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fuzz.interpreted import prefer_sources

ROOT: Final = Path(__file__).resolve().parents[2]
EXECUTED: Final = re.compile(rb"stat::number_of_executed_units: (\d+)")
PEAK: Final = re.compile(rb"stat::peak_rss_mb:\s+(\d+)")
ERROR: Final = re.compile(r"^(?: === Uncaught Python exception: ===\n)(.*)$", re.MULTILINE)
HANG_S: Final = 10
"""One input; a thousand times what the slowest honest one takes."""
MEMORY_MB: Final = 1024
"""The whole process, with Python, the product and the fuzzer's own tables."""


@dataclass
class Outcome:
    """What a run of one target came to."""

    inputs: int
    peak_mb: int
    failures: list[tuple[bytes, str]]


def main() -> int:
    arguments = _arguments()
    if importlib.util.find_spec("atheris") is None:
        print("left out: fuzzing, which needs Atheris. Bring it: pip install --group fuzz")
        return 1 if os.environ.get("PARTIBUS_CI") else 0
    prefer_sources()
    from fuzz import corpus
    from fuzz.registry import TARGETS

    names = arguments.target or list(TARGETS)
    total = failed = 0
    for name in names:
        outcome = fuzz(name, arguments.seconds, arguments.runs, keeps=arguments.keep)
        total += outcome.inputs
        failed += len(outcome.failures)
        print(f"{name:20} {outcome.inputs:>10,} inputs, peak {outcome.peak_mb} MB", flush=True)
        for data, what in outcome.failures:
            print(f"    FAILED: {what} (crashes/{name}.txt)", flush=True)
            corpus.add_crash(name, data, what)
    print(f"{total:,} inputs over {len(names)} targets: {failed or 'no'} failures")
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=10, help="for each target")
    parser.add_argument("--runs", type=int, default=-1, help="inputs for each target, at most")
    parser.add_argument("--target", action="append", help="only this one; may be repeated")
    parser.add_argument("--keep", action="store_true", help="keep what adds coverage")
    return parser.parse_args()


def fuzz(name: str, seconds: int, runs: int, *, keeps: bool) -> Outcome:
    """Look for inputs that fail, from what is known of the target."""
    from fuzz import corpus
    from fuzz.reducing import reduced, worth_keeping
    from fuzz.registry import TARGETS

    known = [*TARGETS[name].seeds(), *corpus.kept(name), *corpus.crashes(name)]
    with tempfile.TemporaryDirectory(prefix="partibus-fuzz-") as place:
        found, artifacts = Path(place) / "found", Path(place) / "failed"
        corpus.write_out(found, known)
        artifacts.mkdir()
        limits = [f"-max_total_time={seconds}", f"-runs={runs}", f"-timeout={HANG_S}"]
        said = _run(name, [str(found), f"-artifact_prefix={artifacts}/", *limits])
        target = TARGETS[name]
        failed = [path.read_bytes() for path in sorted(artifacts.iterdir())]
        failures = [(reduced(target, data), _what(said)) for data in failed]
        if keeps:
            corpus.keep(name, worth_keeping(target, corpus.read_in(found)))
    return Outcome(_number(EXECUTED, said), _number(PEAK, said), failures)


def _run(name: str, arguments: list[str]) -> bytes:
    """A process of the fuzzer; what it says."""
    command = [sys.executable, "-m", "fuzz.worker", name]
    always = ["-print_final_stats=1", f"-rss_limit_mb={MEMORY_MB}", "-max_len=4096"]
    places = [str(ROOT / "src"), str(ROOT / "tests"), str(ROOT / "tools")]
    ended = subprocess.run(
        [*command, *always, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return ended.stdout


def _what(said: bytes) -> str:
    """The failure in a line."""
    text = said.decode("utf-8", "replace")
    match = ERROR.search(text)
    if match is not None:
        return match[1][:200]
    last = [line for line in text.splitlines() if "ERROR: libFuzzer" in line]
    return last[-1].strip()[:200] if last else "unknown; run the target alone to see"


def _number(pattern: re.Pattern[bytes], said: bytes) -> int:
    match = pattern.search(said)
    return int(match[1]) if match else 0


sys.exit(main())
