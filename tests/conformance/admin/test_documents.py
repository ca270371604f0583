"""The programs of the guide, run as they are pasted, with no more than the variable it names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.groups import JS
from support.repository import ROOT, code_blocks
from support.server import ServerProcess

PROGRAM_SECONDS_MAX = 120


def program(language: str, server: ServerProcess) -> str:
    texts = code_blocks(ROOT / "docs" / "guides" / "admin.md", language)
    text = next(text for text in texts if "Endpoint=sb://" in text)
    assert text.count("sb://localhost:5672;") == 1
    return text.replace("sb://localhost:5672;", f"sb://localhost:{server.ready.amqp_port};")


def run(command: list[str], path: Path, text: str, variable: str, ca: Path) -> list[str]:
    path.write_text(text, encoding="utf-8")
    left_out = ("PYTHONPATH", "REQUESTS_CA_BUNDLE")
    environment = {key: value for key, value in os.environ.items() if key not in left_out}
    done = subprocess.run(
        [*command, str(path)],
        capture_output=True,
        text=True,
        env=environment | {variable: str(ca)},
        timeout=PROGRAM_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_python(server: ServerProcess, tmp_path: Path) -> None:
    text = program("python", server)
    command = [sys.executable]
    lines = run(command, tmp_path / "admin.py", text, "REQUESTS_CA_BUNDLE", server.ready.ca)
    assert lines == ["0", "['only']"]


def test_python_async_by_its_variable(server: ServerProcess, tmp_path: Path) -> None:
    text = (
        "import asyncio\n"
        "from azure.servicebus.aio.management import ServiceBusAdministrationClient\n"
        "async def main():\n"
        f"    connection = {server.connection_string!r}\n"
        "    client = ServiceBusAdministrationClient.from_connection_string(connection)\n"
        "    async with client as admin:\n"
        "        print((await admin.get_queue('target')).name)\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable]
    lines = run(command, tmp_path / "admin.py", text, "SSL_CERT_FILE", server.ready.ca)
    assert lines == ["target"]


@pytest.mark.group("javascript")
def test_javascript(server: ServerProcess) -> None:
    # Node looks for packages from the folder of the program upwards.
    path = JS / "node_modules" / ".admin.mjs"
    try:
        text = program("js", server)
        lines = run(["node"], path, text, "NODE_EXTRA_CA_CERTS", server.ready.ca)
    finally:
        path.unlink()
    assert lines == ["0"]
