"""A Premium namespace of two partitions: every entity has them, whenever it is made."""

from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from adversity.victim import Victim
from support.json_admin import JsonAdmin, Refused

CONFIG = '[namespace]\npartitions = {}\n[[queue]]\nname = "declared"\n'


@pytest.mark.rule("CON-1")
def test_a_partitioned_premium_namespace(tmp_path: Path) -> None:
    config = tmp_path / "namespace.toml"
    config.write_text(CONFIG.format(2), encoding="utf-8")
    server = Victim(tmp_path, config, "--profile", "premium", "--stores", "2", "--workers", "2")
    with server:
        admin = JsonAdmin(server)
        assert admin.create("made-later")["fragment_count"] == 2
        with pytest.raises(Refused, match="partition_count"):
            admin.create("other", enable_partitioning=True, partition_count=8)
        client = ServiceBusClient.from_connection_string(server.connection_string)
        with client:
            for name in ("declared", "made-later"):
                with client.get_queue_sender(name) as sender:
                    for number in range(4):
                        sender.send_messages(ServiceBusMessage(str(number)))
                fragments = admin.get(name)["fragments"]
                assert {(f["worker"], f["active"]) for f in fragments} == {(0, 2), (1, 2)}
    config.write_text(CONFIG.format(4), encoding="utf-8")
    code, words = server.refusal()
    assert code == 2
    assert "created with 2 and cannot have 4" in words
