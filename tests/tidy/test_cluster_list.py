"""What `make test-cluster` leaves out exists: an entry that names nothing would be a mistake."""

import pytest

from conformance.one_machine import HERE, LEFT_OUT


@pytest.mark.parametrize("start", LEFT_OUT)
def test_each_entry_names_tests(start: str) -> None:
    file, _, name = start.partition("::")
    test = name.partition("[")[0]  # without its parameters
    assert (HERE / file).exists()
    assert not test or f"def {test}" in (HERE / file).read_text(encoding="utf-8")
