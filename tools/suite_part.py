"""Runs one part of the test suite, and gives the few tests that failed a second run, alone.

Owns the verdict on a part: it passes when every test passed, or when at most `SECOND_RUNS_MAX`
failed and each of them passed when it ran again by itself. Those are printed as unstable, with the
command that runs them: an unstable test has a cause to be found, in the test or in the product. It
must never hide a failure: the first run's report stays in the output, whole.

    python tools/suite_part.py [PYTEST OPTION ...]
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

SECOND_RUNS_MAX: Final = 5
"""More failures than this are not chance."""
TESTS_FAILED: Final = 1
"""The exit code of pytest when tests ran and some failed."""


def pytest(*options: str) -> tuple[int, list[str]]:
    """Run it; returns its exit code, and the names of what failed. Another part may run beside it,
    so the names are kept apart."""
    with tempfile.TemporaryDirectory(prefix="partibus-part-") as cache:
        words = [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}", *options]
        code = subprocess.call(words)
        kept = Path(cache, "v/cache/lastfailed")
        return code, sorted(json.loads(kept.read_text(encoding="utf-8"))) if kept.exists() else []


def main(options: list[str]) -> int:
    """The exit code for this part."""
    code, failed = pytest(*options)
    if code != TESTS_FAILED or not 0 < len(failed) <= SECOND_RUNS_MAX:
        return code
    print(f"\n{len(failed)} failed, and run again alone: {' '.join(failed)}", flush=True)
    again, _ = pytest(*failed)
    if again == 0:
        print("unstable: failed once and passed alone. Find out why:", flush=True)
        for name in failed:
            print(f"    .venv/bin/python -m pytest '{name}'", flush=True)
    return again


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
