"""A standalone cluster for the tests here: a master and two workers, each a process of its own.

It starts with the first test that asks for it. Drivers are processes too, one after the other,
since each takes both workers.
"""

from collections.abc import Iterator

import pytest
from cluster import Cluster

from support.groups import absent_groups

collect_ignore_glob = ["test_*.py"] if "spark" in absent_groups() else []


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    from spark.quick_python import PYTHON_PATH

    with Cluster(memory="1g", env={"PYTHONPATH": PYTHON_PATH}) as running:
        yield running
