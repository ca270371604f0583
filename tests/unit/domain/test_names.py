"""Names of entities: good ones, bad ones, and where profiles differ."""

import pytest

from partibus.domain.limits import EMULATOR, STANDARD
from partibus.domain.names import admit_path, admit_subscription_name
from partibus.domain.refusal import PropertyRefused


@pytest.mark.rule("ENT-6", "ENT-7")
@pytest.mark.parametrize("path", ["q", "Q1", "a/b/c", "a.b-c_d", "x" * 260, "a~b", "subscriptions"])
def test_good_paths(path: str) -> None:
    admit_path(path, STANDARD)


@pytest.mark.rule("ENT-6", "ENT-7")
@pytest.mark.parametrize(
    "path",
    [
        "",
        "x" * 261,
        "-a",
        "a-",
        "/a",
        "a/",
        "a//b",
        "a b",
        "a?b",
        "a#b",
        "a*b",
        "a@b",
        "$cbs",
        "a%b",
        "ä",
        "q/$management",
        "t/Subscriptions/s",
        "a\nb",
    ],
)
def test_bad_paths(path: str) -> None:
    with pytest.raises(PropertyRefused) as caught:
        admit_path(path, STANDARD)
    assert caught.value.property_name == "name"


def test_only_the_emulator_refuses_a_tilde() -> None:
    with pytest.raises(PropertyRefused):
        admit_path("a~b", EMULATOR)


@pytest.mark.rule("ENT-6")
def test_subscription_names_are_short_and_of_one_segment() -> None:
    admit_subscription_name("s" * 50, STANDARD)
    for name in ("s" * 51, "a/b", ""):
        with pytest.raises(PropertyRefused):
            admit_subscription_name(name, STANDARD)
