"""Where the bus of a pipeline is: options for the source, and no secret anywhere else."""

from pathlib import Path

import pytest

from pyspark_servicebus.pipelines.run.place import BusPlace, entity_options
from pyspark_servicebus.pipelines.run.settings import SettingsError

STRING = "Endpoint=sb://bus.test.example;SharedAccessKeyName=p;SharedAccessKey=c2VjcmV0"


def test_a_reference_is_passed_on_and_followed_here(tmp_path: Path) -> None:
    file = tmp_path / "bus.txt"
    file.write_text(STRING)
    place = BusPlace(connection_string_ref=f"file:{file}", ca_file="ca.pem")
    assert place.options() == {"connectionStringRef": f"file:{file}", "caFile": "ca.pem"}
    assert place.connection().host == "bus.test.example"
    assert place.namespace() == "bus"


def test_a_connection_string_is_never_shown() -> None:
    place = BusPlace(connection_string=STRING)
    assert place.options() == {"connectionString": STRING}
    assert "c2VjcmV0" not in repr(place)


def test_an_address_is_a_namespace_as_it_is() -> None:
    text = STRING.replace("bus.test.example", "127.0.0.1:5672")
    assert BusPlace(connection_string=text).namespace() == "127.0.0.1"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({}, "exactly one"),
        ({"connection_string_ref": "BUS"}, "neither env: nor file:"),
        ({"connection_string_ref": "env:NO_SUCH_BUS"}, "connection_string_ref: the variable"),
        ({"connection_string": "nonsense"}, "connection_string: "),
        ({"connection_strings": "x"}, "did you mean connection_string?"),
    ],
)
def test_what_is_wrong_is_told(table: dict[str, object], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        BusPlace.from_table(table).connection()


def test_the_options_of_a_path() -> None:
    assert entity_options("orders") == {"queue": "orders"}
    assert entity_options("T/Subscriptions/s") == {"topic": "T", "subscription": "s"}
    assert entity_options("a/b/subscriptions/S1") == {"topic": "a/b", "subscription": "S1"}
