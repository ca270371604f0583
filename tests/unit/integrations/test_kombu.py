"""The connection strings behind Kombu's URLs."""

import pytest
from kombu import Connection
from kombu.transport import azureservicebus

from partibus.integrations.kombu import Transport, connection_string

URL = "azureservicebus://RootManageSharedAccessKey:SAS/KEY+VALUE=@localhost:5672"


def test_the_emulators_form_with_a_port() -> None:
    assert connection_string(URL) == (
        "Endpoint=sb://localhost:5672;SharedAccessKeyName=RootManageSharedAccessKey;"
        "SharedAccessKey=SAS/KEY+VALUE=;UseDevelopmentEmulator=true"
    )


def test_kombu_takes_the_transport_by_name() -> None:
    with Connection(URL, transport="partibus.integrations.kombu:Transport") as connection:
        assert connection.default_channel._connection_string == connection_string(URL)
        assert "SAS/KEY" not in connection.as_uri()
    assert Transport.as_uri(URL, include_password=True) == URL


@pytest.mark.parametrize("url", ["azureservicebus://", "azureservicebus://host", "localhost:5672"])
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(ValueError, match="azureservicebus://POLICY:KEY@HOST:PORT"):
        connection_string(url)


def test_the_documented_url_of_the_transport_as_it_comes() -> None:
    """Kombu wants a host that ends in `.net`; a path that does is enough for it."""
    with Connection("azureservicebus://policy:key@localhost:5671/.net") as connection:
        channel = connection.default_channel
        assert type(channel) is azureservicebus.Channel
        assert channel._connection_string == (
            "Endpoint=sb://localhost:5671/.net;SharedAccessKeyName=policy;SharedAccessKey=key"
        )
        admin = channel.queue_mgmt_service
        assert admin.fully_qualified_namespace == "localhost:5671"
        admin.close()
