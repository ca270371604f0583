"""The table of profiles, number by number where a rule gives one."""

import pytest

from partibus.domain.errors import ArgumentError
from partibus.domain.limits import (
    BASIC,
    EMULATOR,
    PREMIUM_2017,
    PROFILES,
    SELFHOST,
    STANDARD,
    UNLIMITED,
    profile_named,
)


def test_every_profile_has_its_name() -> None:
    assert set(PROFILES) == {
        "basic",
        "standard",
        "premium-2017",
        "premium-2020",
        "premium",
        "emulator",
        "selfhost",
    }
    assert all(profile_named(name).name == name for name in PROFILES)


def test_an_unknown_profile_is_told_with_the_known_ones() -> None:
    with pytest.raises(ArgumentError, match=r"'gold' is not a valid profile.*selfhost"):
        profile_named("gold")


def test_figures_of_the_tiers() -> None:
    assert STANDARD.message_bytes_max == BASIC.message_bytes_max == 262_144
    assert STANDARD.partitioned_entities_max == 100
    assert STANDARD.connections_max == 5_000
    assert STANDARD.lock_duration_ms_min == 5_000
    assert PREMIUM_2017.fragments_default == 2
    assert BASIC.time_to_live_ms_max == 14 * 86_400_000


@pytest.mark.rule("CON-24")
def test_a_batch_delete_takes_as_many_as_the_tier_allows() -> None:
    most = {name: profile.batch_delete_messages_max for name, profile in PROFILES.items()}
    assert most["basic"] == most["standard"] == 500
    assert {most[name] for name in PROFILES if name.startswith("premium")} == {4_000}


@pytest.mark.rule("EMU-8")
def test_figures_of_the_emulator() -> None:
    assert EMULATOR.connections_max == 10
    assert EMULATOR.entities_max == 50
    assert EMULATOR.subscriptions_per_topic_max == 50
    assert EMULATOR.receives_per_entity_max == 200
    assert EMULATOR.time_to_live_ms_max == 3_600_000
    assert EMULATOR.message_bytes_max == 262_144
    assert EMULATOR.entity_megabytes == (100,)


def test_selfhost_is_free() -> None:
    assert SELFHOST.entities_max == SELFHOST.connections_max == UNLIMITED
    assert SELFHOST.lock_duration_ms_min == 1_000
    assert SELFHOST.fragments_free
