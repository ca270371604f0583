"""A page of the documents as its fenced blocks, each with what a reader does with it.

Owns the few signs by which a page says more than its text does. They are comments of HTML on the
lines directly before a block, so that no reader sees them:

    <!-- not run: WHY -->            the block is an illustration, for this reason; on a text block,
                                     it is not what the block before it prints
    <!-- group: proton -->           it needs a group of tests/support/groups.py; JavaScript, Go,
                                     Java, Rust and Spark need none of these signs
    <!-- terminal: WORDS -->         it stays in the foreground of another terminal; WORDS come
                                     when it is ready
    <!-- output varies -->           the text block after it is an example of what it prints

and anywhere on a page `<!-- notebook: TEST -->`: its Python blocks are cells, which TEST runs.

A block is saved under the name that the text before it gives ("Save as `NAME`").
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

FENCE: Final = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SIGN: Final = re.compile(r"^<!-- (not run|group|terminal|output varies)(?:: (.*?))? -->$")
SAVED: Final = re.compile(r"[Ss]ave\s+(?:\w+\s+){0,3}?as\s+`([^`]+)`")
NOTEBOOK: Final = re.compile(r"^<!-- notebook: (\S+) -->$", re.MULTILINE)
SPARK: Final = re.compile(r"partibus pipeline|pyspark")

PROGRAMS: Final = {"python": "py", "js": "mjs"}
"""Languages whose blocks are whole programs, with the suffix of their files."""

FILES: Final = frozenset(
    {"toml", "json", "ini", "yaml", "nginx", "sql", "go", "java", "rust", "xml"}
)
"""Languages whose blocks are files; they are saved where the text says so."""

GROUP_OF_LANGUAGE: Final = {"js": "javascript", "go": "go", "java": "java-sdk", "rust": "rust"}
"""Languages whose blocks need a tool."""

OUTPUT: Final = frozenset({"text", ""})
"""What is printed, by the block before it or by anything else."""

LANGUAGES: Final = frozenset({"sh", *PROGRAMS, *FILES, *OUTPUT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block, and what the page says about it."""

    language: str
    text: str
    line: int
    saved_as: str = ""
    not_run: str = ""
    group: str = ""
    ready_words: str = ""
    is_exact: bool = True

    @property
    def is_run(self) -> bool:
        return self.language not in OUTPUT and not self.not_run


def read_page(path: Path) -> list[Block]:
    """The blocks of a page, in their order."""
    text = path.read_text(encoding="utf-8")
    notebook = NOTEBOOK.search(text)
    blocks = list(_blocks(text))
    return [_as_cell(block, notebook[1]) for block in blocks] if notebook else blocks


def groups_of(blocks: list[Block]) -> list[str]:
    """The groups that some blocks of a page need."""
    return sorted({block.group for block in blocks if block.group and block.is_run})


def _blocks(text: str) -> Iterator[Block]:
    end = 0
    for match in FENCE.finditer(text):
        before = text[end : match.start()]
        end = match.end()
        yield _block(match, before, text.count("\n", 0, match.start()) + 1)


def _as_cell(block: Block, test: str) -> Block:
    if block.language != "python":
        return block
    return replace(block, not_run=f"a cell, which {test} runs")


def _block(match: re.Match[str], before: str, line: int) -> Block:
    language = match[1].strip()
    signs = _signs(before)
    saved = SAVED.findall(before)
    return Block(
        language=language,
        text=match[2],
        line=line,
        saved_as=saved[-1] if saved else "",
        not_run=signs.get("not run", ""),
        group=signs.get("group", _group(language, match[2])),
        ready_words=signs.get("terminal", ""),
        is_exact="output varies" not in signs,
    )


def _group(language: str, text: str) -> str:
    """The group that a block needs by what it is."""
    if language in GROUP_OF_LANGUAGE:
        return GROUP_OF_LANGUAGE[language]
    return "spark" if SPARK.search(text) and language in ("sh", "python") else ""


def _signs(before: str) -> dict[str, str]:
    signs: dict[str, str] = {}
    for line in reversed(before.rstrip().splitlines()):
        match = SIGN.fullmatch(line)
        if match is None:
            break
        signs[match[1]] = match[2] or ""
    return signs
