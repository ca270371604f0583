"""Transactions, by the clients of other languages. Go's client has none."""

import pytest

from conformance.sdks.conftest import Fresh
from conformance.sdks.drivers import Sdk
from conformance.sdks.operations import operation


@operation("transaction: commit", "Java", "Java async")
@pytest.mark.rule("TXN-1")
def test_a_settlement_and_a_send_are_committed_together(sdk: Sdk, queue: str) -> None:
    assert sdk.run("commit", queue=queue) == {"before": ["order"], "after": ["invoice"]}


@operation("transaction: roll back", "Java", "Java async")
@pytest.mark.rule("TXN-1")
def test_a_transaction_is_rolled_back(sdk: Sdk, queue: str) -> None:
    assert sdk.run("rollBack", queue=queue) == []


@operation("transaction over two entities", "Java", "Java async")
@pytest.mark.rule("TXN-4")
def test_a_transaction_over_two_queues(sdk: Sdk, fresh: Fresh, queue: str) -> None:
    result = sdk.run("crossEntity", queue=queue, other=fresh(), crossEntity=True)
    assert result == {"source": [], "taken": ["invoice"]}
