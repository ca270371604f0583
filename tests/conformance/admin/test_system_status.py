"""Properties that have a will of their own: statuses of the system, and idle times."""

import pytest
from azure.core.exceptions import HttpResponseError
from azure.servicebus.management import EntityStatus, ServiceBusAdministrationClient

from conformance.admin.conftest import Fresh
from support.json_admin import JsonAdmin, Refused
from support.server import ServerProcess

SYSTEM = ("Creating", "Deleting", "Renaming", "Restoring", "Unknown")


@pytest.mark.rule("STS-4")
@pytest.mark.parametrize("status", SYSTEM)
def test_a_status_of_the_system_is_refused(
    server: ServerProcess, admin: ServiceBusAdministrationClient, fresh: Fresh, status: str
) -> None:
    name = fresh("status")
    queue = admin.create_queue(name)
    queue.status = EntityStatus(status)
    with pytest.raises(HttpResponseError) as refused:
        admin.update_queue(queue)
    assert refused.value.status_code == 400
    with pytest.raises(Refused) as told:
        JsonAdmin(server).update(name, status=status)
    assert told.value.status == 400
    assert admin.get_queue(name).status == "Active"


@pytest.mark.rule("STS-1", "CON-23")
def test_the_statuses_that_clients_set(server: ServerProcess, fresh: Fresh) -> None:
    admin = JsonAdmin(server)
    topic = fresh("statuses")
    subscription = f"{topic}/Subscriptions/sub"
    admin.create(topic, "topic")
    admin.create(subscription, "subscription")
    allowed = {topic: "SendDisabled", subscription: "ReceiveDisabled"}
    for path, own in allowed.items():
        for status in ("Disabled", own, "Active"):
            assert admin.update(path, status=status)["properties"]["status"] == status
    for path, others in ((topic, "ReceiveDisabled"), (subscription, "SendDisabled")):
        with pytest.raises(Refused):
            admin.update(path, status=others)


@pytest.mark.rule("IDL-3", "CON-21")
def test_forwarding_leaves_the_idle_times_as_they_were(server: ServerProcess, fresh: Fresh) -> None:
    admin = JsonAdmin(server)
    source, destination = fresh("source"), fresh("destination")
    admin.create(destination, auto_delete_on_idle="PT10M")
    admin.create(source, auto_delete_on_idle="PT10M")
    assert admin.get(source)["properties"]["auto_delete_on_idle"] == "PT10M"
    admin.update(source, forward_to=destination)
    assert admin.get(destination)["properties"]["auto_delete_on_idle"] == "PT10M"
    assert admin.get(source)["properties"]["auto_delete_on_idle"] == "PT10M"
