"""Writing XML: what is written is what a parser reads."""

import pytest
from defusedxml.ElementTree import fromstring

from partibus.atom.markup import branch, leaf

NASTY = "a & b < c > d \" e ' f \r\n \t ]]> é 日 \U0001f600"


def test_text_and_attributes_survive() -> None:
    element = fromstring(branch("x", [leaf("y", NASTY, {"z": NASTY})], {"q": "1"}))
    (child,) = element
    assert child.text == NASTY
    assert child.attrib == {"z": NASTY}


@pytest.mark.parametrize("bad", ["\x00", "\x1f", "\ud800", "\uffff"])
def test_what_xml_cannot_carry_is_replaced(bad: str) -> None:
    assert fromstring(leaf("x", f"a{bad}b")).text == "a\ufffdb"


def test_empty_elements_are_short() -> None:
    assert leaf("x", "") == branch("x", ()) == "<x />"
