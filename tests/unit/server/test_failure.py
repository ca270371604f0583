"""Failures as one line and an exit code."""

import pytest

from partibus.domain.errors import BusError, ConfigError, StoreCorrupt, StoreUnavailable
from partibus.server.failure import report


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ConfigError("bus.toml:3: queue[1].name is missing"), 2, "bus.toml:3: queue[1].name is"),
        (StoreCorrupt("0.seg, offset 64: checksum"), 3, "0.seg, offset 64: checksum"),
        (StoreUnavailable("store 1\nis down"), 1, "store 1 is down"),
        (OSError(28, "No space left on device"), 1, "No space left on device"),
        (PermissionError(13, "Permission denied", "/data"), 1, "/data: Permission denied"),
    ],
)
def test_a_failure_is_one_line_and_a_code(
    error: BusError | OSError, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(error) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("partibus: ")
    assert line in err
    assert err.count("\n") == 1
