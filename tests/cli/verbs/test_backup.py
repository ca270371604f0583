"""Backups of a running server and of a stopped one, and what is restored from them."""

import json
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from adversity.victim import Victim
from adversity.waiting import wait_until
from cli.command import Done, Partibus

STORES = ("--stores", "2")
QUEUES = "\n".join(f'[[queue]]\nname = "{name}"\n' for name in ("first", "second"))
LISTENER = '[[policy]]\nname = "Reader"\nkey = "reader-key"\nrights = ["Listen"]\n'


class Bus:
    """A server in a directory of its own, and the command line."""

    def __init__(self, place: Path) -> None:
        place.mkdir(exist_ok=True)
        config = place / "namespace.toml"
        config.write_text(f"{QUEUES}\n{LISTENER}", encoding="utf-8")
        self.server = Victim(place, config, *STORES)

    @property
    def data(self) -> Path:
        return self.server.data

    @property
    def command(self) -> Partibus:
        return Partibus(self.server.connection_string)

    def start(self) -> "Bus":
        self.server.start()
        return self

    def send(self, queue: str, *bodies: str) -> None:
        for body in bodies:
            self.command("send", queue, body)

    def bodies(self, queue: str) -> list[str]:
        done = self.command("peek", queue, "--format", "json")
        return [json.loads(line)["body"] for line in done.out.splitlines()]


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[Bus]:
    made = Bus(tmp_path / "bus").start()
    yield made
    if made.server.is_started:
        made.server.sigkill()


@pytest.fixture
def restored(tmp_path: Path) -> Iterator[Bus]:
    made = Bus(tmp_path / "restored")
    yield made
    if made.server.is_started:
        made.server.sigkill()


OFFLINE = Partibus(None)


def backup(bus: Bus, to: Path) -> dict[str, object]:
    made: dict[str, object] = bus.command("backup", "--to", str(to), "--json").json
    return made


def refused(done: Done, code: int, *words: str) -> None:
    assert done.code == code, done
    assert done.err.startswith("partibus: ")
    assert len(done.err.splitlines()) == 1
    for word in words:
        assert word in done.err


def test_what_was_sent_is_there_after_a_restore(bus: Bus, restored: Bus, tmp_path: Path) -> None:
    bus.send("first", "one", "two")
    backup(bus, tmp_path / "b")
    bus.send("first", "too late")
    OFFLINE("restore", str(tmp_path / "b"), "--data", str(restored.data))
    assert OFFLINE("store", "check", "--data", str(restored.data)).code == 0
    restored.start()
    assert restored.bodies("first") == ["one", "two"]
    restored.send("first", "three")
    assert restored.bodies("first") == ["one", "two", "three"]
    again = backup(restored, tmp_path / "b")
    assert OFFLINE("backup", "verify", str(tmp_path / "b"), "--deep").code == 0
    assert len(OFFLINE("backup", "list", str(tmp_path / "b"), "--json").json["backups"]) == 2
    assert again["online"] is True


def test_an_older_backup_is_restored_by_its_id(bus: Bus, restored: Bus, tmp_path: Path) -> None:
    bus.send("first", "one")
    older = backup(bus, tmp_path / "b")
    bus.send("first", "two")
    backup(bus, tmp_path / "b")
    flags = ("--data", str(restored.data), "--backup", str(older["id"]))
    OFFLINE("restore", str(tmp_path / "b"), *flags)
    assert restored.start().bodies("first") == ["one"]


def test_a_stopped_server_is_backed_up_by_its_directory(
    bus: Bus, restored: Bus, tmp_path: Path
) -> None:
    bus.send("second", "one")
    refused(
        OFFLINE.try_("backup", "--to", str(tmp_path / "b"), "--data", str(bus.data)), 1, "in use"
    )
    bus.server.sigkill()
    OFFLINE("backup", "--to", str(tmp_path / "b"), "--data", str(bus.data))
    assert OFFLINE("backup", "verify", str(tmp_path / "b"), "--deep").code == 0
    OFFLINE("restore", str(tmp_path / "b"), "--data", str(restored.data))
    assert restored.start().bodies("second") == ["one"]


def test_only_whoever_manages_the_namespace_makes_backups(bus: Bus, tmp_path: Path) -> None:
    key = bus.server.connection_string.replace("RootManageSharedAccessKey", "Reader")
    reader = Partibus(key.replace("SAS_KEY_VALUE", "reader-key"))
    done = reader.try_("backup", "--to", str(tmp_path / "b"))
    refused(done, 6, "Manage")
    refused(OFFLINE.try_("backup", "list", str(tmp_path / "elsewhere")), 2, "holds no backups")


def test_a_damaged_backup_is_found_and_not_restored(
    bus: Bus, restored: Bus, tmp_path: Path
) -> None:
    bus.send("first", "one")
    backup(bus, tmp_path / "b")
    for path in (tmp_path / "b" / "objects").glob("??/*"):
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    done = OFFLINE.try_("backup", "verify", str(tmp_path / "b"))
    assert done.code == 3
    assert "problem(s)" in done.out
    done = OFFLINE.try_("restore", str(tmp_path / "b"), "--data", str(restored.data))
    refused(done, 3, "damaged", "Nothing was restored")
    assert not restored.data.exists()


def test_a_restore_never_writes_over_anything(bus: Bus, tmp_path: Path) -> None:
    backup(bus, tmp_path / "b")
    done = OFFLINE.try_("restore", str(tmp_path / "b"), "--data", str(bus.data))
    refused(done, 2, "is not empty")


