"""Rules are read strictly: what is wrong is told with its line, its key and what to write."""

import time
from pathlib import Path

import pytest

from partibus.amqp.codec.types import Timestamp
from pyspark_servicebus.pipelines.deadletters.rules import NO_RULE, DeadLetter, Rule, decide
from pyspark_servicebus.pipelines.deadletters.rules_file import load_rules, parse_rules
from pyspark_servicebus.pipelines.run.settings import SettingsError
from support.repository import ROOT, code_blocks


def letter(**changes: object) -> DeadLetter:
    values = {
        "entity": "orders",
        "reason": "MaxDeliveryCountExceeded",
        "description": "Timeout after 30 ms",
        "shape": "Timeout after <n> ms",
        "properties": {"tenant": "acme"},
        "attempts": 0,
        "age_ms": 60_000,
    }
    return DeadLetter(**(values | changes))  # type: ignore[arg-type]


def rule(when: str, more: str = "") -> Rule:
    (found,) = parse_rules(f'[[rule]]\nname = "r"\nwhen = {when}\naction = "resubmit"\n{more}')
    return found


def test_everything_that_can_be_said() -> None:
    (found,) = parse_rules(
        """
        [[rule]]
        name = "fix the currency"
        action = "fix"
        target = "orders"
        max_attempts = 5
        delay = "30s"
        backoff = 2
        delay_max = "5m"
        message_id = "new"
        set = { currency = "EUR", tries = 3, ok = true, at = 2026-01-31T00:00:00Z }
        remove = ["broken"]
        body_merge = '{"currency": "EUR", "old": null}'
        [rule.when]
        entity = ["orders*", "bills"]
        reason = "Bad*"
        description = "currency|money"
        shape = "no currency in order <n>"
        properties = { tenant = "a*", n = 5, flag = true }
        attempts = "<3"
        older_than = "1m"
        younger_than = "7d"
        """
    )
    assert found.name == "fix the currency"
    assert found.when.entities == ("orders*", "bills")
    assert found.when.properties == {"tenant": "a*", "n": "5", "flag": "true"}
    assert found.when.attempts == (0, 2)
    assert found.body_merge == {"currency": "EUR", "old": None}
    moment = Timestamp(1_769_817_600_000)
    assert found.set_properties == {"currency": "EUR", "tries": 3, "ok": True, "at": moment}
    assert [found.delay_after(n) for n in range(5)] == [30_000, 60_000, 120_000, 240_000, 300_000]


def test_a_time_without_a_zone_is_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        (found,) = parse_rules(
            '[[rule]]\nname = "r"\naction = "fix"\nset = { at = 2026-01-31T00:00:00 }'
        )
    finally:
        monkeypatch.undo()
        time.tzset()
    assert found.set_properties == {"at": Timestamp(1_769_817_600_000)}


@pytest.mark.parametrize(
    ("when", "changes", "fits"),
    [
        ("{}", {}, True),
        ('{ entity = "ORD*" }', {}, True),
        ('{ entity = "bills" }', {}, False),
        ('{ entity = "events/*" }', {"entity": "events/Subscriptions/all"}, True),
        ('{ reason = ["Sour", "Max*"] }', {}, True),
        ('{ description = "timeout after \\\\d+" }', {}, True),
        ('{ description = "^after" }', {}, False),
        ('{ shape = "Timeout after <n> ms" }', {}, True),
        ('{ shape = "list [<n>]?" }', {"shape": "list [<n>]?"}, True),
        ('{ shape = "list [<n>]?" }', {"shape": "list <]?"}, False),
        ('{ properties = { tenant = "ac*" } }', {}, True),
        ('{ properties = { tenant = "ac*" } }', {"properties": {}}, False),
        ('{ properties = { gone = "*" } }', {"properties": {"gone": None}}, True),
        ("{ attempts = 1 }", {"attempts": 1}, True),
        ("{ attempts = 1 }", {}, False),
        ('{ attempts = ">=2" }', {"attempts": 2}, True),
        ('{ attempts = ">2" }', {"attempts": 2}, False),
        ('{ attempts = "<=2" }', {"attempts": 2}, True),
        ('{ older_than = "1m" }', {}, True),
        ('{ older_than = "1m" }', {"age_ms": 59_999}, False),
        ('{ younger_than = "1m" }', {"age_ms": 59_999}, True),
        ('{ younger_than = "1m" }', {}, False),
    ],
)
def test_what_a_rule_fits(when: str, changes: dict[str, object], fits: bool) -> None:
    assert rule(when).fits(letter(**changes)) is fits


