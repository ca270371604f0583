"""`partibus pipeline deadletters` and `analytics`: what is wrong is told before Spark starts."""

from pathlib import Path

import pytest

from cli.command import Partibus
from spark.bus import Bus
from spark.pipelines.letters import Letter, Letters

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("spark")]


def test_a_broken_rules_file(bus: Bus, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nname = "again"\naction = "resubmit"\ndelay = "30 sec"\n')
    done = Partibus(bus.connection_string).try_("pipeline", "deadletters", "--rules", str(rules))
    assert done.code == 2
    assert done.err.startswith(
        "partibus: rules.toml, line 4, rule 'again', delay: '30 sec' is no duration; write"
    )


def test_nothing_is_carried_out_unasked(bus: Bus, tmp_path: Path) -> None:
    queue = bus.queue("plain")
    letters = Letters(bus.connection_string)
    letters.bury(queue, [Letter(b"one")])
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nname = "away"\naction = "purge"\n')
    done = Partibus(bus.connection_string).try_(
        "pipeline", "deadletters", queue, "--rules", str(rules)
    )
    assert (done.code, done.err) == (2, "partibus: nobody is there to ask; give --yes to go on.\n")
    assert letters.dead_bodies(queue) == [b"one"]


@pytest.mark.parametrize("words", [("deadletters",), ("analytics", "out")])
def test_a_glob_that_means_nothing(bus: Bus, words: tuple[str, ...]) -> None:
    done = Partibus(bus.connection_string).try_("pipeline", *words, "none-such*")
    assert done.code == 2
    assert "no queue or subscription is like 'none-such*'" in done.err


@pytest.mark.parametrize("words", [("deadletters",), ("analytics", "out")])
def test_a_bus_that_is_away(words: tuple[str, ...]) -> None:
    nowhere = (
        "Endpoint=sb://localhost:1;SharedAccessKeyName=a;SharedAccessKey=b;"
        "UseDevelopmentEmulator=true;"
    )
    done = Partibus(nowhere).try_("pipeline", *words)
    assert done.code == 1
    assert "localhost cannot be reached" in done.err
    assert "partibus serve" in done.err


def test_settings_that_do_not_go_together(bus: Bus) -> None:
    done = Partibus(bus.connection_string).try_("pipeline", "analytics", "out", "--cursor", "c")
    assert done.code == 2
    assert "cursor: it means nothing without mode=stream" in done.err
