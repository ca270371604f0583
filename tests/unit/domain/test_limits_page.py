"""The page about limits shows what the code has, all of it, and nothing else."""

from limits_page import FIXED, PAGE, PARTS, filled

from partibus.control.declared.limits_config import LIMITS
from partibus.domain import limits


def test_the_tables_of_the_page_are_those_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == filled(page), "run: python tools/limits_page.py --write"


def test_every_limit_has_a_row() -> None:
    rows = [key for part in PARTS.values() for key in part]
    assert sorted(rows) == sorted(LIMITS)
    constants = {n for n in vars(limits) if n.endswith(("_MAX", "_MIN", "_MOST"))} - {"INT32_MAX"}
    assert set(FIXED) == constants - {"DURATION_MAX_MS"}


def test_the_example_of_the_page_is_accepted() -> None:
    import re
    from pathlib import Path

    from partibus.control.declared.definitions import parse_toml
    from partibus.control.declared.limits_config import with_limits
    from partibus.domain.limits import STANDARD

    (text,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    definitions = parse_toml(Path("example.toml"), text)
    assert with_limits(STANDARD, definitions.source, definitions.limits).connections_max == 20
