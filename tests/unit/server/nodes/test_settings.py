"""What `serve --cluster` makes of the other settings, and what it refuses."""

import pytest

from partibus.domain.errors import ConfigError
from partibus.server.config import ServeSettings, resolve_configuration

URL = "postgresql://bus@db/bus"


def settings(**flags: object) -> ServeSettings:
    return resolve_configuration({"cluster": URL, **flags}, {}).settings


def test_without_stores_the_cluster_s_own_database_has_the_lanes() -> None:
    found = settings()
    assert (found.stores, set(found.store_places)) == (16, {URL})
    assert found.peer_host == "127.0.0.1"


def test_lanes_are_spread_over_the_databases_by_turns() -> None:
    places = ("postgresql://a/bus", "postgresql://b/bus")
    found = settings(stores=places, lanes="5", peer_host="10.0.0.7")
    assert found.store_places == (*places, *places, places[0])
    assert (found.stores, found.peer_host) == (5, "10.0.0.7")
    assert settings(stores=places).stores == 32


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"workers": "2"}, "combined with --workers: start a node for each core"),
        ({"memory": True}, "cannot be combined with --memory"),
        ({"emulator": True}, "cannot be combined with --emulator"),
        ({"encryption_key_command": "key"}, "cannot be combined with an encryption key"),
        ({"stores": ("/srv/store",)}, "'/srv/store' does not begin with postgresql://"),
        ({"cluster": "db.example.org"}, "'db.example.org' is not the address of a database"),
    ],
)
def test_what_does_not_go_together_is_refused(flags: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        settings(**flags)
    assert words in refused.value.text
