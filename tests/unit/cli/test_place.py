"""Which server is meant: options, environment, contexts, and the order between them."""

from pathlib import Path

import pytest

from partibus.cli.contexts import Context, Contexts, contexts_file, load_contexts, save_contexts
from partibus.cli.failures import CommandFailed
from partibus.cli.place import find_place
from partibus.cli.remote import authorization
from partibus.control.access.sas import parse_token, verify
from partibus.server.failure import EXIT_NOT_FOUND, EXIT_USAGE

KEYED = "Endpoint=sb://bus:7000;SharedAccessKeyName=Root;SharedAccessKey=ab=+/;"
OTHER = "Endpoint=sb://other;SharedAccessKeyName=Root;SharedAccessKey=cd;"


@pytest.fixture(autouse=True)
def _own_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("CONNECTION_STRING", "URL", "CONTEXT", "CA_FILE"):
        monkeypatch.delenv(f"PARTIBUS_{name}", raising=False)


def keep(current: str | None = None, **strings: str) -> None:
    named = {name: Context(connection_string=text) for name, text in strings.items()}
    save_contexts(Contexts(named=named, current=current))


def test_without_options_the_server_of_this_machine_is_meant() -> None:
    place = find_place(None)
    assert (place.url, place.amqp) == ("http://127.0.0.1:5672", "amqp://127.0.0.1:5672")
    token = parse_token(authorization(place))
    assert (token.policy, token.resource_path) == ("RootManageSharedAccessKey", "")
    assert verify(token, "SAS_KEY_VALUE")


@pytest.mark.parametrize(
    ("connection_string", "url", "amqp"),
    [
        (KEYED + "UseDevelopmentEmulator=true;", "http://bus:7000", "amqp://bus:7000"),
        (KEYED, "https://bus:7000", "amqps://bus:7000"),
        (KEYED.replace(":7000", ""), "https://bus:5671", "amqps://bus:5671"),
        (
            KEYED.replace("bus:7000", "ns.servicebus.windows.net"),
            "https://ns.servicebus.windows.net:443",
            "amqps://ns.servicebus.windows.net:5671",
        ),
        (
            KEYED.replace(":7000", "") + "UseDevelopmentEmulator=true",
            "http://bus:5672",
            "amqp://bus:5672",
        ),
        (KEYED.replace("bus:7000", "[::1]:7000"), "https://[::1]:7000", "amqps://[::1]:7000"),
    ],
)
def test_a_connection_string_says_where_and_with_which_key(
    connection_string: str, url: str, amqp: str
) -> None:
    place = find_place(connection_string)
    assert (place.url, place.amqp) == (url, amqp)
    assert (place.connection.policy, place.connection.key) == ("Root", "ab=+/")
    assert verify(parse_token(authorization(place)), "ab=+/")


def test_a_url_changes_where_http_is_asked_and_nothing_else() -> None:
    place = find_place(KEYED, "10.0.0.1:5300/")
    assert (place.url, place.connection.host) == ("http://10.0.0.1:5300", "bus")
    assert find_place(None, "localhost:5300").url == "http://localhost:5300"


def test_a_ready_made_token_is_shown_as_it_is() -> None:
    text = "Endpoint=sb://bus;SharedAccessSignature=SharedAccessSignature sr=x&sig=y&se=1&skn=z"
    assert authorization(find_place(text)) == "SharedAccessSignature sr=x&sig=y&se=1&skn=z"


def test_the_nearest_word_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    keep("here", here=OTHER, there=KEYED)
    assert find_place(None).origin == "context here"
    monkeypatch.setenv("PARTIBUS_CONTEXT", "there")
    assert find_place(None).connection.host == "bus"
    monkeypatch.setenv("PARTIBUS_CONNECTION_STRING", OTHER)
    assert find_place(None).origin == "PARTIBUS_CONNECTION_STRING"
    assert find_place(None, context="there").origin == "--context there"
    assert find_place(OTHER, context="there").origin == "--connection-string"


def test_a_context_that_is_not_there_names_those_that_are() -> None:
    keep(here=OTHER)
    with pytest.raises(CommandFailed, match="existing: here") as caught:
        find_place(None, context="nowhere")
    assert caught.value.exit_code == EXIT_NOT_FOUND


def test_contexts_are_for_their_owner_alone() -> None:
    keep("a", a=KEYED + 'Odd="quote\\;')
    assert contexts_file().stat().st_mode & 0o777 == 0o600
    kept = load_contexts()
    assert kept.named["a"].connection_string == KEYED + 'Odd="quote\\;'
    assert "ab=+/" not in repr(kept) + repr(find_place(None))


@pytest.mark.parametrize("text", ["current = ", "[context.a]\nkey = 1\n"])
def test_a_damaged_file_of_contexts_is_named(text: str) -> None:
    contexts_file().parent.mkdir(parents=True)
    contexts_file().write_text(text, encoding="utf-8")
    with pytest.raises(CommandFailed, match=r"contexts\.toml"):
        find_place(None)


@pytest.mark.parametrize(
    ("connection_string", "url", "words"),
    [
        ("SharedAccessKeyName=a;SharedAccessKey=b", None, "no Endpoint"),
        ("Endpoint=sb://bus:none;SharedAccessKeyName=a;SharedAccessKey=b", None, "no Endpoint"),
        ("Endpoint=sb://bus", None, "no SharedAccessKeyName"),
        ("nonsense", None, "no Endpoint"),
        (KEYED, "ftp://bus", "is not a valid URL"),
        (None, "http://elsewhere:5300", "needs a key"),
    ],
)
def test_what_cannot_be_used_is_a_usage_error(
    connection_string: str | None, url: str | None, words: str
) -> None:
    with pytest.raises(CommandFailed, match=words) as caught:
        find_place(connection_string, url)
    assert caught.value.exit_code == EXIT_USAGE
