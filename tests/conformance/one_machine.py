"""The conformance tests that are not for a cluster, each with the reason.

Owns the list that `make test-cluster` leaves out and prints at its end. A test is here only when it
is about something that one machine alone has: what its directory holds, how its workers share it,
or a mode that is refused together with `--cluster`. What a client sees is never a reason.
"""

from pathlib import Path
from typing import Final

import pytest

HERE: Final = Path(__file__).parent

LEFT_OUT: Final = {
    "kit/": "the kit for test suites is a server in memory, with a time of its own",
    "emulator/test_tools.py": "--emulator replaces the vendor's container, which is one server",
}
"""By the beginning of the test's id under this folder."""


def reason(item: pytest.Item) -> str | None:
    """Why a test of this folder is left out; None when it is not."""
    name = item.path.relative_to(HERE).as_posix() + "::" + item.nodeid.partition("::")[2]
    return next((why for start, why in LEFT_OUT.items() if name.startswith(start)), None)


def lines() -> list[str]:
    """What a run says at its end."""
    return [f"not for a cluster: {start}: {why}" for start, why in LEFT_OUT.items()]
