"""The catalog at a start: which of them shows the root key."""

import asyncio
import contextlib
import logging
import sqlite3
from pathlib import Path

import pytest

from partibus.control.declared.definitions import Definitions
from partibus.domain.clock import SystemClock
from partibus.server.config import resolve_configuration
from partibus.server.data_directory.catalog_start import (
    connection_string,
    declare,
    declare_in_turn,
    open_catalog,
)


def shown(
    tmp_path: Path, host: str, definitions: Definitions | None = None, emulator: bool = False
) -> str:
    flags = {"data": tmp_path, "host": host, "emulator": emulator or None}
    settings = resolve_configuration(flags, {}).settings
    catalog = open_catalog(tmp_path / "catalog.db", settings, SystemClock())
    try:
        shows_key = declare(catalog, settings, definitions)
        return connection_string(catalog, tmp_path, shows_key, "h", 5672)
    finally:
        catalog.close()


def test_the_development_key_is_no_secret(tmp_path: Path) -> None:
    first, second = shown(tmp_path, "127.0.0.1"), shown(tmp_path, "127.0.0.1")
    assert first == second
    assert ";SharedAccessKey=SAS_KEY_VALUE;" in first


def test_a_secret_is_shown_by_the_first_start_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    key = shown(tmp_path, "0.0.0.0").partition("SharedAccessKey=")[2].partition(";")[0]
    assert len(key) == 44
    later = shown(tmp_path, "0.0.0.0")
    assert key not in later
    assert ";SharedAccessKey=<run: partibus policy show Root" in later
    assert f"--keys --data {tmp_path}>;UseDevelopmentEmulator=true;" in later
    assert "has a new key" in caplog.text
    assert key not in caplog.text


def test_a_key_that_takes_the_place_of_the_published_one_is_shown(tmp_path: Path) -> None:
    shown(tmp_path, "127.0.0.1")
    assert "<run:" not in shown(tmp_path, "0.0.0.0")
    assert "<run:" in shown(tmp_path, "127.0.0.1")


@pytest.mark.rule("EMU-7")
def test_an_emulator_takes_the_published_key_from_everywhere_and_warns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        caplog.clear()
        assert ";SharedAccessKey=SAS_KEY_VALUE;" in shown(tmp_path, "0.0.0.0", emulator=True)
        assert "SAS_KEY_VALUE gives every right to anyone who reaches the ports" in caplog.text
    caplog.clear()
    shown(tmp_path, "127.0.0.1", emulator=True)
    assert caplog.text == ""
    assert "SAS_KEY_VALUE" not in shown(tmp_path, "0.0.0.0")


def test_an_emulator_does_not_open_a_directory_that_has_a_secret_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shown(tmp_path, "0.0.0.0")
    assert "SharedAccessKey=<run:" in shown(tmp_path, "0.0.0.0", emulator=True)
    assert "has a key of its own, so SAS_KEY_VALUE is not valid here" in caplog.text


def test_a_node_has_no_directory_with_the_key(tmp_path: Path) -> None:
    shown(tmp_path, "0.0.0.0")
    settings = resolve_configuration({"data": tmp_path, "host": "0.0.0.0"}, {}).settings
    catalog = open_catalog(tmp_path / "catalog.db", settings, SystemClock())
    text = connection_string(catalog, None, False, "h", 5672)
    catalog.close()
    assert ";SharedAccessKey=<shown by the first start of the cluster>;" in text


async def test_a_node_that_starts_waits_for_another_that_is_declaring(tmp_path: Path) -> None:
    settings = resolve_configuration({"data": tmp_path}, {}).settings
    catalog = open_catalog(tmp_path / "catalog.db", settings, SystemClock())
    with contextlib.closing(sqlite3.connect(tmp_path / "catalog.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        declaring = asyncio.ensure_future(declare_in_turn(catalog, settings, None))
        await asyncio.sleep(0)  # The first attempt finds the catalog busy.
        assert not declaring.done()
        other.rollback()
        assert await declaring
    catalog.close()
