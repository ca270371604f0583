"""`partibus rule test` and `rule explain` on the rules of a running server."""

import itertools
from pathlib import Path

import pytest

from cli.command import Partibus

_numbers = itertools.count()


@pytest.fixture
def topic(partibus: Partibus) -> str:
    """A topic with three subscriptions: all, those that are large, and none."""
    name = f"rules-{next(_numbers)}"
    partibus("topic", "create", name)
    for subscription in ("all", "large", "none"):
        partibus("subscription", "create", name, subscription)
    for subscription in ("large", "none"):
        partibus("rule", "delete", name, subscription, "$Default", "--yes")
    partibus(
        *("rule", "create", name, "large", "big", "--sql-filter", "amount > 100"),
        *("--action", "SET size = 'L'"),
    )
    return name


def reached(partibus: Partibus, topic: str, *message: str) -> dict[str, int]:
    shown = partibus("rule", "test", "--topic", topic, "--json", *message).json
    return {one["subscription"]: len(one["copies"]) for one in shown["subscriptions"]}


def test_which_subscriptions_of_the_server_a_message_reaches(
    partibus: Partibus, topic: str
) -> None:
    paths = [f"{topic}/Subscriptions/{name}" for name in ("all", "large", "none")]
    large = reached(partibus, topic, "-p", "amount:int=120")
    assert large == dict(zip(paths, (1, 1, 0), strict=True))
    small = reached(partibus, topic.upper(), "-p", "amount:int=5")
    assert small == dict(zip(paths, (1, 0, 0), strict=True))
    every = partibus("rule", "test", "--json").json["subscriptions"]
    assert set(paths) <= {one["subscription"] for one in every}


def test_why(partibus: Partibus, topic: str) -> None:
    told = partibus("rule", "explain", f"{topic}/large", "-p", "amount:int=120").out
    assert "amount" in told
    done = partibus.try_("rule", "explain", f"{topic}/Subscriptions/large", "-p", "amount:int=5")
    assert done.code == 1
    assert partibus.try_("rule", "explain", f"{topic}/none").code == 1


def test_parameters_come_along(partibus: Partibus, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "namespace.toml"
    file.write_text(
        f'[[topic]]\nname = "{topic}-p"\n[[topic.subscription]]\nname = "s"\n'
        '[[topic.subscription.rule]]\nname = "r"\nsql_filter = "amount > @least"\n'
        'parameters = { "@least" = 10 }\n'
        'action = "SET size = @size"\naction_parameters = { "@size" = "L" }\n'
    )
    partibus("namespace", "import", str(file))
    explain = ("rule", "explain", f"{topic}-p/s", "--json", "-p")
    assert partibus.try_(*explain, "amount:int=11").code == 0
    assert partibus.try_(*explain, "amount:int=9").code == 1
    exported = partibus("namespace", "export").out
    assert '"@least" = 10' in exported
    assert '"@size" = "L"' in exported


def test_what_is_not_there(partibus: Partibus, topic: str) -> None:
    for command in (("test", "--topic", "no-such"), ("explain", f"{topic}/no-such")):
        done = partibus.try_("rule", *command)
        assert (done.code, "there is no topic or subscription" in done.err) == (4, True)


def test_a_file_needs_no_server(partibus: Partibus, tmp_path: Path) -> None:
    file = tmp_path / "namespace.toml"
    file.write_text('[[topic]]\nname = "t"\n[[topic.subscription]]\nname = "s"\n')
    nowhere = ("--url", "not a url", "--config", str(file))
    assert partibus.try_("rule", "test", *nowhere).code == 0
    assert partibus.try_("rule", "explain", "t/s", *nowhere).code == 0
    assert partibus.try_("rule", "explain", "--sql", "1=1", "--url", "not a url").code == 0
