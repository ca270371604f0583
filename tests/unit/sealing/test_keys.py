"""The user's key and the data key behind it."""

import base64
import os
import stat
from pathlib import Path

import pytest

from partibus.domain.errors import ConfigError, StoreCorrupt
from partibus.sealing.keys import (
    KEY_FILE_NAME,
    change_user_key,
    key_from_command,
    key_from_file,
    make_data_key,
    open_data_key,
)

KEY = bytes(range(32))
OTHER = os.urandom(32)


@pytest.mark.parametrize(
    "content", [KEY, KEY.hex().encode(), KEY.hex().encode() + b"\n", base64.b64encode(KEY) + b"\n"]
)
def test_a_key_is_read_in_any_form(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key").write_bytes(content)
    assert key_from_file(tmp_path / "key") == KEY
    assert key_from_command(f"cat '{tmp_path / 'key'}'") == KEY


@pytest.mark.parametrize("content", [b"", b"password", b"x" * 31, KEY.hex().encode()[:-2]])
def test_what_is_no_key_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(ConfigError, match="openssl rand"):
        key_from_file(tmp_path / "key")


def test_a_file_or_command_that_fails_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        key_from_file(tmp_path / "missing")
    with pytest.raises(ConfigError, match="exit code 1"):
        key_from_command("false")
    with pytest.raises(ConfigError, match="did not run"):
        key_from_command(str(tmp_path / "missing"))


def test_the_vault_opens_with_its_key_alone(tmp_path: Path) -> None:
    piece = make_data_key(tmp_path, KEY).store_sealer(0).seal(b"x", b"p")
    assert open_data_key(tmp_path, KEY).store_sealer(0).open(piece, b"p") == b"x"
    with pytest.raises(ConfigError, match="does not open"):
        open_data_key(tmp_path, OTHER)
    assert stat.S_IMODE((tmp_path / KEY_FILE_NAME).stat().st_mode) == 0o600


def test_the_key_is_changed_and_the_data_stays(tmp_path: Path) -> None:
    piece = make_data_key(tmp_path, KEY).catalog_sealer().seal(b"x", b"p")
    change_user_key(tmp_path, KEY, OTHER)
    assert open_data_key(tmp_path, OTHER).catalog_sealer().open(piece, b"p") == b"x"
    with pytest.raises(ConfigError, match="does not open"):
        open_data_key(tmp_path, KEY)
    with pytest.raises(ConfigError, match="does not open"):
        change_user_key(tmp_path, KEY, KEY)


def test_a_damaged_key_file_is_said(tmp_path: Path) -> None:
    make_data_key(tmp_path, KEY)
    file = tmp_path / KEY_FILE_NAME
    file.write_bytes(file.read_bytes()[:20])
    with pytest.raises(StoreCorrupt, match="damaged"):
        open_data_key(tmp_path, KEY)
