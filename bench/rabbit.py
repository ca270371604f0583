"""RabbitMQ as the yardstick: one node with a quorum queue, spoken to in AMQP 1.0.

Owns its configuration, which lies in a temporary directory like its data: its own node name,
ports and port mapper, nothing of an installed service is touched. Durable messages in a
quorum queue are synced before they are confirmed, as ours are. Left out when it is not
installed.
"""

import base64
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Final

from bench.peers import QUEUE, READY_SECONDS_MAX, STOP_SECONDS_MAX, Peer, free_port

INSTALL_COMMAND: Final = "apt-get install rabbitmq-server"
# The command on PATH changes to a service user; the script behind it runs as whoever calls.
_SCRIPTS: Final = ("/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server")
_SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"
_POLL_SECONDS: Final = 0.05
_NODE: Final = "partibus-bench@localhost"


def find_script() -> str | None:
    return next((found for script in _SCRIPTS if (found := shutil.which(script))), None)


def _definitions(user: str, password: str) -> dict[str, object]:
    salt = b"salt"
    digest = base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest())
    queue = {"name": QUEUE, "vhost": "/", "durable": True, "auto_delete": False}
    permissions = dict.fromkeys(("configure", "write", "read"), ".*")
    return {
        "users": [{"name": user, "password_hash": digest.decode(), "tags": "administrator"}],
        "vhosts": [{"name": "/"}],
        "permissions": [{"user": user, "vhost": "/", **permissions}],
        "queues": [{**queue, "arguments": {"x-queue-type": "quorum"}}],
    }


class Rabbit(Peer):
    name = "rabbitmq"
    user = "bench"
    password = "bench"  # noqa: S105 - of a server on loopback that lives for minutes
    settles_second = False

    def __init__(self, directory: Path, script: str) -> None:
        super().__init__(directory.resolve())
        self._script = script
        self.version = "quorum queue"
        self._mapper: subprocess.Popen[bytes] | None = None
        self._mapper_port = free_port()
        self.port = free_port()
        self._write_configuration(free_port())

    def _write_configuration(self, cluster_port: int) -> None:
        definitions = self.directory / "definitions.json"
        definitions.write_text(json.dumps(_definitions(self.user, self.password)))
        (self.directory / "rabbitmq.conf").write_text(
            f"listeners.tcp.local = 127.0.0.1:{self.port}\n"
            f"load_definitions = {definitions}\n"
            "vm_memory_high_watermark.absolute = 4GB\n"
        )
        (self.directory / "enabled_plugins").write_text("[rabbitmq_amqp1_0].\n")
        self._environment = {
            **os.environ,
            "HOME": str(self.directory),
            "ERL_EPMD_PORT": str(self._mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": _NODE,
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(cluster_port),
            "RABBITMQ_CONFIG_FILE": str(self.directory / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.directory / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(self.directory / "data"),
            "RABBITMQ_LOG_BASE": str(self.directory / "log"),
            "RABBITMQ_PID_FILE": str(self.directory / "pid"),
        }

    def address(self) -> str:
        return f"/amq/queue/{QUEUE}"

    def start(self) -> float:
        started = time.perf_counter()
        self._start_mapper()
        (self.directory / "pid").unlink(missing_ok=True)
        with (self.directory / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [self._script], env=self._environment, stdout=output, stderr=output
            )
        while not self._answers():
            if self._process.poll() is not None or (
                time.perf_counter() - started > READY_SECONDS_MAX
            ):
                text = (self.directory / "output").read_text(encoding="utf-8")
                raise RuntimeError(f"RabbitMQ did not start:\n{text}")
            time.sleep(_POLL_SECONDS)
        self.pid = int((self.directory / "pid").read_text(encoding="ascii"))
        return time.perf_counter() - started

    def _start_mapper(self) -> None:
        """Erlang's port mapper would stay behind as a daemon; ours is a child that we end."""
        if self._mapper is None:
            mapper = shutil.which("epmd") or "epmd"
            self._mapper = subprocess.Popen([mapper], env=self._environment)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 5) as probe:
                probe.sendall(_SASL_HEADER)
                return probe.recv(8).startswith(b"AMQP")
        except OSError:
            return False

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        super().stop(number)
        mapper, self._mapper = self._mapper, None
        if mapper is not None:
            os.kill(mapper.pid, signal.SIGTERM)
            mapper.wait(STOP_SECONDS_MAX)
