"""Where captured files go: the words of a template, and templates that cannot be used."""

import pytest

from pyspark_servicebus.pipelines.capture.template import (
    DEFAULT_TEMPLATE,
    check_template,
    path_template,
)
from pyspark_servicebus.pipelines.run.settings import SettingsError

MINUTE = 60_000
TIME = 1_794_742_780_075  # 2026-11-15T11:39:40.075Z


def test_all_words() -> None:
    template = path_template(DEFAULT_TEMPLATE, "bus", "orders", 5 * MINUTE)
    assert template.path(3, TIME) == "bus/orders/3/2026/11/15/11/35"
    assert template.has_time
    assert template.has_fragment


def test_names_become_folders() -> None:
    template = path_template("{entity}", "bus", "t/Subscriptions/s x", MINUTE)
    assert template.path(0, 0) == "t-Subscriptions-s-x"
    assert path_template("{entity}", "bus", "..", MINUTE).path(0, 0) == "-"
    assert not template.has_time
    assert not template.has_fragment


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{fragmnt}", "did you mean {fragment}?"),
        ("{yyyy}/{mM}", "did you mean {"),
        ("{entity", "not closed"),
        ("a}/b", "not closed or not opened"),
        ("/{entity}", "empty or a dotted folder"),
        ("{entity}//x", "empty or a dotted folder"),
        ("{entity}/../x", "empty or a dotted folder"),
        ("_x/{entity}", "readers of Parquet ignore"),
        ("{entity}/a b", "characters"),
        ("", "empty"),
    ],
)
def test_what_cannot_be_used(text: str, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        check_template(text)
    assert str(caught.value).startswith("template: ")
    assert words in str(caught.value)
