"""An application to ask."""

from collections.abc import Iterator

import pytest

from support.management import ManagementBench


@pytest.fixture
def bench() -> Iterator[ManagementBench]:
    made = ManagementBench()
    yield made
    made.catalog.close()
