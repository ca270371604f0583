"""Who has no token learns nothing from the bulk path, and nobody is shown our insides."""

from collections.abc import Callable

import pyarrow.flight as flight
import pytest

from conformance.bulk.client import BulkClient
from support.sas import sas_token
from support.server import ServerProcess

pytestmark = pytest.mark.group("flight")

Call = Callable[[flight.FlightClient, flight.FlightCallOptions], object]
CALLS: dict[str, Call] = {
    "list_actions": lambda client, options: list(client.list_actions(options)),
    "list_flights": lambda client, options: list(client.list_flights(b"", options)),
    "get_flight_info": lambda client, options: client.get_flight_info(
        flight.FlightDescriptor.for_command(b"x"), options
    ),
    "get_schema": lambda client, options: client.get_schema(
        flight.FlightDescriptor.for_command(b"x"), options
    ),
    "do_get": lambda client, options: client.do_get(flight.Ticket(b"x"), options).read_all(),
    "do_action": lambda client, options: list(
        client.do_action(flight.Action("no-such-action", b"{"), options)
    ),
}

ANSWERED = ("list_actions", "get_schema")


def bad_tokens() -> dict[str, str]:
    place = "sb://127.0.0.1/"
    return {
        "none": "",
        "garbage": "SharedAccessSignature sr=x",
        "a wrong key": sas_token(place, key="wrong"),
        "an old one": sas_token(place, lifetime_seconds=-60),
    }


def told(server: ServerProcess, call: Call, token: str) -> Exception:
    location = BulkClient(server).locations("parted-0")[0]
    headers = [(b"authorization", token.encode())] if token else []
    options = flight.FlightCallOptions(headers=headers, timeout=60)
    # The client of pyarrow has no kind of its own for errors of get_schema.
    errors = (flight.FlightError, OSError)
    with flight.connect(location) as client, pytest.raises(errors) as caught:
        call(client, options)
    return caught.value


@pytest.mark.parametrize("name", CALLS)
def test_no_call_is_answered_without_a_token(server: ServerProcess, name: str) -> None:
    for what, token in bad_tokens().items():
        error = told(server, CALLS[name], token)
        assert "Unauthenticated" in str(error), what
        assert "amqp:unauthorized-access" in str(error)
        assert "Traceback" not in str(error)


@pytest.mark.parametrize("name", [name for name in CALLS if name not in ANSWERED])
def test_what_is_refused_shows_no_traceback(server: ServerProcess, name: str) -> None:
    text = str(told(server, CALLS[name], sas_token("sb://127.0.0.1/")))
    assert "Traceback" not in text
    assert ".py" not in text
    assert '"condition"' in text


def test_a_token_of_one_queue_may_ask_what_there_is(server: ServerProcess) -> None:
    location = BulkClient(server).locations("parted-0")[0]
    token = sas_token("sb://127.0.0.1/parted-0")
    options = flight.FlightCallOptions(headers=[(b"authorization", token.encode())], timeout=60)
    with flight.connect(location) as client:
        assert "status" in {action.type for action in client.list_actions(options)}


def test_strangers_are_not_told_which_entities_there_are(server: ServerProcess) -> None:
    for entity in ("parted-0", "no-such-queue"):
        for what, token in bad_tokens().items():
            assert BulkClient(server, token).discover(entity)[0] == 401, (entity, what)
    assert BulkClient(server).discover("no-such-queue")[0] == 404
    other = sas_token("sb://127.0.0.1/parted-1")
    assert BulkClient(server, other).discover("parted-0")[0] == 401
    assert BulkClient(server, other).discover("no-such-queue")[0] == 401
