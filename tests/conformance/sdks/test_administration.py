"""Queues, topics and subscriptions, made and read by the administration clients."""

import pytest

from conformance.sdks.conftest import Fresh
from conformance.sdks.drivers import Sdk
from conformance.sdks.operations import operation


@operation("administer queues", "Go", "Java", "Java async")
@pytest.mark.rule("PRP-1", "PRP-2")
def test_a_queue_is_made_changed_counted_and_deleted(sdk: Sdk) -> None:
    assert sdk.run("administerQueue", queue=f"made-by-{sdk.client.replace(' ', '-')}") == {
        "lockDuration": "PT30S",
        "maxDeliveryCount": 5,
        "requiresSession": True,
        "userMetadata": f"made by {sdk.client.split()[0]}",
        "total": 0,
        "gone": True,
    }


@operation("administer topics and subscriptions", "Go", "Java")
def test_a_topic_and_its_subscription(sdk: Sdk) -> None:
    result = sdk.run("administerTopic", topic=f"topic-of-{sdk.client}")
    assert result == {"maxDeliveryCount": 4, "names": ["first"], "count": 1}


@operation("list entities", "Go", "Java")
def test_queues_are_listed_page_by_page(sdk: Sdk, fresh: Fresh) -> None:
    names = [fresh() for _ in range(5)]
    listed = sdk.run("listQueues")
    assert len(listed) == len(set(listed))
    assert set(names) <= set(listed)


@operation("namespace properties", "Go", "Java")
def test_the_namespace_has_properties(sdk: Sdk) -> None:
    result = sdk.run("namespaceProperties")
    assert result["named"]
    assert result["sku"]


@operation("missing entity in administration", "Go", "Java")
def test_a_queue_that_is_missing(sdk: Sdk, queue: str) -> None:
    assert sdk.run("queueExists", queue=queue) is True
    assert sdk.run("queueExists", queue="no-such-queue") is False


@operation("conflict in administration", "Go", "Java")
def test_a_queue_that_is_there_already(sdk: Sdk, queue: str) -> None:
    assert sdk.failure("createQueue", queue=queue) in ("409", "RESOURCE_EXISTS")
