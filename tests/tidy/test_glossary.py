"""Rules about the glossary: every word once, in order, each with a meaning and a place."""

import re

from support.repository import ROOT

GLOSSARY = ROOT / "docs" / "reference" / "glossary.md"
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| (\[[^|]+\)) \|$", re.MULTILINE)


def rows() -> list[tuple[str, str, str]]:
    words, _, _ = GLOSSARY.read_text(encoding="utf-8").partition("\n## ")
    return ROW.findall(words)


def test_every_row_is_whole() -> None:
    text, _, _ = GLOSSARY.read_text(encoding="utf-8").partition("\n## ")
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows()) == len(lines) - 1 > 50, "a row has a word, a meaning and a link"


def test_words_stand_once_and_in_order() -> None:
    words = [word.lower() for word, _, _ in rows()]
    assert words == sorted(set(words))


def test_a_meaning_is_a_sentence() -> None:
    assert not [word for word, meaning, _ in rows() if not meaning.rstrip(")").endswith(".")]