def test_half_a_restore_is_not_started(bus: Bus, restored: Bus, tmp_path: Path) -> None:
    """Whatever is missing, as long as the restore has not said that it is finished."""
    bus.send("first", "one")
    backup(bus, tmp_path / "b")
    OFFLINE("restore", str(tmp_path / "b"), "--data", str(restored.data))
    (restored.data / "restoring").write_bytes(b"")
    code, text = restored.server.refusal()
    assert code == 3
    assert "interrupted" in text
    shutil.rmtree(restored.data / "store-1")
    assert restored.server.refusal()[0] == 3
    (restored.data / "catalog.db").unlink()
    assert restored.server.refusal()[0] == 3
    done = OFFLINE.try_("restore", str(tmp_path / "b"), "--data", str(restored.data))
    refused(done, 2, "interrupted")


def test_a_copy_with_a_new_identity_is_another_namespace(
    bus: Bus, restored: Bus, tmp_path: Path
) -> None:
    bus.send("first", "one")
    original = backup(bus, tmp_path / "b")
    OFFLINE("restore", str(tmp_path / "b"), "--data", str(restored.data), "--new-identity")
    assert OFFLINE("store", "check", "--data", str(restored.data)).code == 0
    assert restored.start().bodies("first") == ["one"]
    assert backup(restored, tmp_path / "c")["namespace"] != original["namespace"]
    done = restored.command.try_("backup", "--to", str(tmp_path / "b"))
    refused(done, 2, "another namespace")
    restored.server.stop()
    bus.server.stop()
    shutil.rmtree(bus.data / "store-0")
    shutil.copytree(restored.data / "store-0", bus.data / "store-0")
    code, text = bus.server.refusal()
    assert (code, "belongs to namespace" in text) == (3, True)


def test_old_backups_are_pruned(bus: Bus, tmp_path: Path) -> None:
    for body in ("one", "two", "three"):
        bus.send("first", body)
        latest = backup(bus, tmp_path / "b")
    pruned = OFFLINE("backup", "prune", str(tmp_path / "b"), "--keep", "1", "--json").json
    assert len(pruned["dropped"]) == 2
    assert pruned["files"] > 0
    left = OFFLINE("backup", "list", str(tmp_path / "b"), "--json").json["backups"]
    assert [one["id"] for one in left] == [latest["id"]]
    assert OFFLINE("backup", "verify", str(tmp_path / "b"), "--deep").code == 0


def test_stores_are_restored_to_the_places_they_are_given(bus: Bus, tmp_path: Path) -> None:
    bus.send("first", "one")
    backup(bus, tmp_path / "b")
    places = [f"--store={tmp_path / name}" for name in ("x", "y")]
    data = str(tmp_path / "new")
    refused(
        OFFLINE.try_("restore", str(tmp_path / "b"), "--data", data, places[0]), 2, "2 store(s)"
    )
    done = OFFLINE("restore", str(tmp_path / "b"), "--data", data, *places)
    assert f"--store {tmp_path / 'x'} --store {tmp_path / 'y'}" in done.out
    assert OFFLINE("store", "check", "--data", data, *places).code == 0


def test_a_reader_that_vanishes_leaves_nothing_behind(bus: Bus, tmp_path: Path) -> None:
    """Killed while it waits: the next one is told how long the files are held at most."""
    from partibus.cli.place import find_place
    from partibus.cli.remote import RemoteServer

    server = RemoteServer(find_place(bus.server.connection_string))
    held = server.ask("POST", "/backups")
    refused(bus.command.try_("backup", "--to", str(tmp_path / "b")), 1, held["id"], "60 seconds")
    server.ask("DELETE", f"/backups/{held['id']}")
    backup(bus, tmp_path / "b")


def test_files_of_the_server_that_are_not_captured_are_not_handed_out(bus: Bus) -> None:
    from partibus.cli.failures import CommandFailed
    from partibus.cli.place import find_place
    from partibus.cli.remote import RemoteServer

    server = RemoteServer(find_place(bus.server.connection_string))
    held = server.ask("POST", "/backups")
    for path in ("0/lock", "7/durable", "0/..%2Fcatalog.db", "x/durable"):
        with pytest.raises(CommandFailed):
            server.ask("GET", f"/backups/{held['id']}/stores/{path}")
    with pytest.raises(CommandFailed, match="has ended"):
        server.ask("GET", "/backups/20260101T000000Z-abcdef/stores/0/durable")


def test_the_server_stops_while_a_backup_is_held(bus: Bus) -> None:
    from partibus.cli.place import find_place
    from partibus.cli.remote import RemoteServer

    RemoteServer(find_place(bus.server.connection_string)).ask("POST", "/backups")
    assert bus.server.stop() == 0


def test_only_the_owner_reads_what_was_restored(bus: Bus, restored: Bus, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        backup(bus, tmp_path / "b")
        OFFLINE("restore", str(tmp_path / "b"), "--data", str(restored.data))
    finally:
        os.umask(before)
    for path in (restored.data, *restored.data.rglob("*")):
        expected = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == expected, path


def test_a_server_in_memory_says_that_there_is_nothing(tmp_path: Path) -> None:
    config = tmp_path / "namespace.toml"
    config.write_text(QUEUES, encoding="utf-8")
    server = Victim(tmp_path, config, "--memory")
    server.start()
    try:
        command = Partibus(server.connection_string)
        refused(command.try_("backup", "--to", str(tmp_path / "b")), 2, "in memory")
        wait_until(lambda: server.runs, "the server runs on")
    finally:
        server.sigkill()
