"""Stands in for Testcontainers where no container engine is: a process in place of a container.

Has the names and signatures of `testcontainers.core.container` 4.15 that our module uses. What
runs is the real server, with the environment that the container would get; its port is picked
again, as that of a container is mapped.
"""

import os
import subprocess
import sys
from typing import Any, Self


class DockerContainer:
    def __init__(self, image: str, **kwargs: Any) -> None:
        self.image = image
        self.env: dict[str, str] = {}
        self.ports: dict[int, None] = {}
        self.volumes: dict[str, str] = {}
        self._wait_strategy: Any = None
        self._process: subprocess.Popen[str] | None = None
        self._logs = ""

    def with_env(self, key: str, value: str) -> Self:
        self.env[key] = value
        return self

    def with_exposed_ports(self, *ports: int) -> Self:
        self.ports.update(dict.fromkeys(ports))
        return self

    def with_volume_mapping(self, host: str, container: str, mode: str = "ro") -> Self:
        self.volumes[container] = host
        return self

    def waiting_for(self, strategy: Any) -> Self:
        self._wait_strategy = strategy
        return self

    def start(self) -> Self:
        inside = {key: self.volumes.get(value, value) for key, value in self.env.items()}
        picked = {"PARTIBUS_PORT": "0", "PARTIBUS_HTTP_PORT": "0", "PARTIBUS_HOST": "127.0.0.1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "partibus", "serve"],
            env=os.environ | inside | picked,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._wait_strategy.wait_until_ready(self)
        return self

    def read_line(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self._logs += line
        return line

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.communicate(timeout=60)
            self._process = None

    def get_container_host_ip(self) -> str:
        return "127.0.0.1"

    def get_exposed_port(self, port: int) -> int:
        assert port in self.ports
        return int(self._logs.partition("amqp=127.0.0.1:")[2].split()[0])

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.stop()
