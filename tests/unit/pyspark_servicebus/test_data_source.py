"""The data source by its name, and what it says when Spark runs the wrong interpreter."""

import importlib.util
import sys

import pytest
from pyspark.sql.types import StructType

import pyspark_servicebus
from pyspark_servicebus.given_options import OptionsError
from pyspark_servicebus.schema import COLUMNS
from pyspark_servicebus.source.claim_stream import ClaimStream
from pyspark_servicebus.source.cursor_stream import CursorStream

KEY = "secret-key"
OPTIONS = {
    "connectionString": f"Endpoint=sb://bus.test;SharedAccessKeyName=p;SharedAccessKey={KEY}",
    "queue": "q",
}


def source(**given: str) -> pyspark_servicebus.DefaultSource:
    return pyspark_servicebus.DefaultSource(options={**OPTIONS, **given})


def test_spark_finds_it_by_its_name() -> None:
    assert pyspark_servicebus.DefaultSource.name() == "servicebus"
    assert source().schema().names == list(COLUMNS)
    assert source(columns="body").schema().names == ["body"]
    assert KEY not in repr(source())


def test_the_mode_chooses_the_reader() -> None:
    schema = StructType()
    claim = source(mode="claim", claimOwner="job")
    assert isinstance(claim.streamReader(schema), ClaimStream)
    assert isinstance(source(cursor="job").streamReader(schema), CursorStream)
    assert isinstance(source(mode="peek").streamReader(schema), CursorStream)
    with pytest.raises(OptionsError, match="cursor: mode=cursor needs a name"):
        source().streamReader(schema)


def test_workers_of_another_interpreter_are_told_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for ask in (
        lambda: source().reader(StructType()),
        lambda: source(cursor="job").streamReader(StructType()),
        lambda: source().writer(StructType(), False),
        lambda: source().streamWriter(StructType(), False),
    ):
        with pytest.raises(ImportError, match="Set PYSPARK_PYTHON") as caught:
            ask()
        assert sys.executable in str(caught.value)
