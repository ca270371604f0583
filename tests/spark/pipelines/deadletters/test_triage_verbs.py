"""`partibus pipeline deadletters` and `analytics`: what is wrong is told, and has an exit code."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cli.command import Done, Partibus
from pyspark_servicebus.pipelines import deadletters
from pyspark_servicebus.pipelines.declared import running as declared
from pyspark_servicebus.pipelines.run.state import load_states
from spark.bus import Bus
from spark.pipelines.deadletters.letters import Letter, Letters

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("spark")]


def test_a_broken_rules_file(bus: Bus, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nname = "again"\naction = "resubmit"\ndelay = "30 sec"\n')
    done = Partibus(bus.connection_string).try_("pipeline", "deadletters", "--rules", str(rules))
    assert done.code == 2
    assert done.err.startswith(
        "partibus: rules.toml, line 4, rule 'again', delay: '30 sec' is not a valid duration; "
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
    said = "partibus: there is no terminal to confirm on; give --yes to continue.\n"
    assert (done.code, done.err) == (2, said)
    assert letters.dead_bodies(queue) == [b"one"]


@pytest.mark.parametrize("words", [("deadletters",), ("analytics", "out")])
def test_a_glob_that_means_nothing(bus: Bus, words: tuple[str, ...]) -> None:
    done = Partibus(bus.connection_string).try_("pipeline", *words, "none-such*")
    assert done.code == 2
    assert "no queue or subscription matches 'none-such*'" in done.err


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
    assert "cursor: it requires mode=stream" in done.err


UNFIXABLE = """
[[rule]]
name = "currency"
action = "fix"
body_merge = '{"currency": "EUR"}'
"""
SHORTFALL = "1 dead letter was not moved; the report says which."


def test_what_was_not_moved_is_the_same_exit_code_everywhere(
    partibus: Callable[..., Done], bus: Bus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A verb, a script, a declared file and the script of a declared file."""
    queue, state = bus.queue("plain"), tmp_path / "state"
    letters = Letters(bus.connection_string)
    letters.bury(queue, [Letter(b"no json"), Letter(b"{}")])
    rules, file = tmp_path / "rules.toml", tmp_path / "file.toml"
    rules.write_text(UNFIXABLE)
    place = f'[bus]\nconnection_string = "{bus.connection_string}"\n'
    own = f'[deadletters]\nentities = ["{queue}"]\nrules = "{rules}"\n'
    file.write_text(f'kind = "deadletters"\n{place}{own}')

    done = partibus("deadletters", queue, "--rules", rules, "--yes", "--state-dir", state)
    assert (done.code, done.err.splitlines()[-1]) == (1, f"partibus: {SHORTFALL}")
    assert "2 dead letters in 1 entity" in done.out
    assert sorted(map(str, bus.peek(queue))) == ['{"currency":"EUR"}']
    [told] = load_states(state)
    assert (told.status, told.error) == ("failed", SHORTFALL)

    words = ["--entities", queue, "--rules", str(rules), "--state-dir", str(state)]
    assert deadletters.main([*words, "--connection-string", bus.connection_string]) == 1
    assert f"deadletters: {SHORTFALL}\n" in capsys.readouterr().err
    done = partibus("run", file, "--state-dir", state)
    assert (done.code, done.err.splitlines()[-1]) == (1, f"partibus: {SHORTFALL}")
    assert declared.main([str(file), "--state-dir", str(state)]) == 1
    assert f"declared: {SHORTFALL}\n" in capsys.readouterr().err
    assert letters.dead_bodies(queue) == [b"no json"]
    dry = partibus("deadletters", queue, "--rules", rules, "--dry-run", "--state-dir", state)
    assert dry.code == 0, dry.err
