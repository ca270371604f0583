"""`partibus config check`: a file is good, or is explained."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from partibus.cli.verb_table import command_tree

GOOD = """\
[server]
profile = "standard"

[[policy]]
name = "Reader"
key = "a-key-that-is-long-enough"
rights = ["Listen"]

[[queue]]
name = "orders"

[[topic]]
name = "news"
[[topic.subscription]]
name = "all"
"""


def check(file: Path, content: str, *flags: str) -> tuple[int, str, str]:
    file.write_text(content)
    result = CliRunner().invoke(command_tree(["config"]), ["config", "check", str(file), *flags])
    return result.exit_code, result.stdout, result.stderr


def test_a_good_file_is_summed_up(tmp_path: Path) -> None:
    file = tmp_path / "bus.toml"
    code, out, err = check(file, GOOD)
    assert (code, err) == (0, "")
    assert out == f"{file}: valid (3 entities, 1 policies, profile standard)\n"


def test_the_emulator_s_file_is_understood(tmp_path: Path) -> None:
    content = """{ // a comment
      "UserConfig": {"Namespaces": [{"Name": "sbemulatorns", "Queues": [{"Name": "q"}],
      "Topics": []}], "Logging": {"Type": "Console"}}}"""
    code, out, err = check(tmp_path / "Config.json", content)
    assert (code, err) == (0, "")
    assert "1 entities" in out


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[[queue]]\n", "bus.toml:1"),
        ('[[queue]]\nname = "a"\nlock_durations = "PT1M"\n', "bus.toml:3"),
        ("[server]\nprot = 1\n", "bus.toml:2"),
        ("[[queue\n", "is not valid TOML"),
        ('[[queue]]\nname = "a"\nlock_duration = "PT6M"\n', "lock_duration"),
    ],
)
def test_a_bad_file_is_explained_in_one_line(tmp_path: Path, content: str, words: str) -> None:
    code, out, err = check(tmp_path / "bus.toml", content, "--profile", "standard")
    assert (code, out) == (2, "")
    assert words in err
    assert err.startswith("partibus: ")
    assert err.count("\n") == 1


def test_limits_of_another_profile_can_be_asked_for(tmp_path: Path) -> None:
    content = '[[queue]]\nname = "a"\nlock_duration = "PT1S"\n'
    assert check(tmp_path / "bus.toml", content)[0] == 0
    assert check(tmp_path / "bus.toml", content, "--profile", "standard")[0] == 2


def test_the_environment_has_no_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARTIBUS_PORT", "nonsense")
    assert check(tmp_path / "bus.toml", GOOD)[0] == 0
