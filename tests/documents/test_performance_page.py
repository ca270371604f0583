"""The page on performance has the numbers of the run that is kept, and no others."""

import json

from performance_page import PAGE, RUN, filled


def test_the_page_is_what_the_run_wrote() -> None:
    page = PAGE.read_text(encoding="utf-8")
    run = json.loads(RUN.read_text(encoding="utf-8"))
    assert page == filled(page, run), "run: python tools/performance_page.py --write"
