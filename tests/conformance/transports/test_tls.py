"""The user's own certificate: verified by stock clients, replaced while the server runs."""

import hashlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, TransportType
from azure.servicebus.exceptions import ServiceBusError

from adversity.waiting import wait_until
from partibus.domain.clock import SystemClock
from partibus.listener.certificates import Authority, make_authority
from partibus.listener.served_certificate import DAY_MS
from support.namespace import ROOT_KEY, ROOT_POLICY
from support.receiving import bodies, collect
from support.server import ServerProcess

TIMEOUT_SECONDS = 30
ACCESS = f"SharedAccessKeyName={ROOT_POLICY};SharedAccessKey={ROOT_KEY}"


class Secured:
    """A server on a certificate of ours, and the CA that signed it."""

    def __init__(self, directory: Path, *flags: str) -> None:
        self._now_ms = SystemClock().now_ms()
        self._authority: Authority = make_authority(self._now_ms, self._now_ms + 90 * DAY_MS)
        self._certificate = directory / "bus.pem"
        self._key = directory / "bus-key.pem"
        self.ca = directory / "trusted.pem"
        self.ca.write_bytes(self._authority.certificate_pem())
        config = directory / "namespace.toml"
        config.write_text(
            f'[[queue]]\nname = "q"\n[tls]\ncert = "{self._certificate.name}"\n'
            f'key = "{self._key.name}"\n'
        )
        self.replace("localhost")
        self.server = ServerProcess(directory, config, *flags)

    def replace(self, name: str) -> str:
        """Write another certificate; answers its fingerprint."""
        until_ms = self._now_ms + 60 * DAY_MS
        chain, key = self._authority.issue((name,), self._now_ms, until_ms)
        for path, content in ((self._key, key), (self._certificate, chain)):
            partial = path.with_suffix(".new")
            partial.write_bytes(content)
            partial.replace(path)
        first = ssl.PEM_cert_to_DER_cert(chain.decode().split("-----END")[0] + _END)
        return hashlib.sha256(first).hexdigest()

    def shown(self, name: str = "localhost") -> str:
        """The fingerprint of what a new connection is shown, verified for a name."""
        address = ("localhost", self.server.ready.amqp_port)
        trusting = ssl.create_default_context(cafile=str(self.ca))
        with (
            socket.create_connection(address, timeout=TIMEOUT_SECONDS) as plain,
            trusting.wrap_socket(plain, server_hostname=name) as secure,
        ):
            certificate = secure.getpeercert(binary_form=True)
        assert certificate is not None
        return hashlib.sha256(certificate).hexdigest()

    def client(self, transport: TransportType) -> ServiceBusClient:
        return ServiceBusClient.from_connection_string(
            f"Endpoint=sb://localhost;{ACCESS}",
            custom_endpoint_address=f"sb://localhost:{self.server.ready.amqp_port}",
            transport_type=transport,
            connection_verify=str(self.ca),
            retry_total=0,
        )


_END = "-----END CERTIFICATE-----\n"


@pytest.fixture(params=[1, 2], ids=["one process", "two workers"])
def secured(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Secured]:
    made = Secured(tmp_path, "--workers", str(request.param), "--stores", str(request.param))
    with made.server:
        yield made


@pytest.mark.parametrize("secured", [1], indirect=True, ids=["one process"])
@pytest.mark.parametrize("transport", list(TransportType), ids=lambda t: t.value)
def test_the_stock_client_verifies_the_name(secured: Secured, transport: TransportType) -> None:
    with secured.client(transport) as client, client.get_queue_sender("q") as sender:
        sender.send_messages(ServiceBusMessage("verified"))
    secured.replace("elsewhere.example")
    wait_until(lambda: _is_refused(secured), "a certificate for another name is served")
    with (
        pytest.raises(ServiceBusError),
        secured.client(transport) as client,
        client.get_queue_sender("q") as sender,
    ):
        sender.send_messages(ServiceBusMessage("never sent"))


def test_a_new_certificate_without_a_restart(secured: Secured) -> None:
    before = secured.shown()
    with secured.client(TransportType.Amqp) as client, client.get_queue_sender("q") as sender:
        sender.send_messages(ServiceBusMessage("before"))
        after = secured.replace("localhost")
        # Every process looks for itself; the kernel spreads connections over all of them.
        wait_until(
            lambda: all(secured.shown() == after for _ in range(20)), "the new one is served"
        )
        assert after != before
        sender.send_messages(ServiceBusMessage("on the old connection"))
        with client.get_queue_receiver("q") as receiver:
            assert bodies(collect(receiver, 2)) == ["before", "on the old connection"]


def _is_refused(secured: Secured) -> bool:
    try:
        secured.shown()
    except ssl.SSLCertVerificationError as error:
        return "Hostname mismatch" in str(error)
    return False
