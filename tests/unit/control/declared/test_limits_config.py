"""The table [limits]: what may be set, and what is wrong with what may not."""

from dataclasses import fields, replace
from pathlib import Path

import pytest

from partibus.cluster.membership import Membership
from partibus.control.declared.definitions import Definitions, parse_toml
from partibus.control.declared.limits_config import LIMITS, with_limits
from partibus.domain.errors import ConfigError
from partibus.domain.limits import SELFHOST, STANDARD, UNLIMITED, Profile
from partibus.server.config import ServeSettings, resolve_configuration
from partibus.server.workers.assignment import Assignment, decode_assignment, encode_assignment

FILE = Path("namespace.toml")
# What a profile says beside limits.
NO_LIMITS = {"name", "partitioning", "fragments_default"}


def read(text: str) -> Definitions:
    return parse_toml(FILE, text)


def limited(text: str, profile: Profile = STANDARD) -> Profile:
    definitions = read(f"[limits]\n{text}")
    return with_limits(profile, definitions.source, definitions.limits)


def test_every_limit_of_a_profile_can_be_set() -> None:
    switches = {f.name for f in fields(Profile) if f.type in (bool, "bool")}
    settable = {limit.field for limit in LIMITS.values()}
    assert settable == {f.name for f in fields(Profile)} - switches - NO_LIMITS
    assert len(settable) == len(LIMITS)


def test_what_is_not_named_stays() -> None:
    made = limited('connections_max = 7\nentities_max = "unlimited"\nlock_duration_max = "PT15M"')
    assert made.connections_max == 7
    assert made.entities_max == UNLIMITED
    assert made.lock_duration_ms_max == 900_000
    assert made.partitioned_entities_max == STANDARD.partitioned_entities_max
    assert made.name == "standard"


@pytest.mark.parametrize(("word", "sizes"), [('"any"', None), ("[100, 200]", (100, 200))])
def test_sizes_of_entities(word: str, sizes: object) -> None:
    assert limited(f"entity_megabytes = {word}").entity_megabytes == sizes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("conections_max = 5", "namespace.toml:2: limits.conections_max.*connections_max"),
        ("connections_max = 0", "a whole number from 1 to"),
        ("connections_max = -1", "a whole number"),
        ("connections_max = 1.5", "a whole number"),
        ("connections_max = true", "a whole number"),
        ('connections_max = "many"', 'or "unlimited"'),
        ("connections_max = 99999999999999999999", "a whole number"),
        ('peek_messages_max = "unlimited"', "expected a whole number from 1 to 10000"),
        ("message_bytes_max = 104857601", "to 104857600"),
        ("lock_duration_max = 5", "expected a duration"),
        ('lock_duration_max = "soon"', "duration"),
        ('lock_duration_max = "PT0S"', "a duration of 1 s or more"),
        ('auto_delete_on_idle_min = "PT10S"', "a duration of 60 s or more"),
        ('lock_duration_max = "PT1S"', "lock_duration_min is above lock_duration_max"),
        ("message_bytes_max = 1000", "message_bytes_default is above message_bytes_max"),
        ('duplicate_window_min = "P8D"', "duplicate_window_min is above duplicate_window_max"),
        ("entity_megabytes = []", "a list of sizes"),
        ("entity_megabytes = [0]", "a list of sizes"),
        ("entity_megabytes = 5", "a list of sizes"),
    ],
)
def test_what_cannot_be_is_told_with_its_line(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s)namespace.toml:2.*{said}|{said}"):
        limited(text)


def test_it_must_be_a_table() -> None:
    with pytest.raises(ConfigError, match="limits"):
        read("limits = 5")


def test_limits_reach_the_settings_whatever_chose_the_profile(tmp_path: Path) -> None:
    file = tmp_path / "n.toml"
    file.write_text("[limits]\nconnections_max = 3\n", encoding="utf-8")
    for flags, environment, name in (
        ({}, {}, "selfhost"),
        ({"profile": "basic"}, {}, "basic"),
        ({}, {"PARTIBUS_PROFILE": "premium"}, "premium"),
    ):
        settings = resolve_configuration({"config": file, **flags}, environment).settings
        assert (settings.profile.name, settings.profile.connections_max) == (name, 3)
    assert SELFHOST.connections_max == UNLIMITED


def test_workers_are_told_them(tmp_path: Path) -> None:
    profile = replace(SELFHOST, connections_max=3, entity_megabytes=(7,))
    membership = Membership(
        worker=0, workers=2, group_id=1, runtime=tmp_path, catalog=tmp_path, tls=tmp_path
    )
    assignment = Assignment(settings=ServeSettings(profile=profile), membership=membership)
    assert decode_assignment(encode_assignment(assignment)).settings.profile == profile
