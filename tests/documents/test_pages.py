"""Every page of the README, the guides and "coming from", done as it is written, in a fresh clone.

The blocks that need Spark are done by tests/spark/guides/test_pages.py.
"""

from pathlib import Path

import pytest

from documents.clone import PAGE_SECONDS_MAX, read_in
from documents.page import LANGUAGES, Block, groups_of, read_page
from support.groups import GROUPS
from support.repository import ROOT

# Its blocks are the files of one project of a user, which tests/conformance/kit makes and runs.
OF_THE_KIT = "docs/guides/testing.md"

PAGES = ["README.md", "docs/start.md"]
PAGES += sorted(
    str(path.relative_to(ROOT))
    for folder in ("coming-from", "guides")
    for path in (ROOT / "docs" / folder).glob("*.md")
    if not path.samefile(ROOT / OF_THE_KIT)
)


def cases() -> list[object]:
    """A page without its groups, and once more for each group that some of its blocks need."""
    found: list[object] = []
    for page in PAGES:
        blocks = read_page(ROOT / page)
        if any(block.is_run and not block.group for block in blocks):
            found.append(pytest.param(page, "", id=page))
        for group in groups_of(blocks):
            if group != "spark":
                mark = pytest.mark.group(group)
                found.append(pytest.param(page, group, id=f"{page}-{group}", marks=mark))
    return found


@pytest.mark.timeout(PAGE_SECONDS_MAX + 60)
@pytest.mark.group("namespaces")
@pytest.mark.parametrize(("page", "group"), cases())
def test_a_page_does_what_it_says(page: str, group: str, tmp_path: Path) -> None:
    read_in(tmp_path, page, group)


def blocks_of_all() -> list[tuple[str, Block]]:
    return [(page, block) for page in PAGES for block in read_page(ROOT / page)]


def test_every_block_is_run_or_says_why_not() -> None:
    wrong = [
        (page, block.line, block.language)
        for page, block in blocks_of_all()
        if block.language not in LANGUAGES or block.group not in ("", *GROUPS)
    ]
    assert not wrong


def test_the_blocks_that_are_not_run_are_few_and_have_reasons() -> None:
    left_out = [(page, block) for page, block in blocks_of_all() if block.not_run]
    for page, block in left_out:
        print(f"not run: {page}:{block.line} ({block.language}): {block.not_run}")
    assert all(len(block.not_run.split()) >= 3 for _, block in left_out)
    cells = [block for _, block in left_out if block.not_run.startswith("a cell, which ")]
    run = sum(block.is_run for _, block in blocks_of_all())
    assert len(left_out) - len(cells) < run / 2
