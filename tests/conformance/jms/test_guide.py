"""The program of the guide is one of those that run here."""

from conformance.jms.conftest import HERE
from support.repository import ROOT, code_blocks


def test_the_program_of_the_guide_is_tested() -> None:
    (text,) = code_blocks(ROOT / "docs/guides/jms.md", "java")
    assert text == (HERE / "programs" / "QueueProgram.java").read_text(encoding="utf-8")
