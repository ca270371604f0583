"""Encryption at rest, from outside: what lies on the disk, and what becomes of a key."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from adversity.victim import Victim
from cli.command import Partibus

SECRETS = (b"topsecret", b"hidden-queue", b"SAS_KEY_VALUE", b"RootManage")
QUEUES = '[[queue]]\nname = "hidden-queue"\n[[queue]]\nname = "other"\n'
OFFLINE = Partibus(None)
MEMORY_FILES = Path("/dev/shm")


class Bus:
    """A server with a key, in a directory of its own."""

    def __init__(self, place: Path, *flags: str) -> None:
        place.mkdir(exist_ok=True)
        self.place = place
        self.key = place / "key"
        if not self.key.exists():
            self.key.write_text(os.urandom(32).hex(), encoding="ascii")
        self.given = ("--encryption-key-file", str(self.key))
        (place / "namespace.toml").write_text(QUEUES, encoding="utf-8")
        self.flags = flags
        self.server = self.with_flags(*self.given)

    def with_flags(self, *flags: str) -> Victim:
        self.server = Victim(self.place, self.place / "namespace.toml", *self.flags, *flags)
        return self.server

    @property
    def data(self) -> Path:
        return self.server.data

    @property
    def command(self) -> Partibus:
        return Partibus(self.server.connection_string)

    def send(self, *bodies: str) -> None:
        for body in bodies:
            self.command("send", "hidden-queue", body)

    def bodies(self) -> list[str]:
        done = self.command("peek", "hidden-queue", "--format", "json")
        return [json.loads(line)["body"] for line in done.out.splitlines()]

    def refusal(self, *flags: str) -> tuple[int | None, str]:
        code, said = self.with_flags(*flags).refusal()
        (line,) = [line for line in said.splitlines() if line.startswith("partibus: ")]
        assert "Traceback" not in said
        return code, line


@pytest.fixture(params=[("--stores", "2"), ("--stores", "2", "--workers", "2")])
def bus(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bus]:
    made = Bus(tmp_path / "bus", *request.param)
    made.server.start()
    yield made
    if made.server.is_started:
        made.server.sigkill()


def readable(directory: Path) -> dict[str, list[bytes]]:
    """Which secrets can be read in which files."""
    found = {}
    for path in directory.rglob("*"):
        if path.is_file():
            content = path.read_bytes().lower()
            told = [word for word in SECRETS if word.lower() in content]
            if told:
                found[str(path)] = told
    return found


def test_nothing_can_be_read_on_the_disk_and_all_of_it_with_the_key(
    bus: Bus, tmp_path: Path
) -> None:
    bus.send("topsecret one", "topsecret two")
    bus.command("queue", "create", "hidden-queue-2")
    bus.command("backup", "--to", str(tmp_path / "b"))
    assert readable(bus.data) == {}
    assert readable(tmp_path / "b") == {}
    assert bus.data.stat().st_mode & 0o077 == 0
    bus.server.sigkill()
    bus.server.start()
    assert bus.bodies() == ["topsecret one", "topsecret two"]
    assert bus.server.stop() == 0
    assert readable(bus.data) == {}
    bus.server.start()
    assert bus.bodies() == ["topsecret one", "topsecret two"]
    assert "hidden-queue-2" in bus.command("queue", "list").out
    bus.server.stop()
    check = ("store", "check", "--data", str(bus.data))
    assert OFFLINE(*check, *bus.given).code == 0
    refused = OFFLINE.try_(*check)
    assert (refused.code, "is encrypted" in refused.err) == (2, True)


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Bus]:
    made = Bus(tmp_path / "bus", "--stores", "2")
    made.server.start()
    yield made
    if made.server.is_started:
        made.server.sigkill()


def test_a_missing_or_wrong_key_is_refused_in_one_line(one: Bus, tmp_path: Path) -> None:
    one.send("topsecret")
    one.server.stop()
    before = {p: p.read_bytes() for p in one.data.rglob("*") if p.is_file() and p.name != "lock"}
    code, line = one.refusal()
    assert (code, "--encryption-key-file" in line) == (2, True)
    (tmp_path / "wrong").write_bytes(os.urandom(32))
    code, line = one.refusal("--encryption-key-file", str(tmp_path / "wrong"))
    assert (code, "does not open" in line) == (2, True)
    code, line = one.refusal("--encryption-key-file", str(tmp_path / "nowhere"))
    assert (code, "cannot be read" in line) == (2, True)
    code, line = one.refusal("--encryption-key-command", "false")
    assert (code, "exit code 1" in line) == (2, True)
    assert before == {
        p: p.read_bytes() for p in one.data.rglob("*") if p.is_file() and p.name != "lock"
    }
    one.with_flags("--encryption-key-command", f"cat {one.key}").start()
    assert one.bodies() == ["topsecret"]


def test_the_root_key_is_shown_to_who_has_the_key_of_the_data(one: Bus) -> None:
    show = ("policy", "show", "RootManageSharedAccessKey", "--keys", "--data", str(one.data))
    assert "SAS_KEY_VALUE" in OFFLINE(*show, *one.given).out
    refused = OFFLINE.try_(*show)
    assert (refused.code, "is encrypted" in refused.err) == (2, True)


def test_a_lost_key_file_is_said(one: Bus) -> None:
    one.server.stop()
    (one.data / "encryption.key").unlink()
    code, line = one.refusal(*one.given)
    assert (code, "encryption.key is missing" in line) == (3, True)
    assert one.refusal()[0] == 3


def test_encryption_is_turned_on_for_data_that_is_there(tmp_path: Path) -> None:
    bus = Bus(tmp_path / "bus", "--stores", "2")
    bus.with_flags().start()
    bus.send("old one", "old two")
    bus.server.sigkill()
    bus.with_flags(*bus.given).start()
    try:
        assert bus.bodies() == ["old one", "old two"]
        bus.send("topsecret new")
        bus.server.restart()
        assert bus.bodies() == ["old one", "old two", "topsecret new"]
        assert bus.server.stop() == 0
        found = {word for words in readable(bus.data).values() for word in words}
        assert b"topsecret" not in found
        names = {Path(name).name for name in readable(bus.data)}
        assert not [name for name in names if name.startswith("catalog")]
        bus.server.start()
        got = bus.command("receive", "hidden-queue", "--max", "3", "--format", "body").out
        assert "old two" in got and "topsecret new" in got
    finally:
        bus.server.sigkill()


def test_the_key_is_changed_while_the_server_is_stopped(one: Bus, tmp_path: Path) -> None:
    one.send("topsecret")
    new = tmp_path / "new"
    new.write_bytes(os.urandom(32))
    rekey = ("store", "rekey", "--data", str(one.data), "--new-key-file", str(new))
    assert OFFLINE.try_(*rekey, *one.given).code == 1, "the server runs"
    one.server.stop()
    assert OFFLINE.try_(*rekey).code == 2
    OFFLINE(*rekey, *one.given)
    assert one.refusal(*one.given)[0] == 2
    one.with_flags("--encryption-key-file", str(new)).start()
    assert one.bodies() == ["topsecret"]


def test_an_encrypted_backup_is_restored_in_its_encrypted_form(one: Bus, tmp_path: Path) -> None:
    one.send("topsecret")
    one.command("backup", "--to", str(tmp_path / "b"))
    one.server.stop()
    offline = ("backup", "--to", str(tmp_path / "b"), "--data", str(one.data))
    OFFLINE(*offline, *one.given)
    verify = ("backup", "verify", str(tmp_path / "b"))
    assert OFFLINE(*verify).code == 0
    assert OFFLINE(*verify, "--deep", *one.given).code == 0
    assert OFFLINE.try_(*verify, "--deep").code == 2
    for backup in OFFLINE("backup", "list", str(tmp_path / "b"), "--json").json["backups"]:
        copy = Bus(tmp_path / backup["id"], "--stores", "2")
        copy.key.write_bytes(one.key.read_bytes())
        flags = ("--data", str(copy.data), "--backup", backup["id"])
        OFFLINE("restore", str(tmp_path / "b"), *flags)
        assert readable(copy.data) == {}
        copy.server.start()
        assert copy.bodies() == ["topsecret"]
        copy.server.stop()


def test_what_a_killed_server_left_in_memory_is_cleared(one: Bus) -> None:
    def left() -> set[str]:
        return {path.name for path in MEMORY_FILES.glob("partibus-*")}

    one.server.sigkill()
    killed = left()
    one.server.start()
    assert one.server.stop() == 0
    assert len(killed - left()) >= 1
