"""The settings of a transform: names, defaults, combinations."""

from pathlib import Path
from typing import Any

import pytest

from pyspark_servicebus.pipelines.kinds import KINDS, kind_of
from pyspark_servicebus.pipelines.run.settings import SettingsError
from pyspark_servicebus.pipelines.transform.outlets import ConsoleOutlet
from pyspark_servicebus.pipelines.transform.settings import TransformSettings

BUS = {"connection_string_ref": "env:BUS"}
SMALL: dict[str, Any] = {**BUS, "source": "orders/Subscriptions/all", "target": "bills"}


def test_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    settings = TransformSettings.from_table(SMALL)
    assert settings.owner == "orders-all-to-bills"
    assert settings.checkpoint == "/data/partibus/pipelines/checkpoints/orders-all-to-bills"
    assert settings.all_steps() == ()
    assert settings.read_options() == {
        "connectionStringRef": "env:BUS",
        "topic": "orders",
        "subscription": "all",
        "mode": "claim",
        "claimOwner": "orders-all-to-bills",
    }
    sink = settings.outlet_for("topic")
    assert dict(sink.options) == {  # type: ignore[attr-defined]
        "connectionStringRef": "env:BUS",
        "topic": "bills",
        "deliver": "staged",
        "writer": "orders-all-to-bills",
        "extraColumns": "refuse",
    }
    moved = settings.in_state_dir(Path("/state"))
    assert moved.checkpoint == "/state/checkpoints/orders-all-to-bills"


def test_failures_have_a_writer_of_their_own() -> None:
    settings = TransformSettings.from_table({**SMALL, "failure_queue": "failed", "owner": "o"})
    assert settings.failure_outlet().options["writer"] == "o.failed"
    assert settings.outlet_for("queue").options["badRowQueue"] == "failed"  # type: ignore[attr-defined]
    plain = TransformSettings.from_table(
        {**SMALL, "failure_queue": "failed", "deliver": "atLeastOnce"}
    )
    assert plain.failure_outlet().options["deliver"] == "atLeastOnce"


def test_one_step() -> None:
    stateful = {**SMALL, "stateful": "m:f", "key": "a,b", "forget_after": "1h"}
    (step,) = TransformSettings.from_table(stateful).all_steps()
    assert step.options == {"key": ["a", "b"], "forget_after": "3600000ms"}
    (step,) = TransformSettings.from_table({**SMALL, "sql": "select 1"}).all_steps()
    assert (step.kind, step.value) == ("sql", "select 1")


def test_another_outlet() -> None:
    settings = TransformSettings.from_table({**BUS, "source": "a"}, outlet=ConsoleOutlet())
    assert settings.outlet_for("") == ConsoleOutlet()
    assert settings.owner == "a-to-the-console"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"source": None}, "source: it is missing"),
        ({"target": None}, "target: it is missing"),
        ({"soruce": "x"}, "soruce: unknown setting; did you mean source"),
        ({"mode": "peek"}, "mode: 'peek' is not one of claim, cursor"),
        ({"deliver": "once"}, "deliver: 'once' is not one of staged, dedup, atLeastOnce"),
        ({"sql": "x", "rows": "m:f"}, "sql, rows: give one of them"),
        ({"sql": "x", "step": [{"sql": "x"}]}, "sql, step: give one of them"),
        ({"stateful": "m:f"}, "key: stateful needs"),
        ({"key": "a"}, "key: it is for stateful"),
        ({"watermark": "1m", "failure_queue": "q"}, "watermark, failure_queue: windows span"),
        ({"step": "x"}, "step: write steps as tables"),
        ({"max_messages": "many"}, "max_messages: 'many' is not a whole number"),
    ],
)
def test_refused(table: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        TransformSettings.from_table({**SMALL, **table})


def test_kinds() -> None:
    assert set(KINDS) == {"transform", "capture", "replay", "deadletters", "analytics"}
    assert kind_of("transform").settings_type() is TransformSettings
    assert kind_of("transform").read(SMALL) == TransformSettings.from_table(SMALL)
    with pytest.raises(SettingsError, match=r"there is no pipeline 'transfrom'; did you mean tran"):
        kind_of("transfrom")
