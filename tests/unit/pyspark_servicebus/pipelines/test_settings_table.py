"""Settings from tables: every form of a value, and every complaint at once."""

from dataclasses import dataclass

import pytest

from pyspark_servicebus.pipelines.run.place import BusPlace
from pyspark_servicebus.pipelines.run.settings import SettingsError
from pyspark_servicebus.pipelines.run.settings_table import (
    Declaration,
    read_table,
    setting,
    settings_of,
)

STRING = "Endpoint=sb://bus.test;SharedAccessKeyName=p;SharedAccessKey=c2VjcmV0"


@dataclass(frozen=True, kw_only=True)
class Sample(Declaration):
    """One setting of each form."""

    bus: BusPlace = setting("The bus.", "bus")
    queue: str = setting("The queue.")
    pace: str = setting("How fast.", default="full", choices=("full", "original"))
    keys: tuple[str, ...] = setting("Some keys.", "texts", default=())
    count: int = setting("How many.", "number", default=1, least=1)
    speed: float = setting("How fast.", "real", default=1.0, least=0.1)
    is_dry: bool = setting("Whether.", "switch", default=False)
    wait_ms: int = setting("How long.", "duration", default=0)
    window_bytes: int = setting("How large.", "size", default=0)
    since_ms: int | None = setting("Since when.", "moment", default=None)


def read(**table: object) -> Sample:
    return read_table(Sample, {"connection_string": STRING, "queue": "q", **table})


def test_keys_are_the_fields_without_their_units() -> None:
    keys = [found.key for found in settings_of(Sample)]
    assert keys[-3:] == ["wait", "window", "since"]
    assert "bus" not in keys


def test_every_form() -> None:
    found = read(
        keys=["a", "b"],
        count=3,
        speed=2,
        is_dry=True,
        wait="1m30s",
        window="64MiB",
        since="1970-01-01T00:00:01Z",
    )
    assert (found.keys, found.count, found.speed, found.is_dry) == (("a", "b"), 3, 2.0, True)
    assert (found.wait_ms, found.window_bytes, found.since_ms) == (90_000, 64 * 1024**2, 1000)
    assert found.bus.options() == {"connectionString": STRING}


def test_the_same_as_texts() -> None:
    found = read(keys="a, b", count="3", speed="2", is_dry="true")
    assert (found.keys, found.count, found.speed, found.is_dry) == (("a", "b"), 3, 2.0, True)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("quue", "x", "did you mean queue?"),
        ("pace", "slow", "not one of full, original"),
        ("count", 0, "1 or more"),
        ("count", True, "not a whole number"),
        ("speed", "fast", "not a number"),
        ("is_dry", "perhaps", "neither true nor false"),
        ("wait", "5 minutes", "30s or 1h30m"),
        ("window", "large", "64MiB"),
        ("since", "yesterday", "2026-01-31T12:00:00Z"),
        ("queue", "", "expected a string"),
        ("connection_string_ref", "env:BUS", "exactly one"),
    ],
)
def test_a_wrong_value_is_named_with_what_to_write(key: str, value: object, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read(**{key: value})
    assert str(caught.value).startswith(key)
    assert words in str(caught.value)


def test_complaints_come_together_and_hold_no_secret() -> None:
    with pytest.raises(SettingsError) as caught:
        read_table(Sample, {"connection_string": STRING, "count": "x"})
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == ["queue", "count"]
    assert "c2VjcmV0" not in str(caught.value) + repr(read())
