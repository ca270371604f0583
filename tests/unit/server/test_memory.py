"""How much memory the server may use for messages on their way."""

import os
from pathlib import Path

import pytest

from partibus.gateway.memory.account import MEMORY_BYTES_DEFAULT
from partibus.server import memory
from partibus.server.config import ServeSettings
from partibus.server.memory import memory_limit_bytes, usable_bytes

RAM = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_without_a_limit_of_the_container_it_is_the_machine(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("max\n", encoding="ascii")
    assert usable_bytes(tmp_path, tmp_path / "none") == RAM


@pytest.mark.parametrize(
    ("file", "cgroup"),
    [
        ("memory.max", ""),
        ("memory/memory.limit_in_bytes", ""),
        ("pod/memory.max", "0::/pod/bus\n"),
        ("pod/bus/memory.max", "0::/pod/bus\n"),
        ("memory/pod/memory.limit_in_bytes", "5:cpu:/x\n4:memory:/pod\n"),
    ],
)
def test_the_least_limit_of_the_groups_it_is_in_counts(
    tmp_path: Path, file: str, cgroup: str
) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("1000000\n", encoding="ascii")
    of_process = tmp_path / "cgroup"
    of_process.write_text(cgroup, encoding="ascii")
    assert usable_bytes(tmp_path, of_process) == 1_000_000


def test_the_default_is_a_quarter_of_what_is_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "usable_bytes", lambda: 400_000_000)
    assert memory_limit_bytes(ServeSettings()) == 100_000_000
    monkeypatch.setattr(memory, "usable_bytes", lambda: 1 << 40)
    assert memory_limit_bytes(ServeSettings()) == MEMORY_BYTES_DEFAULT


def test_workers_share_what_was_given() -> None:
    assert memory_limit_bytes(ServeSettings(memory_limit=64 << 20)) == 64 << 20
    assert memory_limit_bytes(ServeSettings(memory_limit=64 << 20, workers=4)) == 16 << 20
