"""`partibus rule test` and `rule explain`: which subscriptions a message reaches, and why."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from partibus.cli.verb_table import command_tree

CONFIG = """\
[[topic]]
name = "orders"
[[topic.subscription]]
name = "red"
[[topic.subscription.rule]]
name = "red"
sql_filter = "color = 'red'"
action = "SET size = size / parts; REMOVE color; SET sys.To = 'x'"
[[topic.subscription.rule]]
name = "big"
sql_filter = "size > 10"
[[topic.subscription]]
name = "odd"
dead_lettering_on_filter_evaluation_exceptions = false
[[topic.subscription.rule]]
name = "odd"
sql_filter = "color > 5"
[[topic]]
name = "news"
[[topic.subscription]]
name = "all"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "bus.toml"
    file.write_text(CONFIG)
    return file


def run(*words: object, stdin: str = "") -> tuple[int, str, str]:
    result = CliRunner().invoke(command_tree(["rule"]), ["rule", *map(str, words)], input=stdin)
    return result.exit_code, result.stdout, result.stderr


def asked(*words: object, stdin: str = "") -> list[dict[str, Any]]:
    _, out, err = run(*words, "--json", stdin=stdin)
    assert err == ""
    found: list[dict[str, Any]] = json.loads(out)["subscriptions"]
    return found


def test_every_subscription_is_told_with_its_copies(config: Path) -> None:
    found = asked(
        "test", "--config", config, "-p", "color=red", "-p", "size:int=20", "-p", "parts:int=4"
    )
    assert [(row["subscription"], row["receives"], len(row["copies"])) for row in found] == [
        ("orders/Subscriptions/red", True, 2),
        ("orders/Subscriptions/odd", False, 0),
        ("news/Subscriptions/all", True, 1),
    ]
    assert found[0]["rules"][0]["edits"] == [
        {"scope": "user", "name": "size", "value": 5},
        {"scope": "user", "name": "color", "removed": True},
        {"scope": "sys", "name": "to", "value": "x"},
    ]


def test_an_action_that_fails_is_a_dead_letter(config: Path) -> None:
    words = ("--config", config, "-p", "color=red", "-p", "size:int=1", "-p", "parts:int=0")
    (found,) = asked("explain", "orders/red", *words)
    assert [copy["dead_letter"] for copy in found["copies"]] == [True]
    assert "division by zero" in found["rules"][0]["action_error"]
    code, out, _ = run("explain", "orders/red", *words)
    assert code == 1
    assert "orders/Subscriptions/red: dead letter" in out
    assert "but its action fails: division by zero" in out


def test_one_topic_can_be_chosen(config: Path) -> None:
    found = asked("test", "--config", config, "--topic", "news")
    assert [row["subscription"] for row in found] == ["news/Subscriptions/all"]
    code, _, err = run("test", "--config", config, "--topic", "nothing")
    assert (code, err) == (
        4,
        "partibus: there is no topic or subscription 'nothing' in the file.\n",
    )


def test_nobody_gets_it_is_exit_code_one(config: Path) -> None:
    assert run("test", "--config", config, "--topic", "orders", "-p", "size:int=1")[0] == 1
    assert run("test", "--config", config, "-p", "size:int=1")[0] == 0
    assert run("explain", "orders/red", "--config", config, "-p", "size:int=1")[0] == 1
    assert run("explain", "orders/red", "--config", config, "-p", "size:int=11")[0] == 0


def test_a_message_comes_as_json_and_flags_go_on_top() -> None:
    message = {
        "subject": "bus",
        "message_id": "m",
        "TimeToLive": "PT5M",
        "SequenceNumber": 7,
        "body": "not looked at",
        "application_properties": {
            "size": 5,
            "due": {"type": "time", "value": "2024-06-01"},
        },
    }
    sql = (
        "sys.Label = 'tram' AND sys.MessageId = 'm' AND size = 6 AND due < '2025-01-01'"
        " AND sys.TimeToLive = '00:05:00' AND sys.SequenceNumber = 7 AND sys.EnqueuedTimeUtc > due"
    )
    words = ("--message", "-", "--subject", "tram", "-p", "size:int=6")
    code, out, err = run("explain", "--sql", sql, *words, stdin=json.dumps(message))
    assert (code, err) == (0, ""), out


@pytest.mark.parametrize(
    "words",
    [
        ("explain",),
        ("explain", "--sql", "a = 1", "-p", "a"),
        ("explain", "--sql", "a = 1", "-p", "a:int=x"),
        ("explain", "--sql", "a = 1", "--time-to-live", "soon"),
        ("explain", "--sql", "a = 1", "--message", "nowhere.json"),
        ("explain", "--sql", "a ="),
        ("explain", "--sql", "a = 1", "--action", "SET"),
        ("test", "--config", "nowhere.toml"),
    ],
)
def test_a_mistake_is_exit_code_two(words: tuple[str, ...]) -> None:
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert err


@pytest.mark.parametrize("content", ["[]", "{", '{"colour": 1}', '{"TimeToLive": 5}'])
def test_a_message_that_is_none_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "message.json"
    file.write_text(content)
    assert run("explain", "--sql", "a = 1", "--message", file)[0] == 2


def test_a_bad_rule_in_the_file_is_shown_with_its_place(config: Path) -> None:
    config.write_text(CONFIG.replace("color > 5", "color > 5 AND sys.Lable = 'x'"))
    code, _, err = run("test", "--config", config)
    assert code == 2
    assert f"{config}:17: topic[0].subscription[1].rule[0].sql_filter: " in err
    assert "did you mean sys.Label?" in err
    assert err.splitlines()[-2:] == [
        "  color > 5 AND sys.Lable = 'x'",
        "                ^^^^^^^^^",
    ]
