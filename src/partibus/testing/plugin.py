"""Fixtures for pytest: a server for the session, a namespace for each test.

Owns the fixtures and settings that pytest has when partibus is installed; see the guide to testing.
It is loaded in every run of pytest, so it must never import anything of partibus before a fixture
is used, and has no hook that runs for tests that use none.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from partibus.testing import FakeClock, Faults, Namespace, TestingServer

CONNECTION_VARIABLE: Final = "PARTIBUS_TEST_CONNECTION_STRING"
"""The connection string of a running server, such as one in a container; it must run with
--testing."""
CA_VARIABLE: Final = "PARTIBUS_TEST_CA_FILE"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The settings of pytest's own file."""
    parser.addini("partibus_config", "entities that every namespace of a test begins with", "paths")
    parser.addini("partibus_stores", "stores of the server that tests use", default="1")
    parser.addini(
        "partibus_quick_sdk", "the Python SDK without its fixed waits, in every test", "bool", False
    )


@pytest.fixture(scope="session")
def bus(pytestconfig: pytest.Config) -> Iterator["TestingServer"]:
    """A server for this test process, in memory, ready in about ten milliseconds."""
    from partibus.testing import Server, TestingServer

    running = os.environ.get(CONNECTION_VARIABLE)
    if running:
        yield TestingServer(running, os.environ.get(CA_VARIABLE))
        return
    files = pytestconfig.getini("partibus_config")
    if len(files) > 1:
        raise pytest.UsageError("partibus_config takes exactly one file")
    stores = int(pytestconfig.getini("partibus_stores"))
    with Server(config=files[0] if files else None, stores=stores) as server:
        yield server


@pytest.fixture
def namespace(bus: "TestingServer", request: pytest.FixtureRequest) -> Iterator["Namespace"]:
    """A namespace that only this test sees, with its own clock and faults."""
    with ExitStack() as stack:
        if request.config.getini("partibus_quick_sdk"):
            request.getfixturevalue("quick_sdk")
        yield stack.enter_context(bus.namespace())


@pytest.fixture
def connection_string(namespace: "Namespace") -> str:
    """The connection string for the program under test."""
    return namespace.connection_string


@pytest.fixture(scope="session")
def ca_file(bus: "TestingServer") -> str | None:
    """The certificate that administration clients must trust: they always use TLS."""
    return bus.ca_file


@pytest.fixture
def clock(namespace: "Namespace") -> "FakeClock":
    """The time of the test's namespace: `clock.advance("7d")`."""
    return namespace.clock


@pytest.fixture
def faults(namespace: "Namespace") -> Iterator["Faults"]:
    """Injects faults into the test's namespace; they end with the test."""
    yield namespace.faults
    namespace.faults.clear()


@pytest.fixture
def reset(namespace: "Namespace") -> Callable[[], None]:
    """Empties the test's namespace, in the middle of a test."""
    return namespace.reset


@pytest.fixture
def quick_sdk() -> Iterator[None]:
    """The Python SDK without its fixed waits: a second less for each sender and receiver."""
    from partibus import testing

    with testing.quick_sdk():
        yield
