"""A server of the test kit in this process, and a namespace for each test."""

from collections.abc import Iterator

import pytest

from partibus.testing import Namespace, Server, quick_sdk


@pytest.fixture(scope="session")
def kit_server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def namespace(kit_server: Server) -> Iterator[Namespace]:
    with kit_server.namespace() as made:
        yield made


@pytest.fixture(autouse=True)
def _quick() -> Iterator[None]:
    with quick_sdk():
        yield
