"""The switches for tests: what they imply, and where they are refused."""

import pytest

from partibus.domain.errors import ConfigError
from partibus.server.config import resolve_configuration


def test_testing_implies_memory_faults_and_fake_time() -> None:
    configuration = resolve_configuration({"testing": True}, {})
    settings = configuration.settings
    assert (settings.memory, settings.faults, settings.fake_time) == (True, True, True)
    assert configuration.origins["fake_time"] == "--testing"


def test_what_is_given_goes_before_what_is_implied() -> None:
    settings = resolve_configuration({"testing": True}, {"PARTIBUS_FAULTS": "no"}).settings
    assert not settings.faults


@pytest.mark.parametrize("switch", ["testing", "fake_time"])
def test_a_server_that_keeps_messages_refuses(switch: str) -> None:
    with pytest.raises(ConfigError, match="is for tests and works only with --memory"):
        resolve_configuration({switch: True}, {"PARTIBUS_MEMORY": "false"})


@pytest.mark.parametrize("switch", ["testing", "fake_time"])
def test_several_workers_refuse(switch: str) -> None:
    with pytest.raises(ConfigError, match="works with one worker, not with 2"):
        resolve_configuration({switch: True, "memory": True, "workers": "2"}, {})


def test_other_servers_have_neither() -> None:
    settings = resolve_configuration({"memory": True}, {}).settings
    assert not settings.testing
    assert not settings.fake_time
