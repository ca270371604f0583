"""A root key that is a secret: shown by the first start, read from the data directory later."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from support.server import ServerProcess

SECRET = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlYw=="


def run(command: str, connection: str) -> str:
    """A command line as the READY line gives it, with the connection string that came with it."""
    words = [sys.executable, "-m", *command.split()]
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        env={"PARTIBUS_CONNECTION_STRING": connection},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("workers", [1, 2])
def test_a_secret_key_is_shown_once(tmp_path: Path, workers: int) -> None:
    config = tmp_path / "namespace.toml"
    config.write_text(
        f'[[queue]]\nname = "q"\n[[policy]]\nname = "RootManageSharedAccessKey"\nkey = "{SECRET}"\n'
        'rights = ["Manage", "Send", "Listen"]\n'
    )
    flags = ("--workers", str(workers), "--stores", str(workers))
    first = ServerProcess(tmp_path, config, *flags)
    with first:
        assert f";SharedAccessKey={SECRET};" in first.connection_string
    # Another process object, as another shell: it remembers nothing.
    later = ServerProcess(tmp_path, config, *flags)
    later.needs_key = False
    with later:
        told = later.connection_string
        assert SECRET not in told
        found = re.search(r"SharedAccessKey=<run: ([^>]*)>;", told)
        assert found is not None, told
        assert SECRET in run(found[1], told), "the command works beside the server"
        usable = told.replace(f"<run: {found[1]}>", SECRET)
        client = ServiceBusClient.from_connection_string(usable)
        with client, client.get_queue_sender("q") as sender:
            sender.send_messages(ServiceBusMessage("x"))
    assert SECRET in run(found[1], told), "and without it"
    assert SECRET not in later.log_text()
