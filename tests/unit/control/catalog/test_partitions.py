"""Who decides on partitions: the entity, the profile, or the namespace for good."""

from pathlib import Path

import pytest

from partibus.control.catalog.catalog import Catalog
from partibus.control.declared.definitions import parse_toml
from partibus.domain.entity import QueueSpec, TopicSpec, message_bytes_max
from partibus.domain.errors import ConfigError
from partibus.domain.limits import (
    EMULATOR,
    PREMIUM,
    PREMIUM_2017,
    PREMIUM_2020,
    SELFHOST,
    STANDARD,
    Profile,
)
from partibus.domain.refusal import PropertyRefused


def premium(file: Path, partitions: int | None) -> Catalog:
    catalog = Catalog(file, profile=PREMIUM, stores=4)
    catalog.fix_partitions(partitions)
    return catalog


@pytest.mark.rule("CON-1", "CON-17")
@pytest.mark.parametrize("partitions", [1, 2, 4])
def test_every_entity_of_a_premium_namespace_has_its_partitions(
    tmp_path: Path, partitions: int
) -> None:
    catalog = premium(tmp_path / "catalog.db", partitions)
    queue = catalog.create("q", QueueSpec())
    topic = catalog.create("t", TopicSpec())
    assert len(queue.fragments) == len(topic.fragments) == partitions
    assert queue.queue.enable_partitioning is (partitions > 1)
    assert len({placement.store for placement in queue.fragments}) == partitions
    again = Catalog(tmp_path / "catalog.db", profile=PREMIUM, stores=4)
    assert len(again.create("q2", QueueSpec()).fragments) == partitions


def test_a_partitioned_premium_namespace_has_smaller_messages(tmp_path: Path) -> None:
    large = QueueSpec(max_message_size_in_kilobytes=102_400)
    whole = premium(tmp_path / "1.db", 1)
    assert message_bytes_max(whole.create("q", large).queue, whole.profile) == 102_400 * 1024
    with pytest.raises(PropertyRefused, match="max_message_size_in_kilobytes"):
        premium(tmp_path / "2.db", 2).create("q", large)


def test_the_number_is_fixed_when_the_namespace_is_made(tmp_path: Path) -> None:
    file = tmp_path / "catalog.db"
    premium(file, 2)
    premium(file, 2)
    premium(file, None)
    with pytest.raises(ConfigError, match="created with 2 and cannot have 4"):
        premium(file, 4)


def test_a_namespace_without_a_word_has_one(tmp_path: Path) -> None:
    file = tmp_path / "catalog.db"
    assert len(premium(file, None).create("q", QueueSpec()).fragments) == 1
    with pytest.raises(ConfigError, match="created with 1"):
        premium(file, 2)


def test_a_namespace_of_an_older_release_has_one(tmp_path: Path) -> None:
    file = tmp_path / "catalog.db"
    Catalog(file, profile=PREMIUM).create("q", QueueSpec())
    with pytest.raises(ConfigError, match="created with 1"):
        premium(file, 4)


@pytest.mark.parametrize("profile", [SELFHOST, STANDARD, PREMIUM_2017, PREMIUM_2020, EMULATOR])
def test_other_profiles_have_no_partitioned_namespaces(profile: Profile) -> None:
    catalog = Catalog(profile=profile)
    catalog.fix_partitions(None)
    with pytest.raises(ConfigError, match="no partitioned namespaces"):
        catalog.fix_partitions(2)


@pytest.mark.parametrize(
    ("content", "partitions"),
    [("", None), ("[namespace]", None), ("[namespace]\npartitions = 4", 4)],
)
def test_the_file_says_how_many(content: str, partitions: int | None) -> None:
    assert parse_toml(Path("ns.toml"), content).partitions == partitions


@pytest.mark.parametrize(
    "content",
    ["partitions = 3", "partitions = true", "partitions = '2'", "partition = 2"],
)
def test_a_wrong_number_is_explained_with_its_place(content: str) -> None:
    with pytest.raises(ConfigError, match=r"ns.toml:2: namespace"):
        parse_toml(Path("ns.toml"), f"[namespace]\n{content}")


# --- partition_count where the profile decides ----------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "has"), [(PREMIUM_2017, 2), (PREMIUM_2020, 1), (PREMIUM, 1), (EMULATOR, 1)]
)
@pytest.mark.parametrize("partitioned", [False, True])
def test_a_count_that_would_be_ignored_is_refused(
    profile: Profile, has: int, partitioned: bool
) -> None:
    spec = QueueSpec(enable_partitioning=partitioned, fragments=8)
    with pytest.raises(PropertyRefused, match=f"every entity has {has}\\.") as refused:
        Catalog(profile=profile).create("q", spec)
    assert refused.value.property_name == "partition_count"


@pytest.mark.rule("SEED-22")
@pytest.mark.parametrize("profile", [PREMIUM_2020, PREMIUM, EMULATOR])
def test_what_an_entity_has_may_be_handed_back(tmp_path: Path, profile: Profile) -> None:
    """Entities of before keep their partitions, and can still be updated."""
    file = tmp_path / "catalog.db"
    spec = QueueSpec(enable_partitioning=True, fragments=8)
    Catalog(file, stores=4).create("q", spec)
    catalog = Catalog(file, profile=profile, stores=4)
    before = catalog.entity("q")
    size = (profile.entity_megabytes or (1024,))[0]
    after = catalog.update(
        "q",
        QueueSpec(
            enable_partitioning=True,
            fragments=8,
            max_delivery_count=3,
            max_size_in_megabytes=size,
        ),
    )
    assert after.queue.max_delivery_count == 3
    assert after.fragments == before.fragments
    with pytest.raises(PropertyRefused, match="partition_count"):
        catalog.update("q", QueueSpec(enable_partitioning=True, fragments=4))


def test_what_another_process_has_fixed_holds_here_too(tmp_path: Path) -> None:
    file = tmp_path / "catalog.db"
    ours = Catalog(file, profile=PREMIUM, stores=2)
    theirs = Catalog(file, profile=PREMIUM, stores=2)
    theirs.fix_partitions(2)
    ours.refresh()
    assert ours.profile == theirs.profile
    assert ours.create("q", QueueSpec()).spec.fragments == 2
