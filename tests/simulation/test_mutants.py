"""Every bug that `make sim-mutants` plants is still a line of the product, and only one."""

import pytest
from sim_mutants import BUGS, SOURCE, Bug


def test_there_are_at_least_twenty() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 20


@pytest.mark.parametrize("bug", BUGS, ids=[bug.name for bug in BUGS])
def test_a_bug_can_be_planted(bug: Bug) -> None:
    text = (SOURCE / bug.module).read_text(encoding="utf-8")
    assert text.count(bug.right) == 1, "the line was changed: tools/sim_mutants.py follows it"
    assert bug.wrong != bug.right
