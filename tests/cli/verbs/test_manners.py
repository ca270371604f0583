"""How the command behaves around its verbs: usage, completion, settings, the documentation."""

import re
import tomllib
from pathlib import Path

import pytest
import typer

from cli.command import Partibus
from partibus.cli.verb_table import command_tree
from support.repository import ROOT
from support.server import ServerProcess

REFERENCE = ROOT / "docs" / "reference" / "cli.md"


def verbs(group: typer.Typer, path: str = "partibus") -> set[str]:
    """Every verb, as it is typed."""
    names = {
        f"{path} {command.name or command.callback.__name__}"  # type: ignore[union-attr]
        for command in group.registered_commands
    }
    for child in group.registered_groups:
        assert child.typer_instance is not None
        inner = f"{path} {child.name}" if isinstance(child.name, str) else path
        names |= verbs(child.typer_instance, inner)
        if child.typer_instance.info.invoke_without_command is True:
            names.add(inner)
    return names


def test_every_verb_is_documented_and_no_other() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    assert set(re.findall(r"^#+ `(partibus [a-z -]+)`$", text, re.MULTILINE)) == verbs(
        command_tree()
    )


def test_every_verb_of_the_documentation_has_an_example() -> None:
    parts = re.split(r"^#+ `(partibus [a-z -]+)`$", REFERENCE.read_text("utf-8"), flags=re.M)[1:]
    for verb, body in zip(*[iter(parts)] * 2, strict=True):
        block = re.search(r"```sh\n(.*?)```", body, re.DOTALL)
        assert block is not None, verb
        assert verb in block[1], verb


def test_flags_of_the_documentation_exist(partibus: Partibus) -> None:
    parts = re.split(r"^#+ `partibus ([a-z -]+)`$", REFERENCE.read_text("utf-8"), flags=re.M)[1:]
    for verb, body in zip(*[iter(parts)] * 2, strict=True):
        blocks = "".join(re.findall(r"```sh\n(.*?)```", body, re.DOTALL))
        told = set()
        for line in blocks.splitlines():
            if f"partibus {verb}" in line:
                own = line.split(f"partibus {verb}", 1)[1].split("|")[0]
                told |= set(re.findall(r"(?<=\s)--[a-z-]+", own))
        shown = partibus(*verb.split(), "--help").out
        missing = {flag for flag in told if flag not in shown}
        assert not missing, verb


def test_exit_codes_are_documented() -> None:
    from partibus.cli import asking, failures
    from partibus.server import failure

    codes = {
        value
        for module in (failures, failure, asking)
        for name, value in vars(module).items()
        if name.startswith("EXIT_")
    }
    table = REFERENCE.read_text("utf-8").split("## Exit codes")[1].split("\n## ")[0]
    assert {int(n) for n in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)} == codes


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("sned",), "No such command 'sned'. Did you mean 'send'? (see partibus --help)"),
        (("send",), "Missing argument 'ENTITY'. (see partibus send --help)"),
        (("dlq", "resubmit", "q", "--al"), "No such option: --al"),
        (("peek", "q", "--max", "x"), "Invalid value for '--max': 'x' is not a valid int"),
    ],
)
def test_wrong_usage_is_one_line(arguments: tuple[str, ...], words: str) -> None:
    done = Partibus(None).process(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("partibus: ")
    assert words in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [(), ("queue",), ("session", "state")])
def test_without_a_verb_the_help_is_shown(arguments: tuple[str, ...]) -> None:
    done = Partibus(None).process(*arguments)
    assert done.code == 2
    assert "Usage:" in done.out + done.err


def test_output_to_a_pipe_has_no_colours_and_no_bars(partibus: Partibus, queue: str) -> None:
    for arguments in (
        ("send", queue, "x", "--count", "10"),
        ("receive", queue, "--all", "--format", "text"),
        ("queue", "list"),
        ("doctor", "no-such-queue"),
        ("bench", queue, "-n", "10"),
    ):
        done = partibus.process(*arguments, TERM="xterm-256color")
        assert "\x1b" not in done.out + done.err


def test_the_shell_completes_verbs_and_entities(
    bus: ServerProcess, partibus: Partibus, queue: str, tmp_path: Path
) -> None:
    def completed(line: str, command: Partibus = partibus) -> list[str]:
        words = line.split(" ")
        done = command.process(
            _PARTIBUS_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1)
        )
        return done.out.split()

    assert completed("partibus rec") == ["receive"]
    assert "resubmit" in completed("partibus dlq ")
    assert queue in completed(f"partibus peek {queue[:-1]}")
    elsewhere = Partibus(
        "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=a;SharedAccessKey=b", tmp_path
    )
    assert completed("partibus peek q", elsewhere) == []
    elsewhere("context", "add", "prod", "--connection-string", bus.connection_string)
    assert completed("partibus peek --context p", elsewhere) == ["prod"]


def test_every_setting_has_an_origin(tmp_path: Path) -> None:
    file = tmp_path / "namespace.toml"
    file.write_text('[server]\nport = 7000\nhost = "0.0.0.0"\nworkers = 2\n', encoding="utf-8")
    done = Partibus(None).process(
        *("config", "show", "--json", "--config", str(file), "--port", "7002"),
        PARTIBUS_PORT="7001",
        PARTIBUS_WORKERS="3",
    )
    settings = done.json["settings"]
    assert settings["port"] == {"value": 7002, "origin": "--port"}
    assert settings["workers"] == {"value": 3, "origin": "PARTIBUS_WORKERS"}
    assert settings["host"] == {"value": "0.0.0.0", "origin": f"{file}:3"}
    assert settings["tls_port"] == {"value": 5671, "origin": "default"}
    assert settings["faults"] == {"value": False, "origin": "default"}
    assert settings["disk_free_min"] == {"value": "5%, at least 64M", "origin": "default"}


@pytest.mark.parametrize(
    ("given", "shown"), [("2%", "2%"), ("200M", "200M"), ("70000", "70000"), ("0", "0")]
)
def test_what_stays_free_of_a_disk_is_shown_as_it_is_given(given: str, shown: str) -> None:
    done = Partibus(None)("config", "show", "--json", "--disk-free-min", given)
    assert done.json["settings"]["disk_free_min"]["value"] == shown


def test_the_table_of_settings_and_what_is_wrong(tmp_path: Path) -> None:
    partibus = Partibus(None)
    text = partibus("config", "show", "--origin").out
    assert text.splitlines()[0].split() == ["setting", "value", "origin"]
    assert ["port", "5672", "default"] in [line.split() for line in text.splitlines()]
    assert "origin" not in partibus("config", "show").out
    (tmp_path / "odd.toml").write_text("[server]\nprot = 1\n", encoding="utf-8")
    odd = partibus.try_("config", "show", "--config", str(tmp_path / "odd.toml"))
    assert odd.code == 2
    assert partibus.try_("config", "show", "--port", "x").code == 2
    stranger = partibus.process("config", "show", PARTIBUS_PROT="1")
    assert stranger.err == (
        "partibus: PARTIBUS_PROT is set, but no setting has that name;"
        " did you mean PARTIBUS_PORT?\n"
    )


def test_config_show_takes_the_flags_of_serve(partibus: Partibus) -> None:
    flags = set(re.findall(r"--[a-z-]+", partibus("serve", "--help").out))
    assert flags <= set(re.findall(r"--[a-z-]+", partibus("config", "show", "--help").out))


def test_an_export_is_toml(partibus: Partibus, queue: str) -> None:
    names = [table["name"] for table in tomllib.loads(partibus("namespace", "export").out)["queue"]]
    assert queue in names