def test_the_first_rule_decides_and_a_weary_one_leaves_it_to_the_next() -> None:
    rules = parse_rules(
        """
        [[rule]]
        name = "again"
        when = { entity = "orders" }
        action = "resubmit"
        max_attempts = 2
        [[rule]]
        name = "park"
        when = { entity = "orders" }
        action = "park"
        target = "parked"
        """
    )
    assert [decide(rules, letter(attempts=n)) for n in range(4)] == [0, 0, 1, 1]
    assert decide(rules, letter(entity="bills")) == NO_RULE


HEAD = '[[rule]]\nname = "r"\n'


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "rules, line 1, rule: there are no rules. Write them as [[rule]]"),
        ("rules = 1", "line 1, rules: unknown key; did you mean [[rule]]"),
        (
            "[[rule]\n",
            "this is not valid TOML: Expected ']]' at the end of an array declaration (at line",
        ),
        ("[[rule]]\n", "line 1, rule 1, name: it is missing."),
        (HEAD, "line 1, rule 'r', action: it is missing."),
        (
            HEAD + 'action = "resend"',
            "line 3, rule 'r', action: 'resend' is not one of resubmit, fix, park, purge, leave.",
        ),
        (
            HEAD + 'action = "resubmit"\nmax_atempts = 3',
            "line 4, rule 'r', max_atempts: unknown key; did you mean max_attempts?",
        ),
        (
            HEAD + 'action = "resubmit"\ndelay = "soon"',
            "line 4, rule 'r', delay: 'soon' is not a valid duration; for example: 70ms, 30s or "
            "1h30m.",
        ),
        (
            HEAD + 'action = "resubmit"\nbackoff = 2',
            "line 4, rule 'r', backoff: it needs a delay to begin with",
        ),
        (
            (HEAD + 'action = "leave"\n') * 2 + '[[rule]]\nname = "last"\naction = "leave"',
            "line 5, rule 'r', name: 'r' appears twice; give each rule its own name.",
        ),
        (HEAD + 'action = "park"', "line 1, rule 'r', target: it is missing: park needs a queue"),
        (HEAD + 'action = "fix"', "line 3, rule 'r', action: fix changes nothing; give set"),
        (
            HEAD + 'action = "purge"\ntarget = "q"',
            "line 4, rule 'r', target: it has no effect with purge; it is for resubmit or fix",
        ),
        (
            HEAD + 'action = "fix"\nbody_merge = "{currency: 1}"',
            "line 4, rule 'r', body_merge: Expecting property name enclosed in double quotes",
        ),
        (HEAD + 'action = "fix"\nset = { a = [1] }', "line 4, rule 'r', set: a: expected a string"),
        (HEAD + 'action = "fix"\nremove = "a"', "line 4, rule 'r', remove: 'a' is not a list"),
        (
            HEAD + 'action = "leave"\n[rule.when]\nreasons = "x"',
            "line 5, rule 'r', reasons: unknown key; did you mean reason?",
        ),
        (
            HEAD + 'action = "leave"\nwhen = { description = "(" }',
            "line 4, rule 'r', description: missing ), unterminated subpattern",
        ),
        (
            HEAD + 'action = "leave"\nwhen = { attempts = "few" }',
            "line 4, rule 'r', attempts: 'few' is not a valid count; write 0, '<3' or '>=3'.",
        ),
        (
            HEAD + 'action = "leave"\nwhen = { older_than = 5 }',
            "line 4, rule 'r', older_than: expected a string, got 5",
        ),
        (HEAD + 'action = "leave"\nwhen = "x"', "line 4, rule 'r', when: expected a table"),
        (
            HEAD + 'action = "leave"\n' + HEAD + 'action = "leave"',
            "line 5, rule 'r', name: 'r' appears",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, complaint: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_rules(text)
    assert complaint in str(caught.value)


def test_everything_is_told_at_once() -> None:
    text = HEAD + 'action = "park"\ndelay = 5\n[[rule]]\nname = "s"\naction = "no"\n'
    with pytest.raises(SettingsError) as caught:
        parse_rules(text)
    lines = str(caught.value).splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        "rules, line 4, rule 'r', delay",
        "rules, line 7, rule 's', action",
    ]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.toml cannot be read: No such file"):
        load_rules(tmp_path / "none.toml")


def test_the_rules_of_the_guide() -> None:
    (text,) = code_blocks(ROOT / "docs" / "guides" / "pipelines-deadletters.md", "toml")
    assert [rule.action for rule in parse_rules(text)] == ["resubmit", "fix", "purge", "park"]
