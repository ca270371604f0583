"""The catalog's file: what is refused, and what an older release has written."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.database import SCHEMA_VERSION
from partibus.control.catalog.digest import teach
from partibus.domain.entity import FilterType, QueueSpec, RuleSpec, SubscriptionSpec, TopicSpec
from partibus.domain.errors import ConfigError
from partibus.domain.property_value import PropertyValue, TimeValue


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "catalog.db"
    file.write_bytes(b"this is not a database" * 100)
    with pytest.raises(ConfigError, match=r"catalog\.db"):
        Catalog(file)


def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "catalog.db"
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE theirs (id INTEGER)")
    connection.close()
    with pytest.raises(ConfigError, match="another program"):
        Catalog(file)


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "catalog.db"
    Catalog(file).close()
    connection = sqlite3.connect(file)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    with pytest.raises(ConfigError, match=f"schema version {SCHEMA_VERSION + 1}"):
        Catalog(file)


def test_a_spec_of_an_older_release_gets_the_new_defaults(tmp_path: Path) -> None:
    file = tmp_path / "catalog.db"
    catalog = Catalog(file)
    catalog.create("q", QueueSpec(lock_duration_ms=7_000))
    catalog.close()
    connection = sqlite3.connect(file)
    teach(connection)
    with connection:
        connection.execute("UPDATE entity SET spec = '{\"lock_duration_ms\": 7000}'")
    connection.close()
    catalog = Catalog(file)
    assert catalog.entity("q").spec == QueueSpec(lock_duration_ms=7_000)
    catalog.close()


def test_a_spec_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    file = tmp_path / "catalog.db"
    catalog = Catalog(file)
    catalog.create("q", QueueSpec())
    catalog.close()
    connection = sqlite3.connect(file)
    teach(connection)
    with connection:
        connection.execute('UPDATE entity SET spec = \'{"lock_duration_ms": "x"}\'')
    connection.close()
    with pytest.raises(ConfigError, match=r"'q'.*lock_duration_ms"):
        Catalog(file)


def test_times_in_rules_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "catalog.db"
    values: dict[str, PropertyValue] = {
        "moment": TimeValue("dateTime", "2020-07-05T11:12:13"),
        "span": TimeValue("duration", "-PT0.000001S"),
        "text": "2020-07-05T11:12:13",
        "whole": 1,
        "real": 1.0,
        "flag": True,
    }
    rule = RuleSpec(
        filter_type=FilterType.SQL, sql_expression="a < @span", parameters=values, action="SET a=1"
    )
    spec = SubscriptionSpec(rules=(replace(rule, action_parameters=values),))
    catalog = Catalog(file)
    catalog.create("t", TopicSpec())
    catalog.create("t/Subscriptions/s", spec)
    catalog.close()
    catalog = Catalog(file)
    (kept,) = catalog.subscriptions("t")
    assert repr(kept.spec) == repr(spec)
    catalog.close()
