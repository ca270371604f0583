"""The server for tests in a container, for Testcontainers.

Owns the image's name, its ports, its environment and what to wait for; everything else is
Testcontainers' own class. The container runs `partibus serve` with `--testing`, so that it can
create a namespace for each test. Needs `pip install testcontainers`, which nothing else of the kit
does.
"""

from typing import Final

from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from partibus.testing.kit.attached import TestingServer

IMAGE: Final = "partibus:latest"
AMQP_PORT: Final = 5672
READY: Final = "PARTIBUS READY"
KEY_NAME: Final = "RootManageSharedAccessKey"
KEY: Final = "SAS_KEY_VALUE"
"""Published, like that of the vendor's emulator: the container is only for tests."""
CONFIG_PATH: Final = "/etc/partibus/entities.toml"
# The same settings as flags would give, whatever the entry point of the image is. Emulator mode
# listens on every interface, with the published key.
ENVIRONMENT: Final = {"PARTIBUS_EMULATOR": "true", "PARTIBUS_TESTING": "true"}


class PartibusContainer(DockerContainer):  # type: ignore[misc]  # not installed where it is checked
    """A server for tests in a container; `server()` is its handle."""

    def __init__(self, image: str = IMAGE, *, config: str | None = None, **kwargs: object) -> None:
        """`config` is a file on this machine whose entities every namespace begins with."""
        super().__init__(image, **kwargs)
        self.with_exposed_ports(AMQP_PORT)
        for name, value in ENVIRONMENT.items():
            self.with_env(name, value)
        if config is not None:
            self.with_volume_mapping(config, CONFIG_PATH, "ro")
            self.with_env("PARTIBUS_CONFIG", CONFIG_PATH)
        self.waiting_for(LogMessageWaitStrategy(READY))

    @property
    def connection_string(self) -> str:
        """Of the server's own namespace, as reached from here."""
        host, port = self.get_container_host_ip(), self.get_exposed_port(AMQP_PORT)
        return (
            f"Endpoint=sb://{host}:{port};SharedAccessKeyName={KEY_NAME};SharedAccessKey={KEY};"
            "UseDevelopmentEmulator=true;"
        )

    def server(self) -> TestingServer:
        """The handle that creates a namespace for each test."""
        return TestingServer(self.connection_string)
