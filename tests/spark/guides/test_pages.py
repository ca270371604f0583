"""The blocks of the README and the guides that need Spark, done as they are written.

Each page has a network and a clone of its own, as in tests/documents/test_pages.py. The notebooks
`spark.md` and `spark-azure.md` share the session of the tests instead: test_guide.py and
test_guide_azure.py run their cells.
"""

from pathlib import Path

import pytest

from documents.clone import PAGE_SECONDS_MAX, read_in
from documents.page import groups_of, read_page
from documents.test_pages import PAGES
from support.repository import ROOT

SPARK_PAGES = [
    # Each command starts a JVM, so that only the page that everybody reads is done every time.
    pytest.param(page, marks=[] if page == "README.md" else [pytest.mark.slow])
    for page in PAGES
    if "spark" in groups_of(read_page(ROOT / page))
]
pytestmark = [
    pytest.mark.group("spark"),
    pytest.mark.group("namespaces"),
    pytest.mark.timeout(PAGE_SECONDS_MAX + 60),
]


@pytest.mark.parametrize("page", SPARK_PAGES)
def test_a_page_does_what_it_says(page: str, tmp_path: Path) -> None:
    read_in(tmp_path, page, "spark")
