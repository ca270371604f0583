"""What a test of this folder proves: an operation, by the clients that are driven through it.

Owns the clients, the group of tests that each needs, and the decorator that runs a test once
for each client. test_table.py reads the decorators and compares them with the table in
docs/compatibility.md, so the names of operations and clients are plain strings there.
"""

from collections.abc import Callable
from typing import Any, Final

import pytest

# By the heading of its column: the group of tests that a client needs.
CLIENTS: Final = {
    "Java": "java-sdk",
    "Java async": "java-sdk",
    "Java processor": "java-sdk",
    "Spring": "java-sdk",
    "Go": "go",
    "Rust": "rust",
}

Test = Callable[..., None]


def operation(name: str, *clients: str) -> Callable[[Test], Test]:
    """Run the test once for each client; it takes the client as the fixture `sdk`."""
    assert name, "an operation has a name, which is its row in the table"
    cases: list[Any] = [
        pytest.param(client, marks=pytest.mark.group(CLIENTS[client])) for client in clients
    ]

    def decorate(test: Test) -> Test:
        return pytest.mark.parametrize("sdk", cases, indirect=True)(test)

    return decorate
