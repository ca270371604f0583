"""The asynchronous half of the stock Python client, over the same operations."""

import pytest
from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.servicebus.aio.management import ServiceBusAdministrationClient
from azure.servicebus.management import SqlRuleFilter

from conformance.admin.conftest import Fresh
from support.server import ServerProcess


async def test_every_kind_of_entity(connection: str, server: ServerProcess, fresh: Fresh) -> None:
    queue, topic = fresh("queue"), fresh("topic")
    # Its HTTP library reads SSL_CERT_FILE when it is imported, which is too early here.
    client = ServiceBusAdministrationClient.from_connection_string(
        connection, connection_verify=str(server.ready.ca), retry_total=0
    )
    async with client as admin:
        await admin.create_queue(queue, max_delivery_count=4)
        got = await admin.get_queue(queue)
        await admin.update_queue(got, max_delivery_count=5)
        assert (await admin.get_queue(queue)).max_delivery_count == 5
        assert (await admin.get_queue_runtime_properties(queue)).total_message_count == 0
        assert queue in [one.name async for one in admin.list_queues(max_page_size=3)]
        with pytest.raises(ResourceExistsError):
            await admin.create_queue(queue)
        await admin.create_topic(topic)
        await admin.create_subscription(topic, "sub")
        await admin.create_rule(topic, "sub", "rule", filter=SqlRuleFilter("size > 3"))
        rules = [rule.name async for rule in admin.list_rules(topic, "sub")]
        assert rules == ["$Default", "rule"]
        rule = await admin.get_rule(topic, "sub", "rule")
        await admin.update_rule(topic, "sub", rule, filter=SqlRuleFilter("size > 4"))
        changed = await admin.get_rule(topic, "sub", "rule")
        assert changed.filter.sql_expression == "size > 4"
        await admin.delete_rule(topic, "sub", "rule")
        await admin.delete_subscription(topic, "sub")
        await admin.delete_topic(topic)
        await admin.delete_queue(queue)
        with pytest.raises(ResourceNotFoundError):
            await admin.get_queue(queue)
        assert (await admin.get_namespace_properties()).messaging_sku == "Standard"
