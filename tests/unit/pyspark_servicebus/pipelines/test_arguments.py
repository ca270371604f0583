"""Scripts for spark-submit: the settings as options, and the options of every script."""

import pytest

from pyspark_servicebus.pipelines.run.arguments import parser_for, script_main, table_of
from pyspark_servicebus.pipelines.run.settings import SettingsError, pairs
from pyspark_servicebus.pipelines.run.settings_table import read_table
from unit.pyspark_servicebus.pipelines.test_settings_table import STRING, Sample


def test_what_was_given_is_a_table() -> None:
    parser = parser_for(Sample, "sample.py", "A sample.")
    text = f"--queue q --count 3 --keys a --keys b --is-dry --wait 5m --connection-string {STRING}"
    table = table_of(Sample, parser.parse_args(text.split()))
    assert table == {
        "connection_string": STRING,
        "queue": "q",
        "count": "3",
        "keys": ["a", "b"],
        "is_dry": True,
        "wait": "5m",
    }
    assert read_table(Sample, table).wait_ms == 300_000


def test_a_wrong_setting_ends_a_script_before_spark_starts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def work(*_: object) -> None:
        raise AssertionError

    code = script_main(
        ["--count", "0"],
        name="sample",
        description="A sample.",
        settings=Sample,
        work=work,
    )
    assert code == 2
    told = capsys.readouterr().err
    assert told.startswith("sample: queue: it is missing.")
    assert "count: 0 is too small" in told


def test_settings_of_spark() -> None:
    assert pairs(["a=1", "b=x=y"]) == {"a": "1", "b": "x=y"}
    with pytest.raises(SettingsError, match="conf: 'a' is not of the form K=V"):
        pairs(["a"])
