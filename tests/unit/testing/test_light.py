"""The kit is loaded in every run of pytest on a machine that has it: it must weigh nothing."""

import subprocess
import sys

import pytest

from partibus import testing
from support.server import environment


def loaded_by(statement: str) -> set[str]:
    program = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=environment(),
        check=True,
    )
    return {name for name in done.stdout.split() if name.split(".")[0] == "partibus"}


def test_the_plug_in_loads_nothing_of_the_bus() -> None:
    assert loaded_by("import partibus.testing.plugin") == {
        "partibus",
        "partibus.testing",
        "partibus.testing.plugin",
    }


def test_the_handles_load_no_server() -> None:
    loaded = loaded_by("from partibus.testing import Server, Namespace")
    assert not any(name.startswith("partibus.server") for name in loaded)


def test_every_name_is_there() -> None:
    for name in testing.__all__:
        assert getattr(testing, name) is not None
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = testing.nothing_of_the_kind
