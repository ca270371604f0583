"""Runs a named scenario of a script under tests/conformance/js in Node.

The script prints one line of JSON: the scenario's result, or the error it threw. Used by the
tests of the group "javascript".
"""

import json
import subprocess
from typing import Any, Final

from support.groups import JS

SCENARIO_SECONDS_MAX: Final = 120


def scenario(
    script: str, name: str, *, environment: dict[str, str] | None = None, **given: object
) -> Any:
    """The result of a scenario; the test fails with the scenario's error if it threw."""
    outcome = _run(script, name, environment, given)
    assert "error" not in outcome, outcome["error"]
    return outcome.get("result")


def failure(script: str, name: str, **given: object) -> dict[str, Any]:
    """The error that a scenario threw; the test fails if it threw none."""
    outcome = _run(script, name, None, given)
    assert "error" in outcome, f"{name} should have failed but gave {outcome}"
    error: dict[str, Any] = outcome["error"]
    return error


def _run(
    script: str, name: str, environment: dict[str, str] | None, given: dict[str, object]
) -> dict[str, Any]:
    done = subprocess.run(
        ["node", str(JS / script), name, json.dumps(given)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=SCENARIO_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    outcome: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return outcome
