"""Connection strings: what they say, and what they are refused for."""

import pytest

from partibus.client.connection_string import ConnectionStringError, parse_connection_string

KEY = "SharedAccessKeyName=Root;SharedAccessKey=ab=+/="


def test_all_of_it() -> None:
    text = f" endpoint=sb://bus.example:7000/ ; {KEY};EntityPath=q;UseDevelopmentEmulator=true;"
    place = parse_connection_string(text)
    assert (place.host, place.port, place.amqp_port) == ("bus.example", 7000, 7000)
    assert (place.policy, place.key, place.entity_path) == ("Root", "ab=+/=", "q")
    assert (place.is_emulator, place.uses_tls) == (True, False)
    assert place.audience("q") == "sb://bus.example:7000/q"
    assert place.http_url == "http://bus.example:7000"


@pytest.mark.rule("EMU-7")
@pytest.mark.parametrize(
    ("endpoint", "end", "entity"),
    [
        ("sb://localhost", "", None),
        ("sb://127.0.0.1:49153/", "", None),
        ("amqp://127.0.0.1:49153/", "", None),
        ("sb://localhost:49153", ";EntityPath=queue", "queue"),
        ("sb://localhost:49153", ";EntityPath=t/Subscriptions/s", "t/Subscriptions/s"),
    ],
    ids=["compose", "net-amqp", "net-uri", "aspire-queue", "aspire-subscription"],
)
def test_what_tools_make_for_an_emulator(endpoint: str, end: str, entity: str | None) -> None:
    place = parse_connection_string(f"Endpoint={endpoint};{KEY};UseDevelopmentEmulator=true;{end}")
    assert place.host in endpoint
    assert place.amqp_port == (49153 if "49153" in endpoint else 5672)
    assert (place.entity_path, place.uses_tls, place.key) == (entity, False, "ab=+/=")


def test_the_cloud() -> None:
    place = parse_connection_string(f"Endpoint=sb://ns.servicebus.windows.net/;{KEY}")
    assert (place.is_cloud, place.uses_tls, place.amqp_port) == (True, True, 5671)
    assert place.http_url == "https://ns.servicebus.windows.net:443"
    assert place.audience("q") == "sb://ns.servicebus.windows.net/q"


@pytest.mark.parametrize("prefix", ["", "SharedAccessSignature "])
def test_a_ready_made_token(prefix: str) -> None:
    place = parse_connection_string(f"Endpoint=sb://b;SharedAccessSignature={prefix}sr=a&sig=b%3d")
    assert place.token == "SharedAccessSignature sr=a&sig=b%3d"


def test_an_address_of_version_six() -> None:
    place = parse_connection_string(f"Endpoint=sb://[::1]:5672;{KEY};UseDevelopmentEmulator=true")
    assert (place.host, place.http_url) == ("::1", "http://[::1]:5672")
    assert place.audience("q") == "sb://[::1]:5672/q"


def test_secrets_are_not_shown() -> None:
    assert "ab=+/=" not in repr(parse_connection_string(f"Endpoint=sb://b;{KEY}"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no Endpoint"),
        (KEY, "no Endpoint"),
        (f"Endpoint=sb://b:port;{KEY}", "no Endpoint"),
        ("Endpoint=sb://b", "no SharedAccessKeyName"),
        ("Endpoint=sb://b;SharedAccessKeyName=Root", "no SharedAccessKeyName"),
    ],
)
def test_what_is_missing_is_said(text: str, words: str) -> None:
    with pytest.raises(ConnectionStringError, match=words):
        parse_connection_string(text)


@pytest.mark.parametrize(
    "text",
    [
        "Endpoint=sb://h:5672;SharedAccessKeyName=p;SharedAccessKey=k=;UseDevelopmentEmulator=true;",
        "Endpoint=sb://[::1]:7;SharedAccessKeyName=p;SharedAccessKey=k;",
        "Endpoint=sb://bus.example.org;SharedAccessKeyName=p;SharedAccessKey=k;",
        "Endpoint=sb://bus.example.org:5673;SharedAccessKeyName=p;SharedAccessKey=k;EntityPath=q;",
        "Endpoint=sb://bus.example.org;SharedAccessSignature=SharedAccessSignature sr=x&sig=y;",
    ],
)
def test_what_was_read_can_be_written(text: str) -> None:
    assert parse_connection_string(text).text() == text
