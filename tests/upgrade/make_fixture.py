"""Makes a fixture: a data directory as the release of a commit wrote it, and what was in it.

    python tests/upgrade/make_fixture.py NAME COMMIT LEVEL

The commit is checked out into a temporary worktree and its server is run: filled, stopped, started
again, filled more, and killed. So there is a checkpoint and a log behind it. From level 5 on
segments are small, and messages are sent and received until there is a compacted file.
"""

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from support.server import ServerProcess  # noqa: E402
from upgrade.contents import COMPACTED, Traffic, namespace, picture  # noqa: E402

SMALL_SEGMENTS: Final = """
import partibus.store.files.segment as segment
segment.SEGMENT_BYTES = 128 << 10
import partibus.fragment.upkeep.log as upkeep
upkeep.CHECKPOINT_BYTES_MIN = upkeep.DEAD_BYTES_MIN = 128 << 10
"""
SLACK_BYTES: Final = 4096
"""What stays of the zeros behind the last entry."""


class OldServer(ServerProcess):
    """The server of a worktree."""

    def __init__(self, place: Path, config: Path, source: Path, compacts: bool) -> None:
        super().__init__(place, config, "--stores", "2")
        self.environment = {"PYTHONPATH": str(source / "src")}
        self._compacts = compacts

    def start(self) -> None:
        import support.server as module

        run = subprocess.Popen

        def popen(command: list[str], **options: object) -> object:
            if self._compacts:
                launch = f"{SMALL_SEGMENTS}\nfrom partibus.cli.main import main\nmain()"
                command = [command[0], "-c", launch, *command[3:]]
            return run(command, **options)  # type: ignore[call-overload]

        module.subprocess.Popen = popen  # type: ignore[assignment, misc]
        try:
            super().start()
        finally:
            module.subprocess.Popen = run  # type: ignore[misc]


def make(name: str, commit: str, level: int) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        source = Path(temporary) / "source"
        git = ["git", "-C", str(ROOT)]
        subprocess.run([*git, "worktree", "add", "-q", "--detach", str(source), commit], check=True)
        try:
            write(name, commit, level, Path(temporary), source)
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(source)], check=True)


def write(name: str, commit: str, level: int, place: Path, source: Path) -> None:
    config = place / "namespace.toml"
    config.write_text(namespace(level), encoding="utf-8")
    server = OldServer(place, config, source, level >= COMPACTED)
    server.start()
    fill(server, level, "first")
    if level >= COMPACTED:
        churn(server)
    server.stop()
    server.start()
    fill(server, level, "second")
    shown = picture(server.connection_string, level)
    server.sigkill()
    facts = {"commit": commit, "level": level, "holds": shown}
    text = json.dumps(facts, indent=1, ensure_ascii=False)
    (HERE / "fixtures" / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    pack(server.data, HERE / "fixtures" / f"{name}.tar.xz")


def fill(server: ServerProcess, level: int, turn: str) -> None:
    traffic = Traffic(server.connection_string, level)
    traffic.fill(turn)
    traffic.close()


def churn(server: ServerProcess) -> None:
    """Send and receive until the store has compacted its segments; one in twenty stays."""
    from azure.servicebus import ServiceBusClient, ServiceBusMessage

    with ServiceBusClient.from_connection_string(server.connection_string) as client:
        for turn in range(60):
            with client.get_queue_sender("churn") as sender:
                bodies = ["x" * 1000] * 19 + [f"kept {turn}"]
                sender.send_messages([ServiceBusMessage(body) for body in bodies])
            with client.get_queue_receiver("churn") as receiver:
                done = 0
                while done < 19:
                    for message in receiver.receive_messages(40, max_wait_time=5):
                        if str(message).startswith("x"):
                            receiver.complete_message(message)
                            done += 1
                        else:
                            receiver.abandon_message(message)
            if list(server.data.rglob("*.kept")):
                return
    raise SystemExit("nothing was compacted")


def pack(data: Path, target: Path) -> None:
    """The directory without the reserved room behind the last entry, and without keys of TLS."""
    for path in data.rglob("*.seg"):
        content = path.read_bytes()
        end = len(content.rstrip(b"\0"))
        os.truncate(path, min(len(content), end + SLACK_BYTES))
    with tarfile.open(target, "w:xz") as archive:
        for path in sorted(data.rglob("*")):
            if path.is_file() and "tls" not in path.parts and path.name not in ("lock", "reserve"):
                info = archive.gettarinfo(path, str(path.relative_to(data)))
                info.uid = info.gid = info.mtime = 0
                info.uname = info.gname = ""
                with path.open("rb") as file:
                    archive.addfile(info, file)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("commit")
    parser.add_argument("level", type=int)
    given = parser.parse_args()
    make(given.name, given.commit, given.level)
