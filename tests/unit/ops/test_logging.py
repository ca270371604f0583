"""The form of the log."""

import logging
import re
from collections.abc import Iterator

import pytest

from partibus.ops.logging import configure_logging


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    root, asyncio_logger = logging.getLogger(), logging.getLogger("asyncio")
    handlers, level, asyncio_level = list(root.handlers), root.level, asyncio_logger.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    asyncio_logger.setLevel(asyncio_level)


def test_a_record_is_one_line_on_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    configure_logging()
    configure_logging()
    logging.getLogger("partibus.store").info("segment %d opened", 7)
    logging.getLogger("partibus.store").debug("not shown")
    out, err = capfd.readouterr()
    assert out == ""
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3} INFO    partibus\.store: segment 7 opened\n", err
    )
