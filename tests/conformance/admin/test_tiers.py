"""What the administration shows in a profile that stands for a tier, by the stock clients."""

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError
from azure.servicebus import ServiceBusClient
from azure.servicebus.exceptions import ServiceBusAuthenticationError
from azure.servicebus.management import ServiceBusAdministrationClient

from support.javascript import scenario
from support.server import ServerProcess


@pytest.fixture(scope="module")
def standard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("standard")
    config = directory / "namespace.toml"
    config.write_text("", encoding="utf-8")
    with ServerProcess(directory, config, "--profile", "standard") as process:
        yield process


@pytest.fixture
def tier(
    standard: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ServiceBusAdministrationClient]:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(standard.ready.ca))
    with ServiceBusAdministrationClient.from_connection_string(
        standard.connection_string, retry_total=0
    ) as client:
        yield client


@pytest.mark.rule("SEED-19", "SEED-24", "CON-4")
def test_a_partitioned_entity_is_shown_with_the_size_of_all_its_partitions(
    tier: ServiceBusAdministrationClient,
) -> None:
    made = tier.create_queue("parted", enable_partitioning=True, max_size_in_megabytes=3072)
    assert made.max_size_in_megabytes == tier.get_queue("parted").max_size_in_megabytes == 49_152
    assert [queue.max_size_in_megabytes for queue in tier.list_queues()] == [49_152]
    topic = tier.create_topic("parted-topic", enable_partitioning=True)
    assert topic.max_size_in_megabytes == 16_384
    assert tier.create_queue("whole", max_size_in_megabytes=3072).max_size_in_megabytes == 3072


@pytest.mark.rule("SEED-24", "PRP-3")
def test_what_was_shown_may_be_sent_back(tier: ServiceBusAdministrationClient) -> None:
    queue = tier.create_queue("sent-back", enable_partitioning=True, max_size_in_megabytes=2048)
    queue.lock_duration = timedelta(seconds=10)
    tier.update_queue(queue)
    assert tier.get_queue("sent-back").max_size_in_megabytes == 32_768
    tier.update_queue(queue, max_size_in_megabytes=1024)
    assert tier.get_queue("sent-back").max_size_in_megabytes == 16_384
    with pytest.raises(HttpResponseError):
        tier.update_queue(queue, max_size_in_megabytes=1024 * 17)


@pytest.mark.rule("FWD-12", "IDL-3", "FWD-6")
def test_a_queue_that_forwards_to_itself_shows_what_was_set(
    tier: ServiceBusAdministrationClient, standard: ServerProcess
) -> None:
    queue = tier.create_queue("own", requires_session=True)
    host = standard.connection_string.split(";", 1)[0].removeprefix("Endpoint=sb://")
    tier.update_queue(
        queue,
        auto_delete_on_idle=timedelta(minutes=10),
        default_message_time_to_live=timedelta(minutes=11),
        forward_to=f"SB://{host.upper()}/OWN",
        forward_dead_lettered_messages_to="own",
    )
    got = tier.get_queue("own")
    assert got.auto_delete_on_idle == timedelta(minutes=10)
    assert got.default_message_time_to_live == timedelta(minutes=11)
    assert (got.forward_to, got.forward_dead_lettered_messages_to) == (
        f"sb://{host}/OWN",
        f"sb://{host}/own",
    )


@pytest.mark.group("javascript")
@pytest.mark.rule("SEED-24")
def test_sizes_in_javascript(standard: ServerProcess) -> None:
    environment = dict(os.environ) | {"NODE_EXTRA_CA_CERTS": str(standard.ready.ca)}

    def ask(name: str, **given: object) -> Any:
        return scenario(
            "administration.mjs",
            name,
            environment=environment,
            connection=standard.connection_string,
            **given,
        )

    made = ask("call", operation="createQueue", given=["js", {"enablePartitioning": True}])
    assert made["maxSizeInMegabytes"] == 16_384
    updated = ask("updateQueue", entity="js", changes={"maxDeliveryCount": 5})
    assert updated["got"]["maxSizeInMegabytes"] == 16_384
    assert updated["got"]["maxDeliveryCount"] == 5


@pytest.mark.rule("SAS-9", "ERR-1")
def test_a_token_for_an_entity_that_is_not_there_is_refused(standard: ServerProcess) -> None:
    client = ServiceBusClient.from_connection_string(standard.connection_string, retry_total=0)
    with (
        client,
        pytest.raises(ServiceBusAuthenticationError),
        client.get_queue_sender("nowhere"),
    ):
        pass
